package scheduler

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

const (
	plannedAtOnce  = 64               // runs of workflows that one call carries on
	releasedAtOnce = 128              // tasks of steps that one call creates
	lookAtRuns     = 10 * time.Minute // for how long a run is left alone at most
	unreadPause    = time.Minute      // the same of one that this release cannot read
	fullPause      = 5 * time.Second  // for how long no step is released while Redis is almost full
	knownRuns      = 1000             // of which a term keeps the definition
)

// ownWorker is a worker that every leader has, for the runs of workflows: these are claimed as all tasks, and carried
// on by the leader.
var ownWorker = handover.Node{
	ID: "@", Queues: map[string]int{task.WorkflowQueue: 1}, Types: []string{task.WorkflowType}, Capacity: 1000,
}

// runs are the runs of workflows of a term.
type runs struct {
	mu      sync.Mutex
	claimed map[task.Ref]bool // runs that were claimed, and may begin

	known map[task.Ref]*knownRun // for the loop follow
}

// knownRun is what does not change of a run.
type knownRun struct {
	flow     *workflow.Flow
	revision int // of a workflow that was put; 0: the definition is part of the run
	params   map[string]any
	plan     string // the definition and the revision, as they are stored
	failure  error  // it cannot run
}

// takeRuns takes the runs of workflows out of claimed deliveries, for the loop follow.
func (t *term) takeRuns(deliveries []task.Delivery) (taken, others []task.Delivery) {
	isRun := func(d task.Delivery) bool { return d.Queue == task.WorkflowQueue }
	if !slices.ContainsFunc(deliveries, isRun) {
		return nil, deliveries
	}
	t.runs.mu.Lock()
	defer t.runs.mu.Unlock()
	if t.runs.claimed == nil {
		t.runs.claimed = make(map[task.Ref]bool)
	}
	for _, d := range deliveries {
		if isRun(d) {
			t.runs.claimed[d.Ref] = true
			taken = append(taken, d)
		} else {
			others = append(others, d)
		}
	}
	signal(t.s.followWakes[t.partition])
	return taken, others
}

// claimedRuns returns the runs that were claimed since the last call.
func (t *term) claimedRuns() map[task.Ref]bool {
	t.runs.mu.Lock()
	defer t.runs.mu.Unlock()
	claimed := t.runs.claimed
	t.runs.claimed = nil
	return claimed
}

// planned is a run of which it is decided what follows.
type planned struct {
	touched partition.Touched // why it is planned
	ref     task.Ref
	begin   int // the attempt that is claimed and has not begun; 0: none

	read  partition.Run
	start text.Start // of one that begins
	wrong error      // start cannot be read
	known *knownRun
	run   workflow.Run
	asks  []workflow.Ask
	tasks map[int]workflow.Task // of steps that were read
	seen  []partition.Seen      // of these
	plan  workflow.Plan

	waits  bool // it may not begin yet
	unread bool // a later release has written what became of its steps: it waits
}

// carryOn plans runs: those that entries of the outbox are about, and those that were claimed. now is Redis's time.
// more: some must be planned again at once. Errors: as those of partition.Leader.Advance.
func (t *term) carryOn(
	ctx context.Context, now time.Time, touched map[task.Ref]partition.Touched, claimed map[task.Ref]bool,
) (more bool, _ error) {
	all := make(map[task.Ref]*planned, len(touched)+len(claimed))
	of := func(ref task.Ref) *planned {
		if all[ref] == nil {
			all[ref] = &planned{ref: ref}
		}
		return all[ref]
	}
	for ref, why := range touched {
		of(ref).touched = why
	}
	for ref := range claimed {
		of(ref)
	}
	var list []*planned
	for _, p := range all {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *planned) int { return strings.Compare(a.ref.String(), b.ref.String()) })
	for some := range slices.Chunk(list, plannedAtOnce) {
		again, err := t.carryOnSome(ctx, now, some)
		if err != nil {
			return more, err
		}
		more = more || again
	}
	return more, nil
}

