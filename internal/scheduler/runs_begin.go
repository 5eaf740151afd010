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

const (
	placesLimit = 1000 // places in a line that one look checks
	nextLimit   = 200  // the same of those behind a run that has left it
)

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
	if found.Err != nil {
		return runs
	}
	slices.SortStableFunc(runs, func(a, b *planned) int { return a.read.Task.DueAt.Compare(b.read.Task.DueAt) })
	places := make([]workflows.Place, len(runs))
	for i, p := range runs {
		places[i] = workflows.Place{Run: p.ref, Attempt: p.begin}
	}
	limit := found.MaxRuns
	if limit == 0 && found.PausedAt.IsZero() {
		if found.Places > 0 {
			t.dissolveLine(ctx, name, places)
		}
		return runs
	}
	for _, p := range runs {
		p.inLine = true
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

// dissolveLine removes places from the line of a workflow that bounds its runs no more: those of runs that begin, and
// those that nobody would remove. If that fails, the next run does it.
func (t *term) dissolveLine(ctx context.Context, name task.Ref, begin []workflows.Place) {
	gone, _, err := t.gone(ctx, name, 0, placesLimit)
	if err == nil {
		err = t.s.o.Store.Workflows.Leave(ctx, name, slices.Concat(begin, gone)...)
	}
	if err != nil {
		t.failed(ctx, "cannot remove places that nobody needs", err)
	}
}

// clearLine removes runs from the line of a workflow that have ended and are still in it. It looks at the places before
// a run that waits, whose number is before. Then it tells the runs that may begin now. If the run at the place before
// waits as well, clearLine does nothing: it is called for that run, too.
func (t *term) clearLine(ctx context.Context, name task.Ref, limit, before int) error {
	if before > limit {
		_, waits, err := t.gone(ctx, name, before-1, before)
		if err != nil || waits {
			return err
		}
	}
	gone, _, err := t.gone(ctx, name, max(0, before-placesLimit), before)
	if err != nil {
		return err
	}
	return t.leave(ctx, name, limit, gone)
}

// gone returns those places of a part of the line of a workflow whose runs do not run, and are not about to. waits: one
// of the others is about to.
func (t *term) gone(
	ctx context.Context, name task.Ref, from, before int,
) (gone []workflows.Place, waits bool, _ error) {
	places, err := t.s.o.Store.Workflows.Line(ctx, name, from, before)
	if err != nil {
		return nil, false, err
	}
	refs := make([]task.Ref, len(places))
	for i, place := range places {
		refs[i] = place.Run
	}
	found, err := t.s.o.Store.Tasks.Briefs(ctx, refs)
	if err != nil {
		return nil, false, err
	}
	attempts := make(map[task.Ref]int, len(found))
	for _, own := range found {
		if own.State == task.Queued || own.State == task.Running {
			attempts[own.Ref] = own.Attempt
			waits = waits || own.State == task.Queued
		}
	}
	for _, place := range places {
		if attempts[place.Run] != place.Attempt {
			gone = append(gone, place)
		}
	}
	return gone, waits, nil
}

// leaveLines removes runs that have ended from the lines that they are in. What fails is made up for by clearLine.
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
		told := 0
		for _, place := range next {
			err := t.s.o.Store.Tasks.AskRun(ctx, place.Run, workflow.NoAsk)
			switch code := task.CodeOf(err); {
			case err == nil:
				told++
			case code != task.CodeNotRunning && code != task.CodeTaskNotFound:
				return err
			}
		}
		if told == len(next) {
			return nil
		}
		if gone, _, err = t.gone(ctx, name, max(0, limit-len(gone)), limit+nextLimit); err != nil {
			return err
		}
	}
	return nil
}
