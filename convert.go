package dts

import (
	"encoding/json"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/task"
)

// given returns a pointer to a value, nil if it is the zero value: the API leaves out what has none.
func given[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// value returns what a pointer points to, the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

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

// givenTime is given for times.
func givenTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// givenSpan returns a duration as the API writes it, nil for 0.
func givenSpan(d time.Duration) *client.Duration {
	if d == 0 {
		return nil
	}
	return new(d.String())
}

// span reads a duration of an answer, which the API has written.
func span(text client.Duration) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

func spanOf(text *client.Duration) time.Duration { return span(value(text)) }

// payload returns the JSON of a payload, nil for none. Error: a *task.Error.
func payload(v any) (json.RawMessage, error) {
	raw, isRaw := v.(json.RawMessage)
	if v == nil || isRaw && len(raw) == 0 {
		return nil, nil
	}
	if !isRaw {
		var err error
		if raw, err = rest.Encode(v); err != nil {
			return nil, task.Invalid("payload", "cannot be JSON: %v", err)
		}
	}
	return raw, task.ValidatePayload(raw)
}

// wire returns a submission as the API takes it. Error: CodeInvalid.
func (c *Client) wire(s Submission) (client.Submission, error) {
	d, err := c.checked(s)
	return client.Submission{
		ID: given(s.ID), Type: s.Type, Queue: given(s.Queue), Payload: d.Payload, RunAt: givenTime(s.RunAt), Delay: givenSpan(s.Delay),
		Timeout: givenSpan(s.Timeout), Retry: s.Retry.wire(), Retention: givenSpan(s.Retention), Owner: given(s.Owner), Labels: labels(s.Labels),
	}, errorOfUseCase(err)
}

func labels(l map[string]string) *client.Labels {
	if len(l) == 0 {
		return nil
	}
	return new(client.Labels(l))
}

func (r Retry) wire() *client.Retry {
	backoff := r.Backoff.wire()
	if r.MaxAttempts == 0 && r.MaxElapsed == 0 && backoff == nil && len(r.Delays) == 0 {
		return nil
	}
	return &client.Retry{
		MaxAttempts: given(r.MaxAttempts), MaxElapsed: givenSpan(r.MaxElapsed), Backoff: backoff,
		Delays: each(r.Delays, func(d time.Duration) client.Duration { return d.String() }),
	}
}

func (b Backoff) wire() *client.Backoff {
	if b == (Backoff{}) {
		return nil
	}
	return &client.Backoff{Initial: givenSpan(b.Initial), Factor: given(b.Factor), Max: givenSpan(b.Max), Jitter: b.Jitter}
}

func retryFrom(r *client.Retry) Retry {
	if r == nil {
		return Retry{}
	}
	retry := Retry{MaxAttempts: value(r.MaxAttempts), MaxElapsed: spanOf(r.MaxElapsed), Delays: each(r.Delays, span)}
	if b := r.Backoff; b != nil {
		retry.Backoff = Backoff{Initial: spanOf(b.Initial), Factor: value(b.Factor), Max: spanOf(b.Max), Jitter: b.Jitter}
	}
	return retry
}

func taskFrom(t client.Task) *Task {
	return &Task{
		ID: t.ID, Namespace: t.Namespace, Type: t.Type, Queue: t.Queue, State: State(t.State), Attempt: t.Attempt, MaxAttempts: t.MaxAttempts,
		Payload: t.Payload, Result: value(t.Result), Error: value(t.Error),
		RunAt: t.RunAt, CreatedAt: t.CreatedAt, QueuedAt: value(t.QueuedAt), StartedAt: value(t.StartedAt), FinishedAt: value(t.FinishedAt),
		CancelRequestedAt: value(t.CancelRequestedAt), Node: value(t.Node), Progress: t.Progress, ProgressNote: value(t.ProgressNote), Checkpoint: t.Checkpoint,
		Timeout: span(t.Timeout), Retry: retryFrom(&t.Retry), Retention: spanOf(t.Retention), Owner: value(t.Owner), Labels: value(t.Labels),
		Schedule: value(t.Schedule), Tick: value(t.Tick), Warnings: t.Warnings, Damage: value(t.Damage),
	}
}

func attemptFrom(a client.Attempt) Attempt {
	return Attempt{
		Number: a.Number, Node: a.Node, StartedAt: a.StartedAt, FinishedAt: value(a.FinishedAt), Outcome: Outcome(value(a.Outcome)), Error: value(a.Error),
	}
}

func lineFrom(l client.LogLine) LogLine {
	return LogLine{Attempt: l.Attempt, Stream: l.Stream, At: l.At, Text: l.Text}
}
