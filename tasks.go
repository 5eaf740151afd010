package dts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

const (
	pageLimit  = 500  // rows in one answer
	batchLimit = 1000 // tasks in one request
	lineLimit  = 1000 // log lines in one answer
)

// Submit submits a task. When it returns without an error, the task is in Redis. A task of the same id and content that is there is
// returned as it is. Errors: CodeInvalid, CodeTaskConflict, CodeUnavailable, or that of ctx. After CodeUnavailable, and if ctx ended, the
// task may have been accepted, or may be for some seconds to come: who needs to be sure gives it an ID and submits it again.
func (c *Client) Submit(ctx context.Context, s Submission) (*Task, error) {
	t, err := c.submit(ctx, s)
	return t, inGo(s.Payload, err)
}

func (c *Client) submit(ctx context.Context, s Submission) (*Task, error) {
	if err := c.checkNamespace(); err != nil {
		return nil, err
	}
	body, err := s.wire()
	if err != nil {
		return nil, errorOfUseCase(err)
	}
	if c.direct != nil {
		return c.submitDirect(ctx, body)
	}
	if err := c.check(body); err != nil {
		return nil, errorOfUseCase(err)
	}
	raw, err := rest.Body(body)
	if err != nil {
		return nil, err
	}
	return taskOf(c.api.SubmitTaskWithBodyWithResponse(ctx, &client.SubmitTaskParams{Namespace: c.api.Namespace}, rest.JSONType, raw))
}

// Submitted is what came of one of many submissions.
type Submitted struct {
	Task    *Task // nil if there is an Err
	Existed bool  // it had been accepted before, with the same content
	Err     error // why it was refused, or may not have been accepted
}

// SubmitMany submits tasks, up to 1,000 in a request, and returns a result for each, in their order. One that is refused does not hold
// back the others. If a request fails as a whole, that is the error, and the Err of its tasks and of those that were to follow: they may
// have been accepted, as with [Client.Submit]. Errors: CodeInvalid for the namespace, CodeUnavailable, or that of ctx.
func (c *Client) SubmitMany(ctx context.Context, submissions []Submission) ([]Submitted, error) {
	results := make([]Submitted, len(submissions))
	defer func() {
		for i, s := range submissions {
			results[i].Err = inGo(s.Payload, results[i].Err)
		}
	}()
	if err := c.checkNamespace(); err != nil {
		return failed(results, err), err
	}
	if c.direct != nil {
		return results, c.submitManyDirect(ctx, submissions, results)
	}
	var batch []json.RawMessage
	var places []int // batch[n] is submissions[places[n]]
	bytes := 0
	send := func() error {
		defer func() { batch, places, bytes = batch[:0], places[:0], 0 }()
		return c.submitBatch(ctx, batch, places, results)
	}
	for i, s := range submissions {
		raw, err := c.encoded(s)
		if err != nil {
			results[i].Err = errorOfUseCase(err)
			continue
		}
		if len(batch) == batchLimit || bytes+len(raw) > rest.BatchBytes {
			if err := send(); err != nil {
				return failed(results, err), err
			}
		}
		batch, places, bytes = append(batch, raw), append(places, i), bytes+len(raw)
	}
	if err := send(); err != nil {
		return failed(results, err), err
	}
	return results, nil
}

// encoded returns the JSON of a submission that is valid. Error: a *task.Error if it is not.
func (c *Client) encoded(s Submission) (json.RawMessage, error) {
	body, err := s.wire()
	if err == nil {
		err = c.check(body)
	}
	if err != nil {
		return nil, err
	}
	return wire.Encode(body)
}

// failed sets an error for the submissions that have no result.
func failed(results []Submitted, err error) []Submitted {
	for i := range results {
		if results[i].Task == nil && results[i].Err == nil {
			results[i].Err = err
		}
	}
	return results
}

// submitBatch sends one request, and writes the results to their places.
func (c *Client) submitBatch(ctx context.Context, batch []json.RawMessage, places []int, results []Submitted) error {
	if len(batch) == 0 {
		return nil
	}
	answer, err := c.api.SubmitBatch(ctx, c.api.Namespace, batch)
	if err != nil {
		return errorOf(err)
	}
	for n, result := range answer.Value.Results {
		to := &results[places[n]]
		to.Existed = result.Status == http.StatusOK
		if result.Task != nil {
			to.Task = taskFrom(*result.Task)
		}
		if result.Error != nil {
			to.Err = errorOf(&rest.Refusal{Problem: *result.Error})
		}
	}
	return nil
}

// Get returns a task. Error: CodeTaskNotFound.
func (c *Client) Get(ctx context.Context, id string) (*Task, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	return taskOf(c.api.GetTaskWithResponse(ctx, id, &client.GetTaskParams{Namespace: c.api.Namespace}))
}

