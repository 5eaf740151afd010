package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
	"github.com/dts-sched/dts/lua"
)

const (
	runsPage  = 20               // runs whose texts and definitions one pipeline reads
	stepsPage = 200              // steps that one script examines; one run may have more
	leftAlone = 11 * time.Minute // a leader leaves no run alone for so long
)

const (
	runLost     = "run-lost"
	runUnseen   = "run-not-looked-at"
	runBehind   = "run-behind"
	runAhead    = "run-ahead"
	stepOrphan  = "step-orphan"
	stepExpires = "step-expires"
)

var runChecks = []string{runLost, runUnseen, runBehind, runAhead}

// runningRuns are the runs of workflows of a partition that run, with their steps.
func (e *examination) runningRuns(p int) collection {
	k := e.o.Layout.Keys.Partition(p)
	look := func(ctx context.Context, names []string) error {
		states, err := e.o.Layout.DB.HMGet(ctx, string(k.States()), names...).Result()
		if err != nil {
			return err
		}
		var runs []string
		for i, state := range states {
			if strings.Contains(codec.Text(state), " "+task.FlowRun) {
				runs = append(runs, names[i])
			}
		}
		for some := range slices.Chunk(runs, runsPage) {
			if err := e.examineRuns(ctx, p, some); err != nil {
				return err
			}
		}
		return nil
	}
	return e.pages("runs of workflows", runChecks, e.o.Layout.DB.ZScan, string(k.Running()), orphansPage, look)
}

// examineRuns examines runs of a partition, and repairs them.
func (e *examination) examineRuns(ctx context.Context, p int, runs []string) error {
	items, err := e.readRuns(ctx, p, runs)
	if err != nil {
		return err
	}
	for len(runs) > 0 {
		n, steps := 1, len(items[runs[0]])
		for n < len(runs) && steps+len(items[runs[n]]) <= stepsPage {
			steps += len(items[runs[n]])
			n++
		}
		e.entries += steps
		if err := e.examineSome(ctx, p, runs[:n], items); err != nil {
			return err
		}
		runs = runs[n:]
	}
	return nil
}

// examineSome examines runs with one script.
func (e *examination) examineSome(
	ctx context.Context, p int, runs []string, items map[string][]lua.ExamineRunsItem,
) error {
	looked, err := e.inTurn(ctx, runs, len(runs), runChecks, func(some []string) error {
		call := lua.ExamineRuns{
			Runs: e.o.Layout.Keys.Partition(p).Runs(), Checks: e.wanted, Repair: e.Repair, Alone: leftAlone,
			Wake: e.o.Layout.Keys.Wake(p), Items: nil,
		}
		for _, run := range some {
			call.Items = append(call.Items, items[run]...)
		}
		reply, err := redisx.Run(ctx, e.o.Layout.DB, call)
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, runChecks...)
	return err
}

// readRuns reads what the script needs to know of runs: what their texts say of their steps. Error: one of Redis.
func (e *examination) readRuns(ctx context.Context, p int, runs []string) (map[string][]lua.ExamineRunsItem, error) {
	k := e.o.Layout.Keys.Partition(p)
	pipe := e.o.Layout.DB.Pipeline()
	var read [3]*redis.SliceCmd
	for i, hash := range []string{string(k.States()), string(k.Plans()), string(k.Runs())} {
		read[i] = pipe.HMGet(ctx, hash, runs...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	items := make(map[string][]lua.ExamineRunsItem, len(runs))
	flows := make(map[string]*workflow.Flow) // by the text of the definition: many runs have the same
	for i, run := range runs {
		state, plan, told := codec.Text(read[0].Val()[i]), codec.Text(read[1].Val()[i]), codec.Text(read[2].Val()[i])
		flow, known := flows[plan]
		if !known {
			flow = flowOf(plan)
			flows[plan] = flow
		}
		items[run] = e.itemsOf(run, state, flow, told)
	}
	return items, nil
}

// flowOf returns the workflow with that definition; nil if nobody can read it. Then its run fails when it is planned.
func flowOf(plan string) *workflow.Flow {
	d, _, err := text.ParsePlan(task.DefaultNamespace, plan)
	if err != nil {
		return nil
	}
	flow, err := workflow.Compile(d)
	if err != nil {
		return nil
	}
	return flow
}

// itemsOf returns what the script needs to know of a run that has that state, workflow and text.
func (e *examination) itemsOf(run, state string, flow *workflow.Flow, told string) []lua.ExamineRunsItem {
	item := lua.ExamineRunsItem{Run: run, Digest: "", Anew: "", Step: "", State: ""}
	if told != "" {
		item.Digest = codec.Digest(told)
	}
	ref, err := task.ParseRef(run)
	own := task.Task{Definition: task.Definition{Ref: ref}}
	if flow == nil || err != nil || codec.DecodeState(&own, state) != nil {
		return []lua.ExamineRunsItem{item}
	}
	if workflow.IsOfLaterRelease(told) {
		e.notLooked(run+" was not looked at: a later release has written what became of its steps", runChecks...)
		return nil
	}
	known, err := flow.DecodeRun(told)
	if err != nil {
		item.Anew = workflow.BeginAnew(flow, own.Attempt, own.StartedAt).Encode()
		return []lua.ExamineRunsItem{item}
	}
	items := []lua.ExamineRunsItem{item}
	for i, s := range known.Steps {
		of := item
		of.Step, of.State = ref.Step(flow.StepID(i)).String(), string(s.State)
		items = append(items, of)
	}
	return items
}
