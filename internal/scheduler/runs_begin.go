package scheduler

import (
	"context"

	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// holdersLimit is of how many runs at the head of a line a leader looks at once whether they still run.
const holdersLimit = 1000

// readBegins finds which runs may begin, and what these run. Those whose workflow cannot be read now, is paused, or
// runs as often as it may, wait: they stay queued, and are looked after as all that is queued.
func (t *term) readBegins(ctx context.Context, some []*planned) {
	var begin []*planned
	var names []task.Ref
	for _, p := range some {
		own := &p.read.Task
		if own.State != task.Queued || own.Type != task.WorkflowType {
			continue
		}
		p.begin = own.Attempt
		if p.start, p.wrong = text.ParseStart(p.ref.Namespace, own.Payload); p.wrong == nil && p.start.Workflow != "" {
			begin, names = append(begin, p), append(names, p.workflow())
		} else {
			t.decideRun(p, workflows.Read{})
		}
	}
	if len(begin) == 0 {
		return
	}
	found, err := t.s.o.Store.Workflows.GetEach(ctx, names)
	for i, p := range begin {
		if err != nil {
			p.waits = true
			continue
		}
		if p.waits = !t.mayBegin(ctx, p, found[i]); !p.waits {
			t.decideRun(p, found[i])
		}
	}
	if err != nil {
		t.failed(ctx, "cannot read workflows; their runs begin later", err)
	}
}

// workflow returns the name of the workflow that a run begins by name.
func (p *planned) workflow() task.Ref {
	return task.Ref{Namespace: p.ref.Namespace, ID: p.start.Workflow}
}

// decideRun says what a run runs that begins: what it had before, if it begins again, or else its definition or that
// of its workflow.
func (t *term) decideRun(p *planned, found workflows.Read) {
	if p.read.Plan != "" {
		return
	}
	p.known = &knownRun{failure: p.wrong}
	d := p.start.Definition
	if p.start.Workflow != "" {
		d, p.known.revision, p.known.failure = found.Definition, found.Revision, found.Err
	}
	if p.known.failure == nil {
		p.known.compile(d, p.start.Params)
	}
	if p.known.failure == nil {
		p.known.plan, p.known.failure = text.EncodePlan(d, p.known.revision)
	}
	t.know(p.ref, p.known)
}

// mayBegin reports whether a run of a workflow may begin: as long as the workflow is paused, or as many of its runs as
// may run at once are before it in the line, it may not.
func (t *term) mayBegin(ctx context.Context, p *planned, found workflows.Read) bool {
	limit := found.MaxRuns
	if found.Err != nil || limit == 0 && found.PausedAt.IsZero() {
		return true
	}
	name, place := p.workflow(), workflows.Place{Run: p.ref, Attempt: p.begin}
	before, err := t.s.o.Store.Workflows.Enter(ctx, name, place)
	switch {
	case err != nil:
		t.failed(ctx, "cannot give a run its place; it begins later", err)
		return false
	case !found.PausedAt.IsZero():
		return false
	case before < limit:
		return true
	}
	if before == limit { // the next one: whoever has ended without leaving would hold it up for ever
		err = t.clearLine(ctx, name, limit)
	}
	if err != nil {
		t.failed(ctx, "cannot look which runs of a workflow still run", err)
	}
	return false
}

// clearLine removes those from the head of the line of a workflow that do not run any more, and tells those that may
// begin instead.
func (t *term) clearLine(ctx context.Context, name task.Ref, limit int) error {
	flows := t.s.o.Store.Workflows
	places, err := flows.Line(ctx, name, 0, min(limit, holdersLimit))
	if err != nil {
		return err
	}
	refs := make([]task.Ref, len(places))
	for i, place := range places {
		refs[i] = place.Run
	}
	found, err := t.s.o.Store.Tasks.Briefs(ctx, refs)
	if err != nil {
		return err
	}
	attempts := make(map[task.Ref]int, len(found)) // that run, or are about to
	for _, own := range found {
		if own.State == task.Queued || own.State == task.Running {
			attempts[own.Ref] = own.Attempt
		}
	}
	var gone []workflows.Place
	for _, place := range places {
		if attempts[place.Run] != place.Attempt {
			gone = append(gone, place)
		}
	}
	return t.leave(ctx, name, limit, gone)
}

// leaveLines has runs that have ended leave the lines that they are in. What fails is made up for by clearLine.
func (t *term) leaveLines(ctx context.Context, ended []*planned) {
	places := make(map[task.Ref][]workflows.Place)
	limits := make(map[task.Ref]int)
	for _, p := range ended {
		if flow := p.known.flow; flow != nil && flow.MaxRuns > 0 {
			name := task.Ref{Namespace: p.ref.Namespace, ID: flow.ID}
			places[name] = append(places[name], workflows.Place{Run: p.ref, Attempt: p.read.Task.Attempt})
			limits[name] = flow.MaxRuns
		}
	}
	for name, gone := range places {
		if err := t.leave(ctx, name, limits[name], gone); err != nil {
			t.failed(ctx, "cannot tell the next run of a workflow that it may begin; it finds out itself", err)
		}
	}
}

// leave removes places from a line, and tells as many runs that they may begin now. Those among them that do not wait
// any more leave as well.
func (t *term) leave(ctx context.Context, name task.Ref, limit int, gone []workflows.Place) error {
	flows := t.s.o.Store.Workflows
	for len(gone) > 0 {
		if err := flows.Leave(ctx, name, gone...); err != nil {
			return err
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