// List yields tasks of the namespace, the newest first. It reads them page by page: what happens meanwhile may show or not.
// It goes on by itself where the server answers a page early, as few of the tasks match. Of a task that cannot be read, Damage says so.
// Errors: CodeInvalid for the filter; CodeDataUnreadable, after all that could be read, if something of the list itself could not.
func (c *Client) List(ctx context.Context, f TaskFilter) iter.Seq2[*Task, error] {
	if err := c.checkNamespace(); err != nil {
		return failing[*Task](err)
	}
	params := client.ListTasksParams{
		Namespace: c.api.Namespace, State: states(f.States), Queue: wire.Given(f.Queue), Type: wire.Given(f.Type), Owner: wire.Given(f.Owner),
		Node: wire.Given(f.Node), Schedule: wire.Given(f.Schedule), Limit: new(pageLimit),
	}
	return pages(func(cursor *string) (page[*Task], error) {
		params.Cursor = cursor
		list, err := call[wire.TaskList](c.api.ListTasksWithResponse(ctx, &params))
		return page[*Task]{each(list.Tasks, taskFrom), list.NextCursor, list.Warnings}, err
	})
}

// page is a part of a list.
type page[T any] struct {
	rows     []T
	next     *string  // the cursor of the next one; nil on the last one
	warnings []string // what cannot be read, and is left out
}

