package chaos

import (
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/workflow"
)

// ranFlow is a run of a workflow that has succeeded at second 5, and whose only step is the task of twoTries.
func ranFlow() (*flowJob, flowEvidence) {
	s := twoTries()
	s.id, s.task.ID, s.task.FinishedAt = "f@.t", "f@.t", ptr(wire.At(at(4)))
	run := &wire.Task{ID: "f", State: wire.StateSucceeded, FinishedAt: ptr(wire.At(at(5)))}
	j := &flowJob{id: "f", accepted: true, answers: []span{between(0, 0)}}
	return j, flowEvidence{run: run, steps: map[string]evidence{"t": s}, generations: map[string]int{"t": 1}}
}

func TestFlowJob_IsJudgedByItsAuditAndTheCallsOfItsSteps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(j *flowJob, e *flowEvidence, step *evidence, p *past)
		want   string
	}{
		"as it was": {func(*flowJob, *flowEvidence, *evidence, *past) {}, ""},
		"not there": {func(_ *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			e.run = nil
		}, "accepted and is not there"},
		"not there, as Redis lost it": {func(_ *flowJob, e *flowEvidence, _ *evidence, p *past) {
			e.run, p.lost = nil, []loss{{span: between(0, 1)}}
		}, ""},
		"running": {func(_ *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			e.run.State = wire.StateRunning
		}, "running still"},
		"its audit": {func(_ *flowJob, e *flowEvidence, _ *evidence, _ *past) { e.findings = []string{"wrong"} }, "wrong"},
		"not asked": {func(_ *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			e.run.State = wire.StateCancelled
		}, "nobody asked"},
		"not obeyed": {func(j *flowJob, _ *flowEvidence, _ *evidence, _ *past) {
			j.cancels = []answered{{}}
		}, "although its"},
		"not obeyed, and run again": {func(j *flowJob, _ *flowEvidence, _ *evidence, _ *past) {
			j.cancels, j.reran = []answered{{}}, true
		}, ""},
		"a lost signal": {func(j *flowJob, _ *flowEvidence, _ *evidence, _ *past) {
			j.given = map[string]bool{"one": true}
		}, "has not the signal one"},
		"a signal that was not accepted": {func(j *flowJob, _ *flowEvidence, _ *evidence, _ *past) {
			j.given = map[string]bool{"one": false}
		}, ""},
		"a signal for an attempt that did not begin": {func(j *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			j.given, e.waiting = map[string]bool{"one": true}, []string{"signal one"}
		}, ""},
		"a signal that nobody gave": {func(_ *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			e.state.Signals = []workflow.Signal{{Name: "one"}}
		}, "which nobody gave"},
		"a signal given twice": {func(j *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			j.given, e.state.Signals = map[string]bool{"one": true}, []workflow.Signal{{Name: "one"}, {Name: "one"}}
		}, "or twice"},
		"a step begun twice": {func(_ *flowJob, _ *flowEvidence, s *evidence, _ *past) {
			s.calls = append(s.calls[:1], called(2, 3, 4, ""), s.calls[1])
		}, "begun twice"},
		"a step begun twice in its second release": {func(_ *flowJob, e *flowEvidence, s *evidence, _ *past) {
			e.generations["t"] = 2
			s.calls = append(s.calls, called(2, 3, 4, ""))
		}, "begun twice"},
		"a step with too many attempts": {func(_ *flowJob, e *flowEvidence, s *evidence, _ *past) {
			e.generations["t"], s.maxAttempts = 2, 1
			s.calls = append(s.calls, called(3, 4, 5, ""))
		}, "3 attempts in 2 releases"},
		"a step that ended after its run": {func(_ *flowJob, e *flowEvidence, _ *evidence, _ *past) {
			e.run.FinishedAt = ptr(wire.At(at(3)))
		}, "its run at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, e := ranFlow()
			p, step := killed(), e.steps["t"]
			test.change(j, &e, &step, p)
			e.steps["t"] = step
			expect(t, j.judge(e, p, false), test.want)
		})
	}
}
