package scheduler

import (
	"time"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// write returns what is written of a run. One that could do more is planned then again.
func (p *planned) write(now, again time.Time) partition.RunWrite {
	w := partition.RunWrite{Run: p.read, Begin: p.begin > 0, Saw: p.seen, Took: p.touched.Entries}
	switch p.follows {
	case idles:
		w.Idle, w.Late = true, p.late()
		return w
	case waits:
		w.Idle, w.Look = true, now.Add(unreadPause)
		return w
	case fails:
		w.Text = p.read.Text
		w.End = p.end(now, workflow.RunEnd{State: task.Failed, Error: p.failure.Error()})
		p.abandon(&w, now)
		return w
	}
	w.Plan = p.newPlan
	w.Text = p.plan.Run.Encode()
	released := make(map[int]bool, len(p.plan.Release))
	for _, r := range p.plan.Release {
		released[r.Step] = true
		d := r.Task
		d.Retention = task.RetentionLimit // it is kept as long as the run
		attempts := task.Task{Definition: d}.Policy().MaxAttempts
		w.Release = append(w.Release, partition.Release{Task: d, Again: r.Again, Attempts: attempts})
	}
	for _, i := range p.plan.Stop {
		w.Stop = append(w.Stop, p.stepRef(i))
	}
	if p.begin > 1 {
		w.Tie = p.tie(released)
	}
	if p.plan.End != nil {
		w.End = p.end(now, *p.plan.End)
		return w
	}
	w.Look = now.Add(lookAtRuns)
	if next := p.plan.Look; !next.IsZero() && next.Before(w.Look) {
		w.Look = next
	}
	switch {
	case len(p.plan.Stop) == workflow.StopsAtOnce:
		w.Look = now
	case p.plan.More:
		w.Look = again
	}
	return w
}

// tie returns the tasks of steps that a run keeps which begins again: those that were not released just now.
func (p *planned) tie(released map[int]bool) (refs []task.Ref) {
	for i, s := range p.plan.Run.Steps {
		if s.Generation > 0 && !released[i] && p.known.flow.HasTask(i) {
			refs = append(refs, p.stepRef(i))
		}
	}
	return refs
}

// abandon ends the steps of a run that cannot run. Their tasks are told to stop, as far as the definition of the run
// still names them. Others go on, and are freed when they have ended.
func (p *planned) abandon(w *partition.RunWrite, now time.Time) {
	for _, step := range p.read.Steps { // their entries go
		w.End.Free = append(w.End.Free, step.Seen.Ref)
	}
	run, err := workflow.DecodeUnknown(p.read.Text)
	if err != nil || run.Phase == workflow.PhaseEnded {
		return
	}
	w.Text = run.Abandon(now).Encode()
	ids := text.StepIDs(p.read.Plan)
	if len(ids) != len(run.Steps) {
		w.End.Error += "; steps that run go on, as nobody can read their names"
		return
	}
	for i, s := range run.Steps {
		if s.State == workflow.Active {
			w.Stop = append(w.Stop, p.ref.Step(ids[i]))
		}
		if s.Generation > 0 {
			w.End.Free = append(w.End.Free, p.ref.Step(ids[i]))
		}
	}
}

// late returns the steps that have ended after their run.
func (p *planned) late() (refs []task.Ref) {
	if own := p.read.Task; own.Type != "" && !own.State.Final() {
		return nil
	}
	for _, step := range p.read.Steps {
		refs = append(refs, step.Seen.Ref)
	}
	return refs
}

// end is how a run ends.
func (p *planned) end(now time.Time, e workflow.RunEnd) *partition.RunEnd {
	d := p.read.Task.Definition
	if d.Retention == 0 && p.known != nil {
		d.Retention = p.known.flow.Retention
	}
	kept := now.Add(d.EffectiveRetention(e.State))
	end := &partition.RunEnd{State: e.State, Error: e.Error, Result: e.Result, Kept: kept}
	for i, s := range p.plan.Run.Steps {
		if s.Generation > 0 && p.known.flow.HasTask(i) {
			end.Free = append(end.Free, p.stepRef(i))
		}
	}
	return end
}