// pages yields the rows of pages until there is no next one, and then an error if something was left out.
func pages[T any](read func(cursor *string) (page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var cursor *string
		var warnings []string
		for {
			p, err := read(cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, row := range p.rows {
				if !yield(row, nil) {
					return
				}
			}
			warnings = noted(warnings, p.warnings...)
			if cursor = p.next; cursor == nil {
				break
			}
		}
		if err := leftOut(warnings); err != nil {
			yield(none, err)
		}
	}
}

// noted adds those warnings that are new.
func noted(warnings []string, more ...string) []string {
	for _, w := range more {
		if !slices.Contains(warnings, w) {
			warnings = append(warnings, w)
		}
	}
	return warnings
}

// leftOut is the error of a list that lacks what cannot be read; nil if it lacks nothing.
func leftOut(warnings []string) error {
	if len(warnings) == 0 {
		return nil
	}
	return &Error{Code: CodeDataUnreadable, Message: strings.Join(warnings, "; ")}
}

func states(all []State) []wire.State {
	return each(all, func(s State) wire.State { return wire.State(s) })
}

// Wait waits for the end of a task and returns it, however it ended. Once the server has answered, Wait outlasts its absence.
// It does not wait for somebody to repair a task in StateUnreadable.
// Errors: CodeTaskNotFound, CodeUnavailable, CodeDataUnreadable, or that of ctx.
func (c *Client) Wait(ctx context.Context, id string) (*Task, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	life, stop := c.untilClosed(ctx)
	defer stop()
	answer, err := c.api.Wait(life, rest.Wait{ID: id, Ends: func(t wire.Task) bool {
		return rest.IsEnd(t.State) || t.State == wire.StateUnreadable
	}})
	switch {
	case errors.Is(context.Cause(life), ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, errorIn(ctx, err)
	case answer.Value.State == wire.StateUnreadable:
		return nil, leftOut(rest.Troubles(answer.Value))
	}
	return taskFrom(answer.Value), nil
}

// Cancel cancels a task. One that waits ends at once; one that runs is asked to stop, which CancelRequestedAt shows. Cancelling a
// cancelled task is harmless. Errors: CodeTaskNotFound, CodeTaskFinished.
func (c *Client) Cancel(ctx context.Context, id string) (*Task, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	return taskOf(c.api.CancelTaskWithResponse(ctx, id, &client.CancelTaskParams{Namespace: c.api.Namespace}))
}

// Move asks the worker of a running task to give it up, which MoveRequestedAt shows. A handler that watches [Moving] saves its
// checkpoint and returns [ErrMoved]: the attempt ends as [OutcomeMoved], and another worker goes on. A handler that does not give
// up just goes on. Errors: CodeTaskNotFound; CodeTaskNotRunning; CodeTaskCannotMove for tasks that dtsd runs by itself;
// CodeInvalid if the node of [MoveTo] cannot run the task.
func (c *Client) Move(ctx context.Context, id string, options ...MoveOption) (*Task, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	var o moveOptions
	for _, option := range options {
		option(&o)
	}
	params := &client.MoveTaskParams{Namespace: c.api.Namespace}
	return taskOf(c.api.MoveTaskWithResponse(ctx, id, params, wire.TaskMove{To: wire.Given(o.to)}))
}

// MoveOption changes how [Client.Move] asks.
type MoveOption func(*moveOptions)

type moveOptions struct{ to string }

// MoveTo names the node that is to go on with the task, by its id or its name. Without it, any other node may. If that
// node dies or has no free slot within 10 s, the task goes wherever it may run.
func MoveTo(node string) MoveOption { return func(o *moveOptions) { o.to = node } }

// Retry runs a task again that has ended, well or badly, with as many attempts as it had at first.
// Errors: CodeTaskNotFound, CodeTaskNotFinished.
func (c *Client) Retry(ctx context.Context, id string) (*Task, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	return taskOf(c.api.RetryTaskWithResponse(ctx, id, &client.RetryTaskParams{Namespace: c.api.Namespace}))
}

// Change changes a task that waits for its time or for a worker.
// Errors: CodeInvalid, CodeTaskNotFound, CodeTaskNotWaiting, CodeTaskChanged.
func (c *Client) Change(ctx context.Context, id string, change TaskChange) (*Task, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	raw, err := payloadOf(change.Payload)
	if err == nil && len(raw) > 0 {
		err = task.ValidatePayload(raw)
	}
	if err != nil {
		return nil, errorOfUseCase(err)
	}
	if err := checkTimes(map[string]time.Time{"run_at": wire.Value(change.RunAt)}); err != nil {
		return nil, err
	}
	in := wire.TaskChange{
		Queue: change.Queue, Payload: raw,
		Priority: change.Priority, FairKey: change.FairKey, FairWeight: change.FairWeight,
		LimitKey: change.LimitKey, Cost: change.Cost, Slots: change.Slots,
	}
	change.wireReach(&in)
	if change.RunAt != nil {
		in.RunAt = new(wire.At(*change.RunAt))
	}
	if change.Delay != nil {
		in.Delay = new(change.Delay.String())
	}
	body, err := rest.Body(in)
	if err != nil {
		return nil, err
	}
	return taskOf(c.api.ChangeTaskWithBodyWithResponse(ctx, id, &client.ChangeTaskParams{Namespace: c.api.Namespace}, rest.JSONType, body))
}

// Attempts returns the newest 100 attempts of a task, the oldest first, with the one that runs now. Errors: CodeTaskNotFound;
// CodeDataUnreadable, together with the others, if some cannot be read.
func (c *Client) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	list, err := call[wire.AttemptList](c.api.ListAttemptsWithResponse(ctx, id, &client.ListAttemptsParams{Namespace: c.api.Namespace}))
	return each(list.Attempts, attemptFrom), cmp.Or(err, leftOut(list.Warnings))
}

// Logs yields the newest 1,000 lines of a task's log, the oldest first. Errors: CodeTaskNotFound; CodeDataUnreadable, after the
// others, if some cannot be read.
func (c *Client) Logs(ctx context.Context, id string) iter.Seq2[LogLine, error] {
	if err := c.checkTask(id); err != nil {
		return failing[LogLine](err)
	}
	params := client.ReadLogsParams{Namespace: c.api.Namespace, Limit: new(lineLimit)}
	return pages(func(cursor *string) (page[LogLine], error) {
		params.After = cursor
		log, err := call[wire.LogPage](c.api.ReadLogsWithResponse(ctx, id, &params))
		more := log.More != nil && *log.More
		if !more && len(log.Lines) < lineLimit { // an older server does not tell
			log.NextCursor = nil // those are all, for now
		}
		return page[LogLine]{each(log.Lines, lineFrom), log.NextCursor, log.Warnings}, err
	})
}

// FollowLogs yields the lines of a task's log, those that are there and those to come, until the task has ended or ctx ends. It outlasts
// broken connections. Errors: CodeTaskNotFound; CodeDataUnreadable, after all other lines, if some cannot be read.
func (c *Client) FollowLogs(ctx context.Context, id string) iter.Seq2[LogLine, error] {
	if err := c.checkTask(id); err != nil {
		return failing[LogLine](err)
	}
	params := client.ReadLogsParams{Namespace: c.api.Namespace, Follow: new(true)} // goes on where it was: range over it once
	var warnings []string
	return follow(ctx, c, followed[LogLine]{
		open: func(ctx context.Context) (*http.Response, error) { return c.api.Streams.ReadLogs(ctx, id, &params) },
		take: func(m client.Message) (line LogLine, known, last bool, err error) {
			switch m.Name {
			case "log":
			case "dropped":
				var gone wire.Dropped
				if err := json.Unmarshal(m.Data, &gone); err != nil {
					return LogLine{}, false, true, fmt.Errorf("reading what was dropped: %w", err)
				}
				warnings = noted(warnings, wire.Value(gone.Detail))
				return LogLine{}, false, false, nil
			case "end":
				return LogLine{}, false, true, leftOut(warnings)
			default:
				return LogLine{}, false, false, nil
			}
			var in wire.LogLine
			if err := json.Unmarshal(m.Data, &in); err != nil {
				return LogLine{}, false, true, fmt.Errorf("reading a log line: %w", err)
			}
			params.LastEventID = &in.Cursor
			return lineFrom(in), true, false, nil
		},
	})
}
