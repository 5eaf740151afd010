package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/lua"
)

// flowRead is what a leader has read of the real run.
type flowRead struct {
	entries []string
	run     partition.Run
}

// submitRun submits the run, whose steps are tasks.
func (w *world) submitRun() {
	w.t.Helper()
	d := workflow.Definition{Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "model"}}
	run := w.NameIn(w.PartitionOf(storetest.Nightly), "default", "run")
	for i := range w.m.Steps {
		t := &task.Definition{
			Type: "http", Queue: w.queueOf(uint8(i)), Payload: []byte(`{"url": "http://localhost"}`), Retry: w.retry(),
		}
		s := workflow.Step{ID: fmt.Sprint("s", i), Task: t}
		if i > 0 && !w.m.Apart {
			s.Needs = []string{fmt.Sprint("s", i-1)}
		}
		d.Steps = append(d.Steps, s)
		w.refs[i] = run.Step(s.ID)
	}
	w.refs[w.m.Steps] = run
	if w.m.Signals {
		d.Steps[0].Needs = []string{"paid"}
		d.Steps = append(d.Steps, workflow.Step{ID: "paid", Wait: &workflow.Wait{Signal: "paid"}}) // no task, so the last one
	}
	var err error
	w.flow, err = workflow.Compile(d)
	testkit.Must(w.t, err)
	w.reads = make(map[FlowRead]flowRead)
	w.Create(task.Definition{Ref: run, Type: task.WorkflowType, Queue: task.WorkflowQueue})
}

// callSignal gives the run the signal.
func (w *world) callSignal(run task.Ref) Reply {
	w.t.Helper()
	given := workflow.Ask{Do: workflow.DoSignal, Signal: &workflow.Signal{Name: "paid", Data: []byte("1")}}
	_, err := redisx.Run(w.ctx, w.DB, lua.AskRun{
		States: w.keys().States(), Member: run, Ask: given.Encode(w.flow), Early: true, Wake: w.WakeOf(run),
	})
	return Reply{Refused: w.code(err)}
}

// callFlow reads what a leader reads of the run, or carries the run on as package workflow plans it.
func (w *world) callFlow(c Call, modelled Reply) Reply {
	w.t.Helper()
	switch c.Script {
	case ReadFlow:
		return w.callReadFlow(modelled.Read)
	case ReadSteps:
		return w.callReadSteps(c, modelled.Read)
	}
	w.nextMillisecond() // two plans have never the same time, so that no text comes back
	written, err := w.leader(c).Advance(w.ctx, []partition.RunWrite{w.planned(w.reads[c.Read])})
	if err == nil && !written[0] {
		return refused(lua.CodeChanged)
	}
	return Reply{Refused: w.code(err)}
}

// callReadFlow reads the outbox. The model has a leader take one end of a step at a time.
func (w *world) callReadFlow(modelled FlowRead) Reply {
	w.t.Helper()
	outbox, err := redisx.Run(w.ctx, w.DB, lua.ReadOutbox{Outbox: w.keys().Outbox(), Limit: 100})
	testkit.Must(w.t, err)
	reply, read := FlowRead{Reading: ReadRun}, flowRead{}
	oldest := make([]string, w.m.Steps)
	for _, e := range outbox.Entries {
		f := strings.Fields(e.Entry)
		if f[0] == "plan" {
			reply.Told, read.entries = true, append(read.entries, e.Entry)
			continue
		}
		attempt, err := strconv.Atoi(f[2])
		testkit.Must(w.t, err)
		i := slices.IndexFunc(w.refs[:], func(ref task.Ref) bool { return ref.String() == f[1] })
		step, state := &reply.Steps[i], stateOf(task.State(f[3]))
		if step.Told == None || uint8(attempt) < step.With || uint8(attempt) == step.With && state < step.Told {
			step.Told, step.With, oldest[i] = state, uint8(attempt), e.Entry
		}
	}
	read.entries = append(read.entries, slices.DeleteFunc(oldest, func(e string) bool { return e == "" })...)
	w.reads[modelled] = read
	return Reply{Read: reply}
}

// callReadSteps reads the run and the steps that have ended by the outbox.
func (w *world) callReadSteps(c Call, modelled FlowRead) Reply {
	w.t.Helper()
	wanted := partition.ReadRun{Ref: w.refs[w.m.Steps]}
	for i := range w.m.Steps {
		if c.Read.Steps[i].Told != None {
			wanted.Steps = append(wanted.Steps, w.refs[i])
		}
	}
	runs, err := w.Partitions.At(w.PartitionOf(wanted.Ref)).ReadRuns(w.ctx, wanted)
	testkit.Must(w.t, err)
	read := flowRead{w.reads[c.Read].entries, runs[0]}
	w.reads[modelled] = read
	modelled.Noted = read.run.Asks != ""
	reply := modelled // but for what is compared here; the rest are ids, or compared as what is in Redis
	own := read.run.Task
	reply.Own.State, reply.Own.End.Attempt = stateOf(own.State), uint8(own.Attempt)
	reply.Own.Cancel = own.State == task.Running && !own.CancelRequested.IsZero()
	for _, step := range read.run.Steps {
		at := &reply.Steps[slices.Index(w.refs[:], step.Seen.Ref)]
		at.State, at.End.Attempt = stateOf(step.Task.State), uint8(step.Task.Attempt)
	}
	return Reply{Read: reply}
}

