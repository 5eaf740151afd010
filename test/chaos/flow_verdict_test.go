package chaos

import (
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// judgeFlows judges all runs of workflows and their steps.
func (r *round) judgeFlows(w *workload, file *caseFile) {
	data, err := store.Open(r.ctx, store.Options{DB: r.db})
	if err != nil {
		r.violation("the runs of workflows cannot be audited: %v", err)
		return
	}
	auditor := control.New(control.Options{Store: data, Queues: queue.New(queue.Options{DB: r.db})})
	for _, j := range w.flows {
		own := file.of(j.id, works, 1, time.Time{})
		e := flowEvidence{run: own.task, steps: make(map[string]evidence), audited: own.task != nil}
		for step, as := range j.steps {
			e.steps[step] = file.of(task.Ref{ID: j.id}.Step(step).ID, as.behaviour, as.maxAttempts, time.Time{})
			if e.steps[step].task != nil {
				file.steps++
			}
		}
		if e.audited {
			run, findings, err := auditor.AuditRun(r.ctx, control.Caller{Namespace: task.DefaultNamespace}, j.id)
			if err != nil {
				r.violation("the audit of %s fails: %v", j.id, err)
				continue
			}
			e.state, e.findings, e.waiting = run.Run, findings, run.Asked
			e.generations = make(map[string]int, len(run.Steps))
			for _, s := range run.Steps {
				e.generations[s.ID] = s.Generation
			}
		}
		r.add(j.judge(e, r.past.of(j.id), r.durable()))
	}
}

// flowEvidence is what is known of a run of a workflow.
type flowEvidence struct {
	run         *wire.Task // as DTS lists it; nil: it does not
	steps       map[string]evidence
	audited     bool // what follows is known
	state       workflow.Run
	findings    []string       // of the audit
	waiting     []string       // what was asked of it, and its leader has not done
	generations map[string]int // how often each step was released
}

// judge: a run that was accepted has ended, as its audit says. No attempt of a step began twice, and none after the
// run.
func (j *flowJob) judge(e flowEvidence, p *past, durable bool) (v verdict) {
	touched := p.isTouched(nil, j.answers)
	for _, s := range e.steps {
		touched = touched || p.isTouched(s.calls, nil)
	}
	if e.run == nil {
		if j.accepted && !p.full && (!touched || durable) {
			v.add("%s was accepted and is not there", j.id)
		}
		return v
	}
	if !task.State(e.run.State).Final() {
		v.add("%s is %s still", j.id, e.run.State)
	}
	for _, finding := range e.findings {
		if touched && strings.Contains(finding, workflow.RanAgain) {
			continue // Redis has lost that it was released once more
		}
		v.add("the audit of %s: %s\n%s", j.id, finding, e.state.Encode())
	}
	if !touched {
		v = append(v, j.judgeCancels(e.run.State)...)
	}
	v = append(v, j.judgeSignals(e, touched)...)
	for id, s := range e.steps {
		v = append(v, j.judgeStep(s, e.generations[id], touched, p)...)
		if ended := e.run.FinishedAt; ended != nil && len(p.jumps) == 0 && !touched && s.task != nil &&
			s.task.FinishedAt != nil && s.task.FinishedAt.After(ended.Time) {
			v.add("%s ended at %s, its run at %s", s.id, s.task.FinishedAt, ended)
		}
	}
	return v
}

// judgeSignals: a run has the signals that were accepted, each once, and no others.
func (j *flowJob) judgeSignals(e flowEvidence, touched bool) (v verdict) {
	has := make(map[string]bool)
	for _, s := range e.state.Signals {
		if _, tried := j.given[s.Name]; !tried || has[s.Name] {
			v.add("%s has the signal %s, which nobody gave, or twice", j.id, s.Name)
		}
		has[s.Name] = true
	}
	for name, accepted := range j.given {
		if waits := slices.Contains(e.waiting, "signal "+name); accepted && !has[name] && !waits && !touched {
			v.add("%s has not the signal %s, which was accepted", j.id, name)
		}
	}
	return v
}

// judgeCancels: a run that was cancelled while it ran, and not run again, is cancelled.
func (j *flowJob) judgeCancels(state wire.State) (v verdict) {
	if state == wire.StateCancelled && !j.asked {
		v.add("%s was cancelled, which nobody asked for", j.id)
	}
	for _, a := range j.cancels {
		if state != wire.StateCancelled && !j.reran {
			v.add("%s is %s, although its cancellation was answered with %s", j.id, state, a.state)
		}
	}
	return v
}

// judgeStep judges the task of a step that was released so many times.
func (j *flowJob) judgeStep(s evidence, generation int, touched bool, p *past) (v verdict) {
	switch {
	case touched && s.task != nil:
		s.maxAttempts *= max(generation, 1)
		v = append(v, s.judgeTouched(p, false)...)
	case touched:
	case generation <= 1:
		v = append(v, s.judgeCalls(p)...)
		if s.task != nil {
			v = append(v, s.judgeTask(p)...)
		}
	default:
		begun := make(map[int]bool)
		for _, c := range s.calls {
			if begun[c.attempt] {
				v.add("attempt %d of %s was begun twice", c.attempt, s.id)
			}
			begun[c.attempt] = true
		}
		if len(begun) > generation*s.maxAttempts {
			v.add("%s had %d attempts in %d releases", s.id, len(begun), generation)
		}
	}
	return v
}
