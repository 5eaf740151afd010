package partition

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Run is a run of a workflow as it is in Redis.
type Run struct {
	Task task.Task // the run's own; its Type is "" if there is none, or nobody can read it
	Seen Seen      // of that
	Text string    // what became of its steps; "" if it has not begun
	Plan string    // the definition of its workflow, as JSON; "" if it has not begun
	Asks string    // what somebody asked of it that was not done yet, a line each

	Steps []Step // those of its tasks that were asked for
}

// Step is a task of a step as it is in Redis.
type Step struct {
	Seen Seen
	Task task.Task // without its payload; its State is "" if there is none
}

// RunWrite is what a plan says about a run. It is written if nothing that the plan was made from has changed.
type RunWrite struct {
	Run   Run  // as it was read
	Idle  bool // only Took, Look and Late count: it does not run, or cannot be read
	Text  string
	Plan  string    // "": as before
	Begin bool      // the run's own task begins
	Saw   []Seen    // tasks of steps that the plan has read
	Took  []string  // entries of the outbox that the plan is about
	Look  time.Time // when the run is to be planned again; zero if it has ended

	Release []Release
	Stop    []task.Ref // tasks of steps that are told to stop
	Tie     []task.Ref // tasks of steps that have ended, and are kept as long as the run
	Late    []task.Ref // tasks of steps that have ended after their run: nobody needs them
	End     *RunEnd
}

// Seen is the state of a task as Redis had it, as text, when a plan was made; "" if it had none. Whatever happens to
// the task changes it.
type Seen struct {
	Ref  task.Ref
	Text string
}

// Release is a task of a step that is created, or begins again with so many further attempts.
type Release struct {
	Task     task.Definition // normalized
	Again    bool
	Attempts int
}

// RunEnd is how a run ends.
type RunEnd struct {
	State  task.State
	Error  string
	Result string
	Kept   time.Time  // until then the run and its steps are kept
	Free   []task.Ref // tasks of its steps
}

// readAtOnce is how many runs and tasks of steps one call reads.
const readAtOnce = 200

// ReadRun says what is read of a run.
type ReadRun struct {
	Ref   task.Ref
	Known bool       // the reader knows what never changes: the payload of the run's own task, and Plan
	Steps []task.Ref // tasks of the run that are read as well
}

// ReadRuns reads runs of workflows, in that order. Error: CodeUnavailable.
func (p *Partition) ReadRuns(ctx context.Context, wanted ...ReadRun) ([]Run, error) {
	var items []lua.ReadRunsItem
	for _, w := range wanted {
		part := "run"
		if w.Known {
			part = "known"
		}
		items = append(items, lua.ReadRunsItem{Name: w.Ref, Part: part})
		items = append(items, stepItems(w.Steps)...)
	}
	found, err := p.readRuns(ctx, items)
	if err != nil {
		return nil, err
	}
	runs := make([]Run, len(wanted))
	for i, w := range wanted {
		own := found[0]
		runs[i] = Run{Seen: Seen{w.Ref, own.State}, Text: own.Text, Plan: own.Plan, Asks: own.Asks}
		if runs[i].Task = p.taskOf(w.Ref, own); own.Record == "" {
			runs[i].Task = task.Task{Definition: task.Definition{Ref: w.Ref}}
		}
		runs[i].Steps = p.stepsOf(w.Steps, found[1:])
		found = found[1+len(w.Steps):]
	}
	return runs, nil
}

// AsksOf returns what somebody asked of a run that was not done yet, a line each. Error: CodeUnavailable.
func (p *Partition) AsksOf(ctx context.Context, ref task.Ref) (string, error) {
	asks, err := p.o.Layout.DB.HGet(ctx, string(p.keys.Asks()), ref.String()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", layout.Unavailable(err)
	}
	return asks, nil
}

// RunTexts reads what became of the steps of runs, in the order of their names; "" of one that has not begun. Error:
// CodeUnavailable.
func (p *Partition) RunTexts(ctx context.Context, refs []task.Ref) ([]string, error) {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	found, err := p.o.Layout.DB.HMGet(ctx, string(p.keys.Runs()), names...).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	texts := make([]string, len(refs))
	for i, text := range found {
		texts[i] = codec.Text(text)
	}
	return texts, nil
}

// ReadSteps reads tasks of runs, in that order. Error: CodeUnavailable.
func (p *Partition) ReadSteps(ctx context.Context, refs []task.Ref) ([]Step, error) {
	found, err := p.readRuns(ctx, stepItems(refs))
	if err != nil {
		return nil, err
	}
	return p.stepsOf(refs, found), nil
}

func stepItems(refs []task.Ref) []lua.ReadRunsItem {
	items := make([]lua.ReadRunsItem, len(refs))
	for i, ref := range refs {
		items[i] = lua.ReadRunsItem{Name: ref, Part: "step"}
	}
	return items
}

// readRuns reads runs and tasks of steps, in that order. Error: CodeUnavailable.
func (p *Partition) readRuns(ctx context.Context, items []lua.ReadRunsItem) (found []lua.ReadRunsFound, _ error) {
	for some := range slices.Chunk(items, readAtOnce) {
		reply, err := redisx.Run(ctx, p.o.Layout.DB, lua.ReadRuns{Defs: p.keys.Defs(), Items: some})
		if err != nil {
			return nil, layout.Unavailable(err)
		}
		found = append(found, reply.Found...)
	}
	return found, nil
}

