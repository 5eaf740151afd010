package dts

import (
	"context"
	"errors"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// submissions is what the handlers of the API call after they have decoded a request. A call that skips the coding of
// JSON costs a third. It is an interface, so that programs that only use Dial do not link what is behind it.
type submissions interface {
	Submit(ctx context.Context, who control.Caller, in wire.Submission) (api.Submitted, error)
	SubmitEach(ctx context.Context, who control.Caller, in []api.Member) ([]api.Submitted, error)
}

func (c *Client) caller() control.Caller {
	who := control.Caller{Namespace: task.DefaultNamespace, Name: c.name}
	if c.api.Namespace != nil {
		who.Namespace = *c.api.Namespace
	}
	return who
}

func (c *Client) submitDirect(ctx context.Context, s wire.Submission) (*Task, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	answer, err := untilEnd(ctx, c.life.runners, func() (api.Submitted, error) {
		return c.direct.Submit(ctx, c.caller(), s)
	})
	if err != nil {
		return nil, c.because(ctx, err)
	}
	return taskFrom(answer.Task), nil
}

// submitManyDirect submits tasks and writes the results to their places.
func (c *Client) submitManyDirect(ctx context.Context, many []Submission, results []Submitted) error {
	for first := 0; first < len(many); first += batchLimit {
		last := min(first+batchLimit, len(many))
		if err := c.submitSomeDirect(ctx, many[first:last], results[first:last]); err != nil {
			failed(results, err)
			return err
		}
	}
	return nil
}

func (c *Client) submitSomeDirect(ctx context.Context, some []Submission, results []Submitted) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	members := make([]api.Member, len(some))
	for i, s := range some {
		members[i].Submission, members[i].Err = s.wire()
	}
	answers, err := untilEnd(ctx, c.life.runners, func() ([]api.Submitted, error) {
		return c.direct.SubmitEach(ctx, c.caller(), members)
	})
	if err != nil {
		return c.because(ctx, err)
	}
	for i, answer := range answers {
		if answer.Err == nil {
			results[i] = Submitted{Task: taskFrom(answer.Task), Existed: answer.Existed}
			continue
		}
		err := c.because(ctx, answer.Err)
		if task.CodeOf(answer.Err) == task.CodeUnavailable && CodeOf(err) == "" { // the others have no better answer
			return err
		}
		results[i].Err = err
	}
	return nil
}

// because returns an error of package control as an *Error. If Redis did not answer because the client is closed or ctx has
// ended, that is the error.
func (c *Client) because(ctx context.Context, err error) error {
	if task.CodeOf(err) == task.CodeUnavailable {
		if ended := c.usable(ctx); ended != nil {
			return ended
		}
	}
	return errorOfUseCase(err)
}

// untilEnd returns what ask returns or, if ctx ends first, its error: commands of Redis do not end with the context, and calls that are
// shared with other callers must not. Then ask goes on by itself until Redis answers or is given up, which takes some seconds at most.
func untilEnd[T any](ctx context.Context, r *calls.Runners, ask func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return ask()
	}
	answer := struct {
		value T
		err   error
	}{}
	answered := make(chan struct{})
	r.Run(func() {
		answer.value, answer.err = ask()
		close(answered)
	})
	select {
	case <-answered:
		return answer.value, answer.err
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

// errorOfUseCase turns an error of package control into an *Error.
func errorOfUseCase(err error) error {
	var e *task.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	return &Error{Code: Code(e.Code), Field: e.Field, Message: (&task.Error{Field: e.Field, Message: e.Message}).Error(), Err: e.Err}
}
