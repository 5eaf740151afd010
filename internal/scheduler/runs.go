package scheduler

import (
	"context"
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
	releasedAtOnce = 128              // the room of one call for what plans do, as of workflow.Input
	lookAtRuns     = 10 * time.Minute // for how long a run is left alone at most, and until its active steps are read
	unreadPause    = time.Minute      // the same of one that this release cannot read
	fullPause      = 5 * time.Second  // for how long no step is released while Redis is almost full
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

	knownRuns     // for the loop follow
	turn      int // of planAll
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

	read    partition.Run
	start   text.Start // unless it was known before
	newPlan string     // the definition that it keeps from its begin on; "" if it has one
	inLine  bool       // it has a place in the line of its workflow
	looks   bool       // all its active steps are read

	follows what
	failure error        // of one that fails
	known   *knownRun    // that it was read without, or that goes on
	run     workflow.Run // of one that goes on, as all below
	asks    []workflow.Ask
	tasks   map[int]workflow.Task // of steps that were read
	seen    []partition.Seen      // of those of them that have ended, and those that entries are about
	memo    workflow.Memo
	plan    workflow.Plan
}

// what says what follows in a run.
type what int

const (
	idles  what = iota // nothing: it does not run, or may not begin yet
	waits              // nothing: this release cannot read what became of its steps
	fails              // it ends: it cannot run
	goesOn             // what its plan says
)

// fail ends a run that cannot run.
func (p *planned) fail(why error) { p.follows, p.failure = fails, why }

// carryOn plans runs: those that entries of the outbox are about, and those that were claimed. now is Redis's time. It
// returns when the first of them must be planned again: now, if at once; zero: never. Errors: as those of
// partition.Leader.Advance.
func (t *term) carryOn(
	ctx context.Context, now time.Time, touched map[task.Ref]partition.Touched, claimed map[task.Ref]bool,
) (next time.Time, _ error) {
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
			return next, err
		}
		next = earlier(next, again)
	}
	return next, nil
}

// earlier returns the earlier one of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// carryOnSome does what carryOn says for some runs, with one call.
func (t *term) carryOnSome(ctx context.Context, now time.Time, some []*planned) (next time.Time, _ error) {
	if err := t.readRuns(ctx, some); err != nil {
		return next, err
	}
	t.readBegins(ctx, some)
	for _, p := range some {
		t.prepare(p)
		p.looks = p.touched.Look && p.follows == goesOn && !now.Before(p.known.looked.Add(lookAtRuns))
	}
	room, again := releasedAtOnce, now
	if t.s.o.Store.MemoryInUse(ctx, t.partition) > layout.AlmostFull {
		room, again = 0, now.Add(fullPause)
	}
	if err := t.planAll(ctx, now, some, room); err != nil {
		return next, err
	}
	writes := make([]partition.RunWrite, len(some))
	for i, p := range some {
		writes[i] = p.write(now, again)
		next = earlier(next, writes[i].Look)
	}
	written, err := t.leader.Advance(ctx, writes)
	var ended []*planned
	for i, p := range some {
		switch {
		case i >= len(written) || !written[i]: // what it was planned from has changed: its entries are still there
			next = now
		case writes[i].End != nil:
			t.runs.forget(p.ref)
			ended = append(ended, p)
		case p.looks:
			p.known.looked = now
		}
	}
	t.leaveLines(ctx, ended)
	return next, err
}

// readRuns reads runs, with the tasks of the steps that entries are about.
func (t *term) readRuns(ctx context.Context, some []*planned) error {
	wanted := make([]partition.ReadRun, len(some))
	for i, p := range some {
		p.known = t.runs.of[p.ref]
		wanted[i] = partition.ReadRun{Ref: p.ref, Known: p.known != nil}
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
		t.runs.forget(p.ref) // it does not run any more, so that its payload may be needed
		p.known = nil
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
	if p.begin == 0 && own.State == task.Running && own.Run == task.FlowRun {
		t.loadBegun(p)
	}
	if p.follows != goesOn {
		return
	}
	p.run = workflow.NewRun(p.known.flow)
	if p.read.Text != "" {
		var err error
		if p.run, err = p.known.flow.DecodeRun(p.read.Text); err != nil {
			t.warnOf("a run of a workflow waits, as this release cannot read it: "+err.Error(), []string{p.ref.String()})
			p.follows = waits
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

// planAll plans runs, which share that room, and reads the tasks of steps that these plans need.
func (t *term) planAll(ctx context.Context, now time.Time, some []*planned, room int) error {
	open := slices.DeleteFunc(slices.Clone(some), func(p *planned) bool { return p.follows != goesOn })
	if t.runs.turn++; len(open) > 0 { // another one is first in each turn
		at := t.runs.turn % len(open)
		open = slices.Concat(open[at:], open[:at])
	}
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
		for i, p := range open {
			share := max(0, (room+len(open)-i-1)/(len(open)-i)) // what is left for each
			p.plan = workflow.Next(p.known.flow, p.run, p.input(now, share))
			if len(p.plan.Wants) > 0 {
				wanted[p] = p.plan.Wants
				rest = append(rest, p)
				continue
			}
			room -= share - p.plan.Room
		}
		open = rest
	}
	return nil
}

// firstWants returns the steps that may have ended.
func (p *planned) firstWants() (steps []int) {
	for i, s := range p.run.Steps {
		if s.State == workflow.Active && (p.looks || p.touched.Steps[p.known.flow.StepID(i)]) {
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
	if s.Task.State == task.None || s.Task.State.Final() || p.touched.Steps[p.known.flow.StepID(i)] {
		p.seen = append(p.seen, s.Seen)
	}
}

// stepRef returns the name of the task of a step.
func (p *planned) stepRef(i int) task.Ref { return p.ref.Step(p.known.flow.StepID(i)) }

// input is what is known beside a run.
func (p *planned) input(now time.Time, room int) workflow.Input {
	in := workflow.Input{
		Now: now, Begin: p.begin, Asks: p.asks, Room: room, Memo: &p.memo,
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
