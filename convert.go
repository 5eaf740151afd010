package dts

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// each converts the elements of a slice.
func each[A, B any](from []A, convert func(A) B) []B {
	if from == nil {
		return nil
	}
	to := make([]B, len(from))
	for i, a := range from {
		to[i] = convert(a)
	}
	return to
}

// givenTime returns a time as a parameter, nil for one that is not given.
func givenTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// givenSpan returns a duration as the API writes it, nil for 0.
func givenSpan(d time.Duration) *wire.Duration {
	if d == 0 {
		return nil
	}
	return new(d.String())
}

// span reads a duration of an answer, which the API has written.
func span(text wire.Duration) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

func spanOf(text *wire.Duration) time.Duration { return span(wire.Value(text)) }

// payloadOf returns the JSON of a payload, nil for none. Whether it is valid is not looked at. Error: a *task.Error.
func payloadOf(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	switch v := v.(type) {
	case json.RawMessage:
		return bytes.Clone(v), nil
	case start:
		return v.payload()
	}
	raw, err := wire.Encode(v)
	if err != nil {
		return nil, task.Invalid("payload", "cannot be JSON: %v", err)
	}
	return raw, nil
}

// wire returns a submission as the API takes it. It shares nothing with the submission, which the caller may change
// while a call that was given up goes on. Error: a *task.Error, if the payload cannot be JSON.
func (s Submission) wire() (wire.Submission, error) {
	payload, err := payloadOf(s.Payload)
	next, errNext := s.OnEnd.wire()
	return wire.Submission{
		ID: wire.Given(s.ID), Type: s.Type, Queue: wire.Given(s.Queue), Payload: payload, RunAt: wire.AtIfAny(s.RunAt),
		Delay: givenSpan(s.Delay), Timeout: givenSpan(s.Timeout), Retry: s.Retry.wire(), Retention: givenSpan(s.Retention),
		Owner: wire.Given(s.Owner), Labels: wire.LabelsOf(maps.Clone(s.Labels)),
		StartBy: givenSpan(s.StartBy), OnEnd: next, Once: s.Once.wire(),
		Priority: wire.Given(s.Priority), FairKey: wire.Given(s.FairKey), FairWeight: wire.Given(s.FairWeight),
		LimitKey: wire.Given(s.LimitKey), Cost: wire.Given(s.Cost), Slots: wire.Given(s.Slots),
		Select: wire.Given(s.Select), Prefer: preferencesOf(s.Prefer), Route: s.Route.wire(),
	}, task.Join(err, errNext)
}

// wire returns a follow-up as the API takes it; nil for none. Error: as of Submission.wire, or a *task.Error for a name
// or a time of its own.
func (f *FollowUp) wire() (*wire.FollowUp, error) {
	if f == nil {
		return nil, nil
	}
	if f.Task.Once != nil {
		return nil, task.Invalid("on_end.task.once", "leave it out: a follow-up has no key")
	}
	if f.Task.ID != "" || !f.Task.RunAt.IsZero() {
		return nil, task.Invalid("on_end.task", "leave out ID and RunAt: both come from the end of the task before")
	}
	s, err := f.Task.wire()
	err = task.Within("on_end.task", err)
	return &wire.FollowUp{When: wire.FollowUpWhen(f.When), Task: wire.FollowUpTask{
		Type: s.Type, Queue: s.Queue, Payload: s.Payload, Delay: s.Delay, Timeout: s.Timeout, Retry: s.Retry,
		Retention: s.Retention, Owner: s.Owner, Labels: s.Labels, StartBy: s.StartBy, OnEnd: s.OnEnd,
		Priority: s.Priority, FairKey: s.FairKey, FairWeight: s.FairWeight, LimitKey: s.LimitKey, Cost: s.Cost,
		Slots: s.Slots, Select: s.Select, Prefer: s.Prefer, Route: s.Route,
	}}, err
}

func followUpFrom(f *wire.FollowUp) *FollowUp {
	if f == nil {
		return nil
	}
	t := f.Task
	out := &FollowUp{When: When(f.When), Task: Submission{
		Type: t.Type, Queue: wire.Value(t.Queue), Delay: spanOf(t.Delay), Timeout: spanOf(t.Timeout),
		Retry:     retryFrom(t.Retry),
		Retention: spanOf(t.Retention), Owner: wire.Value(t.Owner), Labels: wire.Value(t.Labels),
		StartBy: spanOf(t.StartBy), OnEnd: followUpFrom(t.OnEnd),
		Priority: wire.Value(t.Priority), FairKey: wire.Value(t.FairKey), FairWeight: wire.Value(t.FairWeight),
		LimitKey: wire.Value(t.LimitKey), Cost: wire.Value(t.Cost), Slots: wire.Value(t.Slots),
		Select: wire.Value(t.Select), Prefer: preferencesFrom(t.Prefer), Route: routeFrom(t.Route),
	}}
	if t.Payload != nil {
		out.Task.Payload = t.Payload
	}
	return out
}

