package control_test

import (
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// etl is a run of the workflow flow: its step extract has succeeded, load is released, and report is blocked.
var etl, extract, load = ref("etl"), ref("etl").Step("extract"), ref("etl").Step("load")

const etlFlow = `{"max_runs":1,"steps":[{"id":"extract","task":{"type":"http"}},` +
	`{"id":"load","needs":["extract"],"task":{"type":"http"}},{"id":"report","needs":["load"],"task":{"type":"http"}}]}`

// startFlow puts the workflow, and carries on the run.
func (w *ward) startFlow() {
	w.t.Helper()
	d, err := text.Parse("default", etlFlow)
	testkit.Must(w.t, err)
	d.Ref = ref("flow")
	for base, description := range []string{"the first", "the second"} {
		d.Description = description
		_, err = w.Workflows.Put(w.Ctx, d, base, "")
		testkit.Must(w.t, err)
	}
	_, err = w.Workflows.Enter(w.Ctx, d.Ref, workflows.Place{Run: etl, Attempt: 1})
	testkit.Must(w.t, err)
	w.Create(task.Definition{
		Ref: etl, Type: task.WorkflowType, Queue: task.WorkflowQueue, Payload: []byte(`{"workflow":"flow"}`),
	})
	w.Claim(etl)
	plan, err := text.EncodePlan(d, 2)
	testkit.Must(w.t, err)
	w.carryOn(partition.RunWrite{Begin: true, Plan: plan}, d, 1)
	w.finish(extract)
	w.carryOn(partition.RunWrite{Took: []string{"end default:etl@.extract 1 succeeded"}}, d, 0)
}

// finish has the task of a step succeed.
func (w *ward) finish(step task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.Begin(step).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
}

// carryOn plans the run as its leader does.
func (w *ward) carryOn(write partition.RunWrite, d workflow.Definition, begin int) {
	w.t.Helper()
	leader := w.Leader(etl)
	flow, err := workflow.Compile(d)
	testkit.Must(w.t, err)
	reads, err := leader.ReadRuns(w.Ctx, partition.ReadRun{Ref: etl})
	testkit.Must(w.t, err)
	run := workflow.NewRun(flow)
	if reads[0].Text != "" {
		run, err = workflow.DecodeRun(reads[0].Text, flow.Len())
		testkit.Must(w.t, err)
	}
	found, err := leader.ReadSteps(w.Ctx, []task.Ref{extract})
	testkit.Must(w.t, err)
	own := found[0].Task
	plan := workflow.Next(flow, run, workflow.Input{
		Now: time.Now(), About: workflow.About{Ref: etl}, Begin: begin, Room: 10,
		Tasks: []workflow.Task{{Step: 0, State: own.State, Attempt: own.Attempt}},
	})
	write.Run, write.Saw, write.Text = reads[0], []partition.Seen{found[0].Seen}, plan.Run.Encode()
	write.Look = time.Now().Add(10 * time.Minute)
	for _, r := range plan.Release {
		r.Task.Retention = task.RetentionLimit
		write.Release = append(write.Release, partition.Release{Task: r.Task, Again: r.Again, Attempts: 1})
	}
	written, err := leader.Advance(w.Ctx, []partition.RunWrite{write})
	testkit.Must(w.t, err)
	if !written[0] {
		w.t.Fatal("the plan was not written")
	}
}

// forget deletes a task by hand.
func (w *ward) forget(of task.Ref) {
	k := w.KeysOf(of)
	for _, hash := range []any{k.Defs(), k.States(), k.Runs(), k.Plans()} {
		w.do("HDEL", hash, of)
	}
	for _, set := range []any{k.Wheel(), k.Queued(), k.Running(), k.Expiry(), k.Index("default", task.Succeeded)} {
		w.do("ZREM", set, of)
	}
}

// flowBreakages are breakages of workflows and their runs.
var flowBreakages = []breakage{
	{check: "run-lost", name: "a run has no text", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(etl).Runs())
	}, example: "default:etl runs, and has lost what became of its steps"},
	{check: "run-lost", name: "the text of a run cannot be read", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(etl).Runs(), etl, "1 damaged")
	}, example: "default:etl runs, and what became of its steps cannot be read", aside: []string{"1 damaged"}},
	{check: "state-lost", name: "a run that runs has no state", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(etl).States(), etl)
	}, example: "default:etl has no state, and is listed as one that runs"},
	{check: "run-not-looked-at", name: "the outbox lacks a run", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(etl).Outbox(), "plan default:etl")
	}, example: "default:etl runs, and is not in dts:{"},
	{check: "run-not-looked-at", name: "a run is planned after years", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(etl).Outbox(), 1e15, "plan default:etl")
	}, example: "default:etl runs, and is in dts:{"},
	{check: "run-behind", name: "nothing tells the end of a step", damage: func(w *ward) {
		w.finish(load)
		w.do("ZREM", w.KeysOf(etl).Outbox(), "end default:etl@.load 1 succeeded")
	}, example: "default:etl@.load is succeeded, and its run waits for its end"},
	{check: "run-behind", name: "the task of a step is gone", damage: func(w *ward) {
		w.forget(load)
	}, example: "default:etl@.load is gone, and its run waits for its end"},
	{check: "run-ahead", name: "a run does not know that a step is released", damage: func(w *ward) {
		texts := string(w.KeysOf(etl).Runs())
		lines := strings.Split(w.DB.HGet(w.Ctx, texts, etl.String()).Val(), "\n")
		lines[2] = "b"
		w.do("HSET", texts, etl, strings.Join(lines, "\n"))
	}, example: "default:etl@.load is ", stays: true},
	{check: "run-ahead", name: "a run has ended before a step", damage: func(w *ward) {
		read, err := w.Leader(etl).ReadRuns(w.Ctx, partition.ReadRun{Ref: etl})
		testkit.Must(w.t, err)
		_, err = w.Leader(etl).Advance(w.Ctx, []partition.RunWrite{{Run: read[0], Text: read[0].Text, End: &partition.RunEnd{
			State: task.Failed, Kept: time.Now().Add(time.Hour),
		}}})
		testkit.Must(w.t, err)
	}, example: "default:etl@.load is ", stays: true},
	{check: "step-orphan", name: "a step has ended, and its run is gone", damage: func(w *ward) {
		orphan := ref("ghost").Step("load")
		w.Create(task.Definition{Ref: orphan})
		w.finish(orphan)
	}, example: "default:ghost@.load is succeeded and kept for its run, which does not exist"},
	{check: "step-orphan", name: "a step lives, and its run is gone", damage: func(w *ward) {
		w.Create(task.Definition{Ref: ref("ghost").Step("load")})
	}, example: "default:ghost@.load is scheduled, and its run does not exist", stays: true, byHand: true},
	{check: "step-expires", name: "a step is not kept for its run", damage: func(w *ward) {
		states := string(w.KeysOf(extract).States())
		state := w.DB.HGet(w.Ctx, states, extract.String()).Val()
		w.do("HSET", states, extract, strings.Replace(state, ">", "", 1))
	}, example: "default:etl@.extract is succeeded, and can be deleted before its run has ended"},
	{check: "task-lost", name: "a text is left of a run that does not exist", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("ghost")).Runs(), ref("ghost"), "a text")
		w.do("HSET", w.KeysOf(ref("ghost")).Plans(), ref("ghost"), "a plan")
		w.do("HSET", w.KeysOf(ref("ghost")).Asks(), ref("ghost"), "an ask")
	}, example: "default:ghost does not exist, and is left in ", aside: []string{"a text", "a plan", "an ask"}},
	{check: "entry-unreadable", name: "an outbox has what nobody can follow", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(etl).Outbox(), 1, "damaged")
	}, example: "dts:{", aside: []string{"damaged"}},
	{check: "entry-unreadable", name: "a revision of a workflow cannot be read", damage: func(w *ward) {
		w.do("LPUSH", w.KeysOf(ref("flow")).Revisions(ref("flow")), "damaged")
	}, example: "dts:{", aside: []string{"damaged"}},
	{check: "workflow-unreadable", name: "a workflow has lost its definition", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(ref("flow")).Workflow(ref("flow")))
	}, example: "default:flow has lost its definition", also: []string{"workflow-leftovers"},
		aside: []string{"the first"}},
	{check: "workflow-unreadable", name: "the definition of a workflow cannot be read", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("flow")).Workflow(ref("flow")), "def", "{damaged")
	}, example: "default:flow cannot be read: ", stays: true, byHand: true},
	{check: "workflow-drift", name: "a workflow is not listed", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("flow")).Workflows(), ref("flow"))
	}, example: "default:flow is there, and not in "},
	{check: "workflow-leftovers", name: "a run in a line is gone", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("flow")).Line(ref("flow")), 1, "default:ghost 1")
	}, example: `default:flow has a place in its line of a run that does not exist: "default:ghost 1"`},
	{check: "workflow-leftovers", name: "a workflow is gone, and has a line", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ghost")).Line(ref("ghost")), 1, "default:etl 1")
	}, example: "default:ghost does not exist, and "},
}
