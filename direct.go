package dts

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Submissions of a client that Open returned go to the use cases without the encoding of the API, which would cost more than Redis does.

func (c *Client) caller() control.Caller {
	return control.Caller{Namespace: cmp.Or(value(c.api.Namespace), task.DefaultNamespace)}
}

func (c *Client) submitDirect(ctx context.Context, s Submission) (*Task, error) {
	d, err := s.definition()
	if err != nil {
		return nil, err
	}
	submitted, err := c.useCases.Submit(ctx, c.caller(), d)
	if err != nil {
		return nil, errorOfUseCase(err)
	}
	return c.submittedTask(submitted), nil
}

func (c *Client) submitManyDirect(ctx context.Context, submissions []Submission) ([]Submitted, error) {
	results := make([]Submitted, 0, len(submissions))
	for some := range slices.Chunk(submissions, batchLimit) {
		part, err := c.submitSomeDirect(ctx, some)
		if err != nil {
			return results, errorOfUseCase(err)
		}
		results = append(results, part...)
	}
	return results, nil
}

func (c *Client) submitSomeDirect(ctx context.Context, submissions []Submission) ([]Submitted, error) {
	results := make([]Submitted, len(submissions))
	definitions := make([]task.Definition, 0, len(submissions))
	places := make([]int, 0, len(submissions)) // definitions[n] is of submissions[places[n]]
	for i, s := range submissions {
		d, err := s.definition()
		if err != nil {
			results[i].Err = err
			continue
		}
		definitions, places = append(definitions, d), append(places, i)
	}
	answers, err := c.useCases.SubmitEach(ctx, c.caller(), definitions)
	if err != nil {
		return nil, err
	}
	for n, answer := range answers {
		to := &results[places[n]]
		if to.Err = errorOfUseCase(answer.Err); to.Err == nil {
			to.Task, to.Existed = c.submittedTask(answer), answer.Existed
		}
	}
	return results, nil
}

func (s Submission) definition() (task.Definition, error) {
	raw, err := payload(s.Payload)
	return task.Definition{
		Ref: task.Ref{ID: s.ID}, Type: s.Type, Queue: s.Queue, Payload: raw, RunAt: s.RunAt, Delay: s.Delay, Timeout: s.Timeout,
		Retry: task.Retry{
			MaxAttempts: s.Retry.MaxAttempts, MaxElapsed: s.Retry.MaxElapsed, Backoff: task.Backoff(s.Retry.Backoff), Delays: s.Retry.Delays,
		},
		Retention: s.Retention, Owner: s.Owner, Labels: s.Labels,
	}, err
}

func (c *Client) submittedTask(s control.Submitted) *Task {
	t := taskKnown(s.Task, c.types)
	t.Warnings = s.Warnings
	return t
}

// taskKnown returns a task as the store knows it, with the defaults that apply to it filled in.
func taskKnown(t task.Task, types task.Types) *Task {
	out := &Task{
		ID: t.ID, Namespace: t.Namespace, Type: t.Type, Queue: t.Queue, State: State(t.State), Attempt: t.Attempt, MaxAttempts: t.MaxAttempts,
		Payload: t.Payload, Result: t.Result, Error: t.Error, RunAt: t.DueAt, CreatedAt: t.CreatedAt, QueuedAt: t.QueuedAt,
		StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, CancelRequestedAt: t.CancelRequested, Node: t.Node, Progress: t.Progress,
		ProgressNote: t.ProgressNote, Checkpoint: t.Checkpoint, Timeout: types.Timeout(t.Definition), Retention: t.Retention, Owner: t.Owner, Labels: t.Labels,
		Retry: Retry{MaxAttempts: t.Retry.Attempts(), MaxElapsed: t.Retry.MaxElapsed, Delays: t.Retry.Delays},
	}
	if len(t.Retry.Delays) == 0 {
		out.Retry.Backoff = Backoff(t.Retry.Backoff.Resolved())
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
	if !errors.As(err, &e) {
		return err
	}
	return &Error{Code: Code(e.Code), Field: e.Field, Message: (&task.Error{Field: e.Field, Message: e.Message}).Error(), Err: e.Err}
}