// stepsOf decodes tasks of steps, the first ones that were found.
func (p *Partition) stepsOf(refs []task.Ref, found []lua.ReadRunsFound) []Step {
	steps := make([]Step, len(refs))
	for i, ref := range refs {
		steps[i] = Step{Seen: Seen{ref, found[i].State}}
		if found[i].Record != "" {
			steps[i].Task = p.taskOf(ref, found[i])
		}
	}
	return steps
}

// taskOf decodes a task that is there.
func (p *Partition) taskOf(ref task.Ref, f lua.ReadRunsFound) task.Task {
	return p.o.Tasks.Decode(ref, lua.ReadTasksTask{
		Record: f.Record, Payload: f.Payload, State: f.State, Due: f.Due, Result: f.Result, Reason: f.Reason,
	})
}

// Advance writes what plans say, of each run all or nothing. It returns for each whether it was written; with an error,
// of those before it. Errors: ErrFenced, or one of Redis.
func (l *Leader) Advance(ctx context.Context, writes []RunWrite) (written []bool, _ error) {
	var some []lua.AdvanceOp
	for i, w := range writes {
		ops, err := w.ops()
		if err != nil {
			return written, err
		}
		some = append(some, ops...)
		if len(some) < opsAtOnce && i < len(writes)-1 {
			continue
		}
		answers, err := l.advance(ctx, some)
		if err != nil {
			return written, err
		}
		written, some = append(written, answers...), nil
	}
	return written, nil
}

// opsAtOnce is how many ops one script gets at least, if there are so many: it gets all of each run. A run of 1,000
// steps has some 1,000. Lua can pass 8,000 values at once, and a script may pass on one of each op.
const opsAtOnce = 500

// advance runs the script, and returns for each run whether it was written.
func (l *Leader) advance(ctx context.Context, ops []lua.AdvanceOp) (written []bool, _ error) {
	keys := l.o.Layout.Keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Advance{
		Lease: l.keys.Lease(), Defs: l.keys.Defs(), Fence: l.fence, Events: keys.Events(), Control: keys.Control(),
		Wake: keys.Wake(l.number), Ops: ops,
	})
	if err != nil {
		return nil, fenced(err)
	}
	for _, answer := range reply.Answers {
		written = append(written, answer == "planned")
	}
	return written, nil
}

// ops are what the script does for one run. Error: a definition cannot be stored.
func (w RunWrite) ops() (ops []lua.AdvanceOp, _ error) {
	add := func(op, name, a, b string, at time.Time) {
		ops = append(ops, lua.AdvanceOp{Op: op, Name: name, A: a, B: b, At: at})
	}
	var never time.Time
	if w.Idle {
		w.Text = w.Run.Text
	}
	add("run", w.Run.Task.Ref.String(), digestOf(w.Run.Text), w.Text, never)
	for _, entry := range w.Took {
		add("took", entry, "", "", never)
	}
	if w.Idle {
		for _, ref := range w.Late {
			add("late", ref.String(), "", "", never)
		}
		if !w.Look.IsZero() {
			add("look", "", "", "", w.Look)
		}
		return ops, nil
	}
	add("asked", "", w.Run.Asks, "", never)
	for _, s := range append([]Seen{w.Run.Seen}, w.Saw...) {
		add("saw", s.Ref.String(), s.Text, "", never)
	}
	if w.Begin {
		add("begin", "", "", "", never)
	}
	if w.Plan != "" {
		add("pin", "", w.Plan, "", never)
	}
	for _, ref := range w.Tie {
		add("tie", ref.String(), "", "", never)
	}
	for _, r := range w.Release {
		def, err := codec.EncodeDefinition(r.Task)
		if err != nil {
			return nil, err
		}
		op := "release"
		if r.Again {
			op = "again"
		}
		add(op, r.Task.Ref.String(), def, strconv.Itoa(r.Attempts), never)
	}
	for _, ref := range w.Stop {
		add("stop", ref.String(), "", "", never)
	}
	if w.End == nil {
		add("look", "", "", "", w.Look)
		return ops, nil
	}
	return append(ops, w.endOps()...), nil
}

// endOps are what the script does for a run that ends.
func (w RunWrite) endOps() []lua.AdvanceOp {
	var never time.Time
	ops := []lua.AdvanceOp{{Op: "took", Name: "plan " + w.Run.Task.Ref.String(), A: "", B: "", At: never}}
	for _, ref := range w.End.Free {
		ops = append(ops, lua.AdvanceOp{Op: "free", Name: ref.String(), A: "", B: "", At: w.End.Kept})
	}
	ops = append(ops, lua.AdvanceOp{Op: "end", Name: "", A: string(w.End.State), B: w.End.Error, At: w.End.Kept})
	if w.End.Result != "" {
		ops = append(ops, lua.AdvanceOp{Op: "result", Name: "", A: w.End.Result, B: "", At: never})
	}
	return ops
}

// digestOf is the SHA-1 of a text as a script finds it; "" for none.
func digestOf(text string) string {
	if text == "" {
		return ""
	}
	return codec.Digest(text)
}
