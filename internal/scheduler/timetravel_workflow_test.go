package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// nightly is the definition of the runs of these tests. Some of its steps fail by chance, once or for good.
const nightly = head + tail

const head = `{"params": {"night": {"type": "integer", "required": true}},
	"steps": [
		{"id": "extract", "task": {
			"type": "echo", "payload": {"night": "${{ params.night }}"}, "retry": {"max_attempts": 2}}},
		{"id": "clean", "needs": ["extract"], "task": {"type": "echo"}},
		{"id": "count", "needs": ["extract"], "allow_failure": true, "task": {"type": "echo", "retry": {"max_attempts": 1}}},
		{"id": "choose", "needs": ["count"], "decide": [
			{"when": "params.night % 2 == 0", "then": ["even"]}, {"then": ["odd"]}]},
		{"id": "even", "needs": ["choose"], "task": {"type": "echo"}},
		{"id": "odd", "needs": ["choose"], "task": {"type": "echo"}},
		{"id": "load", "needs": ["clean", "even", "odd"], "task": {"type": "echo", "retry": {"max_attempts": 1}}}`

const tail = `],
	"on_failure": [{"id": "alert", "task": {"type": "echo"}}],
	"finally": [{"id": "tidy", "task": {"type": "echo"}}],
	"output": {"load": "${{ steps.load.state }}"}}`

// patient is nightly with steps that wait.
const patient = head + `,
		{"id": "cool", "needs": ["extract"], "wait": {"for": "10m"}},
		{"id": "paid", "needs": ["cool"], "wait": {"signal": "paid", "timeout": "1h", "on_timeout": "continue"}},
		{"id": "ok", "needs": ["paid"], "wait": {
			"approval": {"by": ["ops"]}, "timeout": "1h", "on_timeout": "skip"}},
		{"id": "ship", "needs": ["ok"], "task": {"type": "echo", "payload": "${{ steps.paid.output }}"}}` + tail

// runOf returns what is in Redis of a run: its own task, what became of its steps, and their tasks.
func (v *voyage) runOf(ref task.Ref) (own partition.Run, flow *workflow.Flow, run workflow.Run, steps []workflow.Task) {
	v.t.Helper()
	p := v.store.Partitions.At(0)
	reads, err := p.ReadRuns(v.t.Context(), partition.ReadRun{Ref: ref})
	testkit.Must(v.t, err)
	d, _, err := text.ParsePlan(ref.Namespace, reads[0].Plan)
	if err != nil {
		v.t.Fatalf("%s, which is %s: %v", ref.ID, reads[0].Task.State, err)
	}
	flow, err = workflow.Compile(d)
	testkit.Must(v.t, err)
	run, err = workflow.DecodeRun(reads[0].Text, flow.Len())
	testkit.Must(v.t, err)
	var refs []task.Ref
	for i := range flow.Len() {
		refs = append(refs, ref.Step(flow.StepID(i)))
	}
	found, err := p.ReadSteps(v.t.Context(), refs)
	testkit.Must(v.t, err)
	for i := range refs {
		t := found[i].Task
		steps = append(steps, workflow.Task{Step: i, State: t.State, Attempt: t.Attempt, Result: t.Result, Error: t.Error})
	}
	return reads[0], flow, run, steps
}

// chance is a number from 0 to n-1 that depends on a text only.
func chance(text string, n uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64() % n
}