// wire returns the key of a submission as the API takes it; nil for none.
func (o *Once) wire() *wire.Once {
	if o == nil {
		return nil
	}
	return &wire.Once{
		Mode: wire.OnceMode(o.Mode), Key: o.Key, Wait: givenSpan(o.Wait), Max: givenSpan(o.Max), Every: givenSpan(o.Every),
		Excess: wire.Given(wire.Excess(o.Excess)),
	}
}

func onceFrom(o *wire.TaskOnce) *Once {
	if o == nil {
		return nil
	}
	return &Once{
		Mode: OnceMode(o.Mode), Key: o.Key, Wait: spanOf(o.Wait), Max: spanOf(o.Max), Every: spanOf(o.Every),
		Excess: Excess(wire.Value(o.Excess)), Outcome: OnceOutcome(wire.Value(o.Outcome)),
		Next: wire.Value(o.Next).Time, After: wire.Value(o.After),
	}
}

func parentFrom(p *wire.Parent) *Parent {
	if p == nil {
		return nil
	}
	return &Parent{
		Namespace: p.Namespace, ID: p.ID, Attempt: p.Attempt, State: State(p.State), Result: wire.Value(p.Result),
		Error: wire.Value(p.Error),
	}
}

func (r Retry) wire() *wire.Retry {
	backoff := r.Backoff.wire()
	if r.MaxAttempts == 0 && r.MaxElapsed == 0 && backoff == nil && len(r.Delays) == 0 {
		return nil
	}
	return &wire.Retry{
		MaxAttempts: wire.Given(r.MaxAttempts), MaxElapsed: givenSpan(r.MaxElapsed), Backoff: backoff,
		Delays: each(r.Delays, func(d time.Duration) wire.Duration { return d.String() }),
	}
}

func (b Backoff) wire() *wire.Backoff {
	if b == (Backoff{}) {
		return nil
	}
	if b.Jitter != nil {
		b.Jitter = new(*b.Jitter)
	}
	return &wire.Backoff{
		Initial: givenSpan(b.Initial), Factor: wire.Given(b.Factor), Max: givenSpan(b.Max), Jitter: b.Jitter,
	}
}

func retryFrom(r *wire.Retry) Retry {
	if r == nil {
		return Retry{}
	}
	retry := Retry{MaxAttempts: wire.Value(r.MaxAttempts), MaxElapsed: spanOf(r.MaxElapsed), Delays: each(r.Delays, span)}
	if b := r.Backoff; b != nil {
		retry.Backoff = Backoff{
			Initial: spanOf(b.Initial), Factor: wire.Value(b.Factor), Max: spanOf(b.Max), Jitter: b.Jitter,
		}
	}
	return retry
}

func taskFrom(t wire.Task) *Task {
	return &Task{
		ID: t.ID, Namespace: t.Namespace, Type: t.Type, Queue: t.Queue, State: State(t.State), Attempt: t.Attempt,
		MaxAttempts: t.MaxAttempts,
		Payload:     t.Payload, Result: wire.Value(t.Result), Error: wire.Value(t.Error),
		RunAt: t.RunAt.Time, CreatedAt: t.CreatedAt.Time, QueuedAt: wire.Value(t.QueuedAt).Time,
		StartedAt: wire.Value(t.StartedAt).Time, FinishedAt: wire.Value(t.FinishedAt).Time,
		CancelRequestedAt: wire.Value(t.CancelRequestedAt).Time,
		MoveRequestedAt:   wire.Value(t.MoveRequestedAt).Time,
		MoveRequestedBy:   wire.Value(t.MoveRequestedBy), MoveTo: wire.Value(t.MoveTo),
		Node: wire.Value(t.Node), Progress: t.Progress,
		ProgressNote: wire.Value(t.ProgressNote), Checkpoint: t.Checkpoint,
		Timeout: span(t.Timeout), Retry: retryFrom(&t.Retry), Retention: spanOf(t.Retention),
		Owner: wire.Value(t.Owner), Labels: wire.Value(t.Labels),
		Schedule: wire.Value(t.Schedule), Tick: wire.Value(t.Tick).Time, OnEnd: followUpFrom(t.OnEnd),
		StartBy: spanOf(t.StartBy), Parent: parentFrom(t.Parent), Once: onceFrom(t.Once), Warnings: t.Warnings,
		Damage: wire.Value(t.Damage), Priority: wire.Value(t.Priority), FairKey: wire.Value(t.FairKey),
		FairWeight: wire.Value(t.FairWeight), LimitKey: wire.Value(t.LimitKey), Cost: wire.Value(t.Cost),
		Slots: wire.Value(t.Slots), Select: wire.Value(t.Select),
		Prefer: preferencesFrom(t.Prefer), Route: routeFrom(t.Route),
	}
}

func attemptFrom(a wire.Attempt) Attempt {
	return Attempt{
		Number: a.Number, Node: a.Node, StartedAt: a.StartedAt.Time, FinishedAt: wire.Value(a.FinishedAt).Time,
		Outcome: Outcome(wire.Value(a.Outcome)), Error: wire.Value(a.Error),
	}
}

func lineFrom(l wire.LogLine) LogLine {
	return LogLine{Attempt: l.Attempt, Stream: l.Stream, At: l.At.Time, Text: l.Text}
}

func momentOf(t wire.Time) time.Time { return t.Time }