// carryOnSome does what carryOn says for some runs, with one call.
func (t *term) carryOnSome(ctx context.Context, now time.Time, some []*planned) (more bool, _ error) {
	if err := t.readRuns(ctx, some); err != nil {
		return false, err
	}
	t.readBegins(ctx, some)
	for _, p := range some {
		t.prepare(p)
	}
	room, again := releasedAtOnce, now
	if t.s.o.Store.MemoryInUse(ctx, t.partition) > layout.AlmostFull {
		room, again = 0, now.Add(fullPause)
	}
	if err := t.planAll(ctx, now, some, room); err != nil {
		return false, err
	}
	writes := make([]partition.RunWrite, len(some))
	for i, p := range some {
		writes[i] = p.write(now, again)
		more = more || p.plan.More && room > 0
	}
	written, err := t.leader.Advance(ctx, writes)
	var ended []*planned
	for i, p := range some {
		switch {
		case i >= len(written) || !written[i]: // what it was planned from has changed: its entries are still there
			more = true
		case writes[i].End != nil:
			delete(t.runs.known, p.ref)
			ended = append(ended, p)
		}
	}
	t.leaveLines(ctx, ended)
	return more, err
}

// readRuns reads runs, with the tasks of the steps that entries are about.
func (t *term) readRuns(ctx context.Context, some []*planned) error {
	wanted := make([]partition.ReadRun, len(some))
	for i, p := range some {
		wanted[i] = partition.ReadRun{Ref: p.ref, Known: t.runs.known[p.ref] != nil}
		for step := range p.touched.Steps {
			wanted[i].Steps = append(wanted[i].Steps, p.ref.Step(step))
		}
	}
	reads, err := t.leader.ReadRuns(ctx, wanted...)
	if err != nil {
		return err
	}
	for i, p := range some {
		if p.read = reads[i]; !wanted[i].Known || p.read.Task.State == task.Running {
			continue
		}
		delete(t.runs.known, p.ref) // it does not run any more, so that its payload may be needed
		again, err := t.leader.ReadRuns(ctx, partition.ReadRun{Ref: p.ref, Steps: wanted[i].Steps})
		if err != nil {
			return err
		}
		p.read = again[0]
	}
	return nil
}

// prepare reads what a run says of itself.
func (t *term) prepare(p *planned) {
	own := &p.read.Task
	if p.waits || p.begin == 0 && (own.State != task.Running || own.Run != task.FlowRun) {
		return
	}
	if p.known == nil {
		p.known = t.knownRun(p)
	}
	if p.known.failure != nil {
		return
	}
	p.run = workflow.NewRun(p.known.flow)
	if p.read.Text != "" {
		var err error
		if p.run, err = workflow.DecodeRun(p.read.Text, p.known.flow.Len()); err != nil {
			t.warnOf("a run of a workflow waits, as this release cannot read it: "+err.Error(), []string{p.ref.String()})
			p.known, p.unread = nil, true
			return
		}
	}
	if !own.CancelRequested.IsZero() {
		p.asks = append(p.asks, workflow.Ask{Do: workflow.DoCancel})
	}
	for line := range strings.Lines(p.read.Asks) {
		if ask, ok := p.known.flow.ParseAsk(strings.TrimSuffix(line, "\n")); ok {
			p.asks = append(p.asks, ask)
		}
	}
}

// knownRun returns what does not change of a run that has begun.
func (t *term) knownRun(p *planned) *knownRun {
	if k := t.runs.known[p.ref]; k != nil {
		return k
	}
	start, err := text.ParseStart(p.ref.Namespace, p.read.Task.Payload)
	k := &knownRun{failure: err}
	if err == nil {
		var d workflow.Definition
		if d, k.revision, k.failure = text.ParsePlan(p.ref.Namespace, p.read.Plan); k.failure == nil {
			k.compile(d, start.Params)
		}
	}
	t.know(p.ref, k)
	return k
}

