package scheduler

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// holdersLimit is of how many runs in a line a leader looks at once whether they still run.
const holdersLimit = 1000

// readBegins finds which runs may begin, and what these run. Those whose workflow cannot be read now, is paused, or
// runs as often as it may, wait: they stay queued, and are looked after as all that is queued.
func (t *term) readBegins(ctx context.Context, some []*planned) {
	of := make(map[task.Ref][]*planned) // by their workflows
	for _, p := range some {
		own := &p.read.Task
		if own.State != task.Queued || own.Type != task.WorkflowType {
			continue
		}
		p.begin = own.Attempt
		var err error
		if p.start, err = text.ParseStart(p.ref.Namespace, own.Payload); err != nil {
			p.fail(err)
		} else if name := p.workflow(); name.ID != "" {
			of[name] = append(of[name], p)
		} else {
			t.pin(p, p.start.Definition, 0)
		}
	}
	if len(of) == 0 {
		return
	}
	names := slices.Collect(maps.Keys(of))
	found, err := t.s.o.Store.Workflows.GetEach(ctx, names)
	if err != nil {
		t.failed(ctx, "cannot read workflows; their runs begin later", err)
		return
	}
	for i, name := range names {
		for _, p := range t.admit(ctx, name, found[i], of[name]) {
			if found[i].Err != nil && p.read.Plan == "" {
				p.fail(found[i].Err)
			} else {
				t.pin(p, found[i].Definition, found[i].Revision)
			}
		}
	}
}

// workflow returns the name of the workflow that a run runs; its ID is "" if its definition is part of it.
func (p *planned) workflow() task.Ref {
	return task.Ref{Namespace: p.ref.Namespace, ID: p.start.Workflow}
}

// pin decides what a run runs that begins: what it had before, if it begins again, or else this definition.
func (t *term) pin(p *planned, d workflow.Definition, revision int) {
	plan, err := p.read.Plan, error(nil)
	if plan == "" {
		plan, err = text.EncodePlan(d, revision)
		p.newPlan = plan
	}
	if err != nil {
		p.fail(err)
		return
	}
	t.load(p, plan)
}

// admit returns which runs of a workflow may begin: as long as it is paused, none may, and of the others those that
// have fewer runs before them in the line than may run at once.
func (t *term) admit(ctx context.Context, name task.Ref, found workflows.Read, runs []*planned) (may []*planned) {
	limit := found.MaxRuns
	if found.Err != nil || limit == 0 && found.PausedAt.IsZero() {
		return runs
	}
	slices.SortStableFunc(runs, func(a, b *planned) int { return a.read.Task.DueAt.Compare(b.read.Task.DueAt) })
	places := make([]workflows.Place, len(runs))
	for i, p := range runs {
		places[i], p.inLine = workflows.Place{Run: p.ref, Attempt: p.begin}, true
	}
	before, err := t.s.o.Store.Workflows.Enter(ctx, name, places...)
	if err != nil {
		t.failed(ctx, "cannot give runs their places; they begin later", err)
		return nil
	}
	if !found.PausedAt.IsZero() {
		return nil
	}
	first := math.MaxInt // how many are before the first one that waits
	for i, p := range runs {
		if before[i] < limit {
			may = append(may, p)
		} else {
			first = min(first, before[i])
		}
	}
	if first < math.MaxInt {
		if err := t.clearLine(ctx, name, limit, first); err != nil {
			t.failed(ctx, "cannot look which runs of a workflow still run", err)
		}
	}
	return may
}

// clearLine removes those from the line of a workflow that have ended without leaving, as they would hold up for ever a
// run that has so many before it. It tells those that may begin instead. Of the runs that wait, only one looks at all
// before it: the next one to begin, or one behind a run that has ended.
func (t *term) clearLine(ctx context.Context, name task.Ref, limit, before int) error {
	if before > limit {
		gone, err := t.gone(ctx, name, before-1, before)
		if err != nil || len(gone) == 0 {
			return err
		}
	}
	gone, err := t.gone(ctx, name, max(0, before-holdersLimit), before)
	if err != nil {
		return err
	}
	return t.leave(ctx, name, limit, gone)
}

// gone returns the places of a part of the line of a workflow whose runs do not run, and are not about to.
func (t *term) gone(ctx context.Context, name task.Ref, from, before int) (gone []workflows.Place, _ error) {
	places, err := t.s.o.Store.Workflows.Line(ctx, name, from, before)
	if err != nil {
		return nil, err
	}
	refs := make([]task.Ref, len(places))
	for i, place := range places {
		refs[i] = place.Run
	}
	found, err := t.s.o.Store.Tasks.Briefs(ctx, refs)
	if err != nil {
		return nil, err
	}
	attempts := make(map[task.Ref]int, len(found))
	for _, own := range found {
		if own.State == task.Queued || own.State == task.Running {
			attempts[own.Ref] = own.Attempt
		}
	}
	for _, place := range places {
		if attempts[place.Run] != place.Attempt {
			gone = append(gone, place)
		}
	}
	return gone, nil
}

// leaveLines has runs that have ended leave the lines that they are in. What fails is made up for by clearLine.
func (t *term) leaveLines(ctx context.Context, ended []*planned) {
	places := make(map[task.Ref][]workflows.Place)
	for _, p := range ended {
		if name := p.workflow(); name.ID != "" && (p.inLine || p.known != nil && p.known.flow.MaxRuns > 0) {
			places[name] = append(places[name], workflows.Place{Run: p.ref, Attempt: p.read.Task.Attempt})
		}
	}
	if len(places) == 0 {
		return
	}
	names := slices.Collect(maps.Keys(places))
	found, err := t.s.o.Store.Workflows.GetEach(ctx, names)
	for i, name := range names {
		if err == nil {
			err = t.leave(ctx, name, found[i].MaxRuns, places[name])
		}
	}
	if err != nil {
		t.failed(ctx, "cannot tell the next run of a workflow that it may begin; it finds out itself", err)
	}
}

// leave removes places from a line, and tells as many runs that they may begin now. Those among them that do not wait
// any more leave as well. Without a limit, nobody waits for a place.
func (t *term) leave(ctx context.Context, name task.Ref, limit int, gone []workflows.Place) error {
	flows := t.s.o.Store.Workflows
	for len(gone) > 0 {
		if err := flows.Leave(ctx, name, gone...); err != nil {
			return err
		}
		if limit == 0 {
			return nil
		}
		next, err := flows.Line(ctx, name, max(0, limit-len(gone)), limit)
		if err != nil {
			return err
		}
		gone = nil
		for _, place := range next {
			err := t.s.o.Store.Tasks.AskRun(ctx, place.Run, workflow.NoAsk)
			switch code := task.CodeOf(err); {
			case err == nil:
			case code == task.CodeNotRunning || code == task.CodeTaskNotFound:
				gone = append(gone, place)
			default:
				return err
			}
		}
	}
	return nil
}