// A run each hour, over the deaths of leaders and outages of Redis. Its steps wait for a time, a signal and an answer.
// Each ends, and ends as its audit says, no attempt of a step runs twice, and nothing that a run was told is lost.
func TestTravel_RunsOfWorkflowsEndAsTheirAuditSays(t *testing.T) {
	testkit.NotQuick(t)
	troubles := testkit.Amount(5, 60)
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	travel(t, from, slow, func(v *voyage) {
		v.start()
		v.start()
		v.worker.does(func(t task.Task) (time.Duration, error) {
			name := fmt.Sprint(t.Ref, t.Attempt)
			lasts := time.Duration(chance(name, 600)) * time.Second
			if chance(name+"end", 8) == 0 {
				return lasts, errors.New("by chance")
			}
			return lasts, nil
		})
		var refs []task.Ref
		has := &messages{signals: make(map[task.Ref][]string), answers: make(map[string][]workflow.Answer)}
		goes := func(at time.Time) { // while somebody answers
			for clock.Until(at) > 0 {
				v.talks(refs, has)
				v.pass(min(6*time.Minute, clock.Until(at)))
			}
		}
		for i := range troubles {
			start := from.Add(time.Duration(i) * 8 * time.Hour)
			for k := range 8 {
				ref := task.Ref{Namespace: "default", ID: fmt.Sprintf("night-%d-%d", i, k)}
				refs = append(refs, ref)
				payload, err := json.Marshal(map[string]any{
					"definition": json.RawMessage(patient), "params": map[string]any{"night": k},
				})
				testkit.Must(t, err)
				d := task.Definition{
					Ref: ref, Type: task.WorkflowType, Queue: task.WorkflowQueue, Payload: payload,
					RunAt: start.Add(time.Duration(k) * time.Hour), Retention: task.RetentionLimit,
				}
				for _, c := range v.store.Tasks.Create(v.t.Context(), []task.Definition{d.Normalize()}) {
					testkit.Must(v.t, c.Err)
				}
			}
			goes(start.Add(3*time.Hour + time.Minute))
			switch leader := v.leads(); i % 5 {
			case 0:
				v.killed(leader)
			case 1: // it has written a plan, and does not learn of it
				v.trapped(leader, "advance", answerLost)
			case 2: // it has planned, and nobody hears of it
				v.trapped(leader, "advance", sendLost)
			case 3: // it has claimed a run or a step
				v.trapped(leader, "claim", answerLost)
			case 4:
				v.outage(time.Hour)
				goes(start.Add(8 * time.Hour))
				continue
			}
			v.start()
			goes(start.Add(8 * time.Hour))
		}
		goes(clock.Now().Add(8 * time.Hour))
		v.audited(refs)
		v.heeded(refs, has)
		v.ranOnceEach()
	})
}

// audited checks that runs have ended as their audit says, and returns their own tasks.
func (v *voyage) audited(refs []task.Ref) (all []task.Task) {
	v.t.Helper()
	states := make(map[task.State]int)
	for _, ref := range refs {
		own, flow, run, steps := v.runOf(ref)
		all = append(all, own.Task)
		states[own.Task.State]++
		if !own.Task.State.Final() {
			v.t.Errorf("%s is %s: %s", ref.ID, own.Task.State, own.Text)
		}
		if findings := workflow.Audit(flow, run, own.Task.State, steps); len(findings) > 0 {
			v.t.Errorf("%s: %s", ref.ID, strings.Join(findings, "; "))
		}
	}
	if states[task.Succeeded] == 0 || states[task.Failed] == 0 {
		v.t.Errorf("there were these ends only: %v", states)
	}
	return all
}

// A schedule starts a run of a workflow every quarter of an hour, and two runs may run at once, over the deaths of
// leaders: never more of them run, each runs, and those that came first begin first.
func TestTravel_NoMoreRunsOfAWorkflowRunThanMay(t *testing.T) {
	testkit.NotQuick(t)
	days := testkit.Amount(1, 21)
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	travel(t, from, slow, func(v *voyage) {
		v.keeps("nightly", 2, nightly)
		v.worker.does(func(t task.Task) (time.Duration, error) {
			name := fmt.Sprint(t.Ref, t.Attempt)
			if chance(name+"end", 20) == 0 {
				return time.Minute, errors.New("by chance")
			}
			return time.Duration(chance(name, 360)) * time.Second, nil
		})
		v.start()
		v.put("quarters", schedule.Definition{
			Spec: cron("*/15 * * * *"), Overlap: schedule.OverlapAllow,
			Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: 20 * time.Hour},
			Task: task.Definition{
				Type: task.WorkflowType, Payload: []byte(`{"workflow": "nightly", "params": {"night": 1}}`),
				Retention: task.RetentionLimit,
			},
		})
		var refs []task.Ref
		for day := range days {
			for i := range 4 {
				v.start()
				v.until(from.Add(time.Duration(day)*24*time.Hour + time.Duration(i)*6*time.Hour + 3*time.Hour + time.Minute))
				v.killed(v.leads())
			}
		}
		v.start()
		v.until(from.Add(time.Duration(days)*24*time.Hour - time.Minute))
		_, err := v.store.Schedules.Pause(v.t.Context(), task.Ref{Namespace: "default", ID: "quarters"}, "", "")
		testkit.Must(v.t, err)
		v.pass(24 * time.Hour)
		for at := from.Add(15 * time.Minute); at.Before(from.Add(time.Duration(days) * 24 * time.Hour)); {
			refs = append(refs, task.Ref{Namespace: "default", ID: "quarters@" + schedule.TickName(at)})
			at = at.Add(15 * time.Minute)
		}
		runs := v.audited(refs)
		slices.SortFunc(runs, func(a, b task.Task) int { return a.DueAt.Compare(b.DueAt) })
		late := 0
		for i, run := range runs {
			side := 0
			for _, other := range runs {
				if !other.StartedAt.After(run.StartedAt) && other.FinishedAt.After(run.StartedAt) {
					side++
				}
			}
			if side > 2 {
				v.t.Errorf("%d runs ran when %s began", side, run.ID)
			}
			if i > 0 && run.DueAt.After(runs[i-1].DueAt) && run.StartedAt.Before(runs[i-1].StartedAt) {
				v.t.Errorf("%s began before %s", run.ID, runs[i-1].ID)
			}
			if run.StartedAt.Sub(run.DueAt) > time.Minute {
				late++
			}
		}
		if late == 0 {
			v.t.Error("no run had to wait")
		}
		v.ranOnceEach()
	})
}