// compile prepares the definition of a run.
func (k *knownRun) compile(d workflow.Definition, params map[string]json.RawMessage) {
	if k.flow, k.failure = workflow.Compile(d); k.failure == nil {
		k.params, k.failure = d.Bind(params)
	}
}

// know keeps what does not change of a run.
func (t *term) know(ref task.Ref, k *knownRun) {
	if len(t.runs.known) >= knownRuns || t.runs.known == nil {
		t.runs.known = make(map[task.Ref]*knownRun)
	}
	t.runs.known[ref] = k
}

// planAll plans runs, which may release so many steps together, and reads the tasks of steps that these plans need.
func (t *term) planAll(ctx context.Context, now time.Time, some []*planned, room int) error {
	open := slices.DeleteFunc(slices.Clone(some), func(p *planned) bool {
		return p.known == nil || p.known.failure != nil
	})
	wanted := make(map[*planned][]int, len(open))
	for _, p := range open {
		wanted[p] = p.firstWants()
	}
	for len(open) > 0 {
		if err := t.readSteps(ctx, wanted); err != nil {
			return err
		}
		clear(wanted)
		var rest []*planned
		for _, p := range open {
			p.plan = workflow.Next(p.known.flow, p.run, p.input(now, room))
			if len(p.plan.Wants) > 0 {
				wanted[p] = p.plan.Wants
				rest = append(rest, p)
				continue
			}
			room -= len(p.plan.Release)
		}
		open = rest
	}
	return nil
}

// firstWants returns the steps that may have ended.
func (p *planned) firstWants() (steps []int) {
	for i, s := range p.run.Steps {
		if s.State == workflow.Active && (p.touched.Look || p.touched.Steps[p.known.flow.StepID(i)]) {
			steps = append(steps, i)
		}
	}
	return steps
}

// readSteps reads the tasks of steps.
func (t *term) readSteps(ctx context.Context, wanted map[*planned][]int) error {
	var refs []task.Ref
	var of []*planned
	var steps []int
	for p, indices := range wanted {
		for _, i := range indices {
			ref := p.stepRef(i)
			if k := slices.IndexFunc(p.read.Steps, func(s partition.Step) bool { return s.Seen.Ref == ref }); k >= 0 {
				p.add(i, p.read.Steps[k]) // it was read with its run
				continue
			}
			refs, of, steps = append(refs, ref), append(of, p), append(steps, i)
		}
	}
	found, err := t.leader.ReadSteps(ctx, refs)
	for k, step := range found {
		of[k].add(steps[k], step)
	}
	return err
}

// add takes the task of a step into what the plan is made from.
func (p *planned) add(i int, s partition.Step) {
	if p.tasks == nil {
		p.tasks = make(map[int]workflow.Task)
	}
	p.tasks[i] = workflow.Task{
		Step: i, State: s.Task.State, Attempt: s.Task.Attempt, Result: s.Task.Result, Error: s.Task.Error,
	}
	p.seen = append(p.seen, s.Seen)
}

// stepRef returns the name of the task of a step.
func (p *planned) stepRef(i int) task.Ref { return p.ref.Step(p.known.flow.StepID(i)) }

// input is what is known beside a run.
func (p *planned) input(now time.Time, room int) workflow.Input {
	in := workflow.Input{
		Now: now, Begin: p.begin, Asks: p.asks, Room: room,
		About: workflow.About{
			Ref: p.ref, Revision: p.known.revision, Created: p.read.Task.CreatedAt, Tick: tickOf(p.ref),
			Params: p.known.params,
		},
	}
	for _, step := range p.tasks {
		in.Tasks = append(in.Tasks, step)
	}
	return in
}

// tickOf returns the tick whose task is a run; zero if it is that of none.
func tickOf(ref task.Ref) time.Time {
	_, name, ok := schedule.OfTask(ref)
	if !ok {
		return time.Time{}
	}
	tick, _, _ := schedule.ParseTickName(name)
	return tick
}