// planned is what a leader writes that has read so much.
func (w *world) planned(read flowRead) partition.RunWrite {
	w.t.Helper()
	own := read.run.Task
	write := partition.RunWrite{Run: read.run, Took: read.entries, Begin: own.State == task.Queued}
	if !write.Begin && (own.State != task.Running || own.Run != task.FlowRun) {
		write.Idle = true
		return write
	}
	p := w.plan(&write)
	write.Text, write.Look = p.Run.Encode(), time.Now().Add(long)
	if write.Begin {
		write.Plan = "{}"
	}
	for _, r := range p.Release {
		write.Release = append(write.Release, partition.Release{Task: r.Task, Again: r.Again, Attempts: w.m.Attempts})
	}
	for _, i := range p.Stop {
		write.Stop = append(write.Stop, w.refs[i])
	}
	released := func(i int) bool {
		return slices.ContainsFunc(p.Release, func(r workflow.Release) bool { return r.Step == i })
	}
	var free []task.Ref
	for i, s := range p.Run.Steps {
		if s.Generation == 0 || !w.flow.HasTask(i) {
			continue
		}
		if free = append(free, w.refs[i]); write.Begin && own.Attempt > 1 && !released(i) {
			write.Tie = append(write.Tie, w.refs[i])
		}
	}
	if p.End != nil {
		write.End = &partition.RunEnd{State: p.End.State, Error: p.End.Error, Kept: time.Now().Add(long), Free: free}
	}
	return write
}

// plan plans the run, and reads the tasks that the plan wants.
func (w *world) plan(write *partition.RunWrite) workflow.Plan {
	w.t.Helper()
	now, err := w.Now(w.ctx, 0)
	testkit.Must(w.t, err)
	own, run := write.Run.Task, workflow.NewRun(w.flow)
	if write.Run.Text != "" {
		run, err = workflow.DecodeRun(write.Run.Text, w.flow.Len())
		testkit.Must(w.t, err)
	}
	in := workflow.Input{Now: now, Room: maxSteps, About: workflow.About{Ref: own.Ref, Created: own.CreatedAt}}
	if write.Begin {
		in.Begin = own.Attempt
	}
	if !own.CancelRequested.IsZero() {
		in.Asks = []workflow.Ask{{Do: workflow.DoCancel}}
	}
	for line := range strings.Lines(write.Run.Asks) {
		ask, ok := w.flow.ParseAsk(strings.TrimSuffix(line, "\n"))
		if !ok {
			w.t.Fatalf("the run is asked for %q", line)
		}
		in.Asks = append(in.Asks, ask)
	}
	steps := write.Run.Steps
	for {
		for _, step := range steps {
			in.Tasks = append(in.Tasks, workflow.Task{
				Step: slices.Index(w.refs[:], step.Seen.Ref), State: step.Task.State, Attempt: step.Task.Attempt,
			})
			write.Saw = append(write.Saw, step.Seen)
		}
		p := workflow.Next(w.flow, run, in)
		if len(p.Wants) == 0 {
			return p
		}
		var refs []task.Ref
		for _, i := range p.Wants {
			refs = append(refs, w.refs[i])
		}
		steps, err = w.Partitions.At(w.PartitionOf(own.Ref)).ReadSteps(w.ctx, refs)
		testkit.Must(w.t, err)
	}
}

// seenFlow is the run as both the model and the real scripts have it.
type seenFlow struct {
	Attempt          int
	Cancelled, Ended bool
	Told             bool
	Noted, Given     bool // the signal
	Steps            []seenStep
}

type seenStep struct {
	State      string
	Generation int
	Stopping   bool
}

// stepStates are the states of steps in the words of both.
var stepStates = map[StepState]string{
	Blocked: "blocked", Open: "active", StepSucceeded: "succeeded", StepFailed: "failed", Unreleased: "unreleased",
}

// expectedFlow is the run as the model has it.
func (w *world) expectedFlow(r *Redis) seenFlow {
	f := seenFlow{
		Attempt: int(r.Flow.Attempt), Cancelled: r.Flow.Cancelled, Ended: r.Flow.Ended, Told: r.Told,
		Noted: r.Noted, Given: r.Flow.Given,
	}
	for _, s := range r.Flow.Steps[:w.m.Steps] {
		f.Steps = append(f.Steps, seenStep{stepStates[s.State], int(s.Generation), s.Stopping})
	}
	return f
}

// realFlow is the run as Redis has it.
func (w *world) realFlow(now int64) seenFlow {
	w.t.Helper()
	run := w.refs[w.m.Steps].String()
	r := workflow.NewRun(w.flow)
	if text := read(w, w.DB.HGet(w.ctx, string(w.keys().Runs()), run)); text != "" {
		var err error
		r, err = workflow.DecodeRun(text, w.flow.Len())
		testkit.Must(w.t, err)
	}
	f := seenFlow{Attempt: r.Attempt, Cancelled: r.Cancelled, Ended: r.Phase == workflow.PhaseEnded}
	at := read(w, w.DB.ZScore(w.ctx, string(w.keys().Outbox()), "plan "+run))
	f.Told = at > 0 && int64(at) <= now
	_, f.Given = r.IsGiven("paid")
	f.Noted = read(w, w.DB.HGet(w.ctx, string(w.keys().Asks()), run)) != ""
	for _, s := range r.Steps[:w.m.Steps] {
		state := string(s.State)
		switch verdict := workflow.Verdict(s.State); {
		case verdict == workflow.UpstreamFailed, verdict == workflow.Cancelled && s.Released == 0:
			state = stepStates[Unreleased]
		case verdict == workflow.Cancelled:
			state = stepStates[StepFailed]
		}
		f.Steps = append(f.Steps, seenStep{state, s.Generation, s.Stopping})
	}
	return f
}