// A run begins while nothing bounds how many run at once, so it has no place in the line. It begins again and gets one.
// Behind it waits a run that somebody cancels, and a third one, which must not wait for ever.
func TestTravel_ALineGoesOnWithoutThoseThatAreGone(t *testing.T) {
	for name, dies := range map[string]bool{"": false, "its leader dies meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			travel(t, from, slow, func(v *voyage) {
				ctx := v.t.Context()
				testkit.Must(v.t, v.store.Advance(ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
				put := func(most, revision int) {
					const steps = `[{"id": "load", "task": {"type": "echo", "retry": {"max_attempts": 1}}}]`
					d, err := text.Parse("default", `{"steps": `+steps+`}`)
					testkit.Must(v.t, err)
					d.Ref, d.MaxRuns = task.Ref{Namespace: "default", ID: "etl"}, most
					_, err = v.store.Workflows.Put(ctx, d, revision, "")
					testkit.Must(v.t, err)
				}
				start := func(id string) task.Ref {
					d := task.Definition{
						Ref: task.Ref{Namespace: "default", ID: id}, Type: task.WorkflowType, Queue: task.WorkflowQueue,
						Payload: []byte(`{"workflow": "etl"}`),
					}
					for _, c := range v.store.Tasks.Create(ctx, []task.Definition{d.Normalize()}) {
						testkit.Must(v.t, c.Err)
					}
					return d.Ref
				}
				state := func(ref task.Ref) task.State { own, _, _, _ := v.runOf(ref); return own.Task.State }
				v.worker.does(func(task.Task) (time.Duration, error) { return time.Hour, errors.New("as told") })
				v.start()
				put(0, 0)
				first := start("first")
				v.pass(2 * time.Hour)
				put(1, 1)
				_, err := v.store.Tasks.RerunIn(ctx, first, "rerun", time.Time{})
				testkit.Must(v.t, err)
				v.pass(10 * time.Minute)
				second, third := start("second"), start("third")
				v.pass(10 * time.Minute)
				_, err = v.store.Tasks.Cancel(ctx, second, "")
				testkit.Must(v.t, err)
				if dies {
					v.killed(v.leads())
					v.start()
				}
				v.pass(30 * time.Minute)
				if got := state(first); got != task.Running {
					v.t.Errorf("the first run is %s", got)
				}
				if read, err := v.store.Tasks.Get(ctx, third); err != nil || read.State != task.Queued {
					v.t.Errorf("the third run is %s beside the first one: %v", read.State, err)
				}
				v.pass(2 * time.Hour) // another leader comes in the course of that
				if read, err := v.store.Tasks.Get(ctx, third); err != nil || read.StartedAt.IsZero() {
					v.t.Errorf("the third run is %s, and nothing runs before it: %v", read.State, err)
				}
			})
		})
	}
}

// ranOnceEach checks that no attempt has run twice.
func (v *voyage) ranOnceEach() {
	v.t.Helper()
	ran := make(map[string]bool)
	for _, r := range v.worker.saw() {
		name := fmt.Sprint(r.ref, r.attempt)
		if ran[name] {
			v.t.Errorf("attempt %d of %s ran twice", r.attempt, r.ref.ID)
		}
		ran[name] = true
	}
}
