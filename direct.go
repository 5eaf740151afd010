package dts

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Submissions of a client that Open returned go to the use cases without the encoding of the API, which would cost more than Redis does.

func (c *Client) caller() control.Caller {
	who := control.Caller{Namespace: task.DefaultNamespace, Name: c.name}
	if c.api.Namespace != nil {
		who.Namespace = *c.api.Namespace
	}
	return who
}

func (c *Client) submitDirect(ctx context.Context, s Submission) (*Task, error) {
	if err := c.checkNamespace(); err != nil {
		return nil, err
	}
	results := make([]Submitted, 1)
	if err := c.submitSomeDirect(ctx, []Submission{s}, results); err != nil {
		return nil, err
	}
	return results[0].Task, results[0].Err
}

func (c *Client) submitManyDirect(ctx context.Context, submissions []Submission, results []Submitted) error {
	for first := 0; first < len(submissions); first += batchLimit {
		last := min(first+batchLimit, len(submissions))
		if err := c.submitSomeDirect(ctx, submissions[first:last], results[first:last]); err != nil {
			failed(results, err)
			return err
		}
	}
	return nil
}

// submitSomeDirect submits tasks and writes the results to their places.
func (c *Client) submitSomeDirect(ctx context.Context, submissions []Submission, results []Submitted) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	definitions := make([]task.Definition, 0, len(submissions))
	places := make([]int, 0, len(submissions)) // definitions[n] is of submissions[places[n]]
	for i, s := range submissions {
		d, err := s.definition()
		if err != nil {
			results[i].Err = errorOfUseCase(err)
			continue
		}
		definitions, places = append(definitions, d), append(places, i)
	}
	if len(definitions) == 0 {
		return nil
	}
	answers, err := untilEnd(ctx, func() ([]control.Submitted, error) {
		return c.useCases.SubmitEach(ctx, c.caller(), definitions)
	})
	if err != nil {
		return errorOfUseCase(err)
	}
	for n, answer := range answers {
		to := &results[places[n]]
		if answer.Err != nil && task.CodeOf(answer.Err) == task.CodeUnavailable {
			if err := c.usable(ctx); err != nil { // that is why
				return err
			}
		}
		if to.Err = errorOfUseCase(answer.Err); to.Err == nil {
			to.Task, to.Existed = c.submittedTask(answer), answer.Existed
		}
	}
	return nil
}

// untilEnd returns what ask returns or, if ctx ends first, its error: commands of Redis do not end with the context, and calls that are
// shared with other callers must not. Then ask goes on by itself until Redis answers or is given up, which takes some seconds at most.
func untilEnd[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return ask()
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := ask()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, endOf(ctx)
	}
}

// usable returns why no request can be answered: the client is closed, or ctx has ended.
func (c *Client) usable(ctx context.Context) error {
	if c.life.ctx.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	return nil
}

// definition returns a submission as the use cases take it. It shares nothing with the submission, which the caller may change while a
// call that was given up goes on. Error: a *task.Error.
func (s Submission) definition() (task.Definition, error) {
	raw, err := payload(s.Payload)
	retry := task.Retry{
		MaxAttempts: s.Retry.MaxAttempts, MaxElapsed: s.Retry.MaxElapsed, Backoff: task.Backoff(s.Retry.Backoff), Delays: slices.Clone(s.Retry.Delays),
	}
	if retry.Backoff.Jitter != nil {
		retry.Backoff.Jitter = new(*retry.Backoff.Jitter)
	}
	return task.Definition{
		Ref: task.Ref{ID: s.ID}, Type: s.Type, Queue: s.Queue, Payload: bytes.Clone(raw), RunAt: s.RunAt, Delay: s.Delay, Timeout: s.Timeout,
		Retry: retry, Retention: s.Retention, Owner: s.Owner, Labels: maps.Clone(s.Labels),
	}, err
}

func (c *Client) submittedTask(s control.Submitted) *Task {
	t := taskKnown(s.Task, c.types)
	t.Warnings = s.Warnings
	return t
}

// retryOf returns a policy as callers see it.
func retryOf(r task.Retry) Retry {
	return Retry{MaxAttempts: r.MaxAttempts, MaxElapsed: r.MaxElapsed, Backoff: Backoff(r.Backoff), Delays: r.Delays}
}

// taskKnown returns a task as the store knows it, with the defaults that apply to it filled in.
func taskKnown(t task.Task, types task.Types) *Task {
	out := &Task{
		ID: t.ID, Namespace: t.Namespace, Type: t.Type, Queue: t.Queue, State: State(t.State), Attempt: t.Attempt, MaxAttempts: t.MaxAttempts,
		Payload: t.Payload, Result: t.Result, Error: t.Error, RunAt: t.DueAt, CreatedAt: t.CreatedAt, QueuedAt: t.QueuedAt,
		StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, CancelRequestedAt: t.CancelRequested, Node: t.Node, Progress: t.Progress,
		ProgressNote: t.ProgressNote, Checkpoint: t.Checkpoint, Timeout: types.Timeout(t.Definition), Retention: t.Retention, Owner: t.Owner, Labels: t.Labels,
		Retry: retryOf(t.Policy()), Damage: t.Damage,
	}
	if of, name, ok := schedule.OfTask(t.Ref); ok {
		out.Schedule = of
		out.Tick, _, _ = schedule.ParseTickName(name)
	}
	return out
}

// errorOfUseCase turns an error of package control into an *Error.
func errorOfUseCase(err error) error {
	var e *task.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	return &Error{Code: Code(e.Code), Field: e.Field, Message: (&task.Error{Field: e.Field, Message: e.Message}).Error(), Err: e.Err}
}
