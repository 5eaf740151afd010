package api

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// gatherTime is how long a follower waits for more lines after it was told of one.
	// With many streams it is longer: lookShare for each of them, so that all of them together look about as often as 20
	// do, and lookAgain at most.
	gatherTime = 50 * time.Millisecond
	lookShare  = 2500 * time.Microsecond

	// followedLines is how many lines a follower reads at once: it holds them while its client reads slowly.
	followedLines = 50

	// lookAgain is how often a follower looks without having been told to: the feed notices a dead connection to
	// Redis only after some seconds.
	lookAgain = 2 * time.Second
)

// ReadLogs answers GET /v1/tasks/{id}/logs.
func (e *endpoints) ReadLogs(c echo.Context, id wire.TaskID, params ReadLogsParams) error {
	q, err := logQueryOf(params)
	if err != nil {
		return err
	}
	if params.Follow {
		return e.followLogs(c, callerOf(c), id, q)
	}
	ctx, left := leavingOut(c)
	ctx, end, err := e.logTurn(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	page, err := e.Control.Logs(ctx, callerOf(c), id, q)
	if err != nil {
		return err
	}
	answer := wire.LogPage{Lines: each(page.Lines, lineOf), Warnings: left.Texts()}
	if q.Before == "" {
		answer.NextCursor = wire.Given(page.Last)
	}
	switch {
	case !q.Backwards:
		answer.More = wire.Given(page.More)
	case page.More:
		answer.PreviousCursor = wire.Given(page.First)
	}
	return e.ok(c, answer)
}

// logQueryOf returns the query that the parameters describe. Error: CodeInvalid for parameters that exclude each other.
func logQueryOf(p ReadLogsParams) (control.LogQuery, error) {
	q := logFilterOf(p.Attempt, p.Stream, p.Grep)
	q.After, q.Before = cmp.Or(p.LastEventID, p.After), p.Before
	q.Backwards, q.Limit = p.Tail > 0 || p.Before != "", cmp.Or(p.Tail, p.Limit, defaultLogLimit)
	switch {
	case p.Tail > 0 && p.LastEventID != "" && p.Follow: // a client that takes a stream up again repeats the address
		q.Backwards = false
	case p.Tail > 0 && q.After != "":
		return q, task.Invalid("tail", "means nothing beside after: give one of them")
	case p.Before != "" && (p.Tail > 0 || q.After != ""):
		return q, task.Invalid("before", "means nothing beside after and tail: give one of them, and limit for a number")
	case p.Before != "" && p.Follow:
		return q, task.Invalid("before", "means nothing in a stream: leave out follow, or give tail")
	}
	return q, nil
}

// logFilterOf returns a query with the filter of these parameters.
func logFilterOf(attempt string, stream wire.LogStreamName, text string) control.LogQuery {
	number, _ := strconv.Atoi(attempt) // "last" is none
	return control.LogQuery{Attempt: number, Newest: attempt == "last", Stream: string(stream), Text: text}
}

// logTurn waits until logs may be read, and bounds how long that takes.
func (e *endpoints) logTurn(ctx context.Context, c echo.Context) (_ context.Context, end func(), _ error) {
	ctx, cancel := context.WithTimeout(ctx, e.server.Options().RequestTimeout)
	leave, err := edge.TakeTurn(ctx, c, e.Control)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, func() { leave(); cancel() }, nil
}

// ReadScheduleLogs answers GET /v1/schedules/{id}/logs.
func (e *endpoints) ReadScheduleLogs(c echo.Context, id wire.ScheduleID, params ReadScheduleLogsParams) error {
	ctx, left := leavingOut(c)
	q := logFilterOf(params.Attempt, params.Stream, params.Grep)
	q.Limit = cmp.Or(params.Limit, defaultLogLimit)
	page, err := e.Control.ReadScheduleLogs(ctx, callerOf(c), id, q, cmp.Or(params.Ticks, defaultLogTicks), params.Before)
	if err != nil {
		return err
	}
	return e.ok(c, wire.ScheduleLogPage{
		Lines: each(page.Lines, scheduleLineOf), Forgotten: page.Forgotten, PreviousCursor: wire.Given(page.Previous),
		Warnings: left.Texts(),
	})
}

func scheduleLineOf(l control.ScheduleLogLine) wire.ScheduleLogLine {
	line := lineOf(l.LogLine)
	return wire.ScheduleLogLine{
		Task: l.Task, Cursor: line.Cursor, Attempt: line.Attempt, Stream: line.Stream, At: line.At, Text: line.Text,
	}
}

func (e *endpoints) followLogs(c echo.Context, who control.Caller, id string, q control.LogQuery) error {
	after, err := e.startLog(c, who, id, q) // refuses before the stream is open
	if err != nil {
		return err
	}
	q.After, q.Backwards, q.Newest, q.Limit = after, false, false, followedLines
	subscribe := func(ctx context.Context) (*events.Subscription, error) { return e.Control.FollowLogs(ctx, who, id) }
	return e.server.Follow(c, subscribe, func(ctx context.Context, feed *events.Subscription, out *edge.Stream) error {
		f := logFollower{
			control: e.Control, show: func(t task.Task) wire.Task { return TaskOf(t, e.Types) }, who: who, id: id, q: q,
			feed: feed, out: out, streams: out.Count,
			reserve: func(n int64) (func(), error) { return e.server.Reserve(c, n) },
		}
		return f.run(ctx)
	})
}

// startLog returns the cursor after which a stream of a log begins. Errors: those of control.Logs.
func (e *endpoints) startLog(c echo.Context, who control.Caller, id string, q control.LogQuery) (string, error) {
	ctx, _ := leavingOut(c) // what is left out is told in the stream
	if !q.Backwards {
		return e.Control.LogStart(ctx, who, id, q)
	}
	ctx, end, err := e.logTurn(ctx, c)
	if err != nil {
		return "", err
	}
	defer end()
	return e.Control.LogStart(ctx, who, id, q)
}

// logFollower sends the log of a task as it grows. The feed only says when to look: lines come from the
// store, so none is lost or sent twice.
type logFollower struct {
	control *control.Control
	show    func(task.Task) wire.Task
	who     control.Caller
	id      string
	q       control.LogQuery // of the next lines
	feed    *events.Subscription
	out     *edge.Stream
	streams func() int // how many there are
	reserve func(bytes int64) (release func(), _ error)
	told    []string // of what was left out
}

// run sends until the task has ended and all of its lines were sent, or until ctx ends.
func (f *logFollower) run(ctx context.Context) error {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	reading, left := redisx.LeavingOut(ctx)
	for {
		done, err := f.catchUp(ctx, reading, left)
		if done || err != nil {
			return unlessEnded(ctx, err)
		}
		if err := f.wait(ctx, f.out.Beat(), look.C); err != nil {
			return unlessEnded(ctx, err)
		}
	}
}

// unlessEnded returns err, or nil if ctx or the feed has ended: then err says no more than that.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	if errors.Is(err, events.ErrStopped) {
		return nil
	}
	return err
}

// catchUp sends the new lines, which it reads under a context that leaves out what cannot be read, and tells what was
// left out. It reads the task before the lines: if the task has ended by then, all lines are there.
func (f *logFollower) catchUp(ctx, reading context.Context, left *redisx.LeftOut) (done bool, err error) {
	t, ended, err := f.ended(ctx)
	if err != nil {
		return false, err
	}
	for {
		page, err := f.control.Logs(reading, f.who, f.id, f.q)
		if err != nil {
			return false, err
		}
		if err := f.send(page.Lines); err != nil {
			return false, err
		}
		f.q.After = page.Last
		if !page.More {
			break
		}
	}
	if err := f.tell(left.Texts()); err != nil {
		return false, err
	}
	if ended {
		return true, f.end(t)
	}
	return false, f.out.Flush()
}

// tell sends what was left out and was not told before: the last text counts what the others do not name, so it
// changes.
func (f *logFollower) tell(texts []string) error {
	for i, text := range texts {
		if i < len(f.told) && f.told[i] == text {
			continue
		}
		if err := f.out.Send("dropped", "", wire.Dropped{Reason: wire.DroppedUnreadable, Detail: &text}); err != nil {
			return err
		}
	}
	f.told = texts
	return nil
}

// ended reads the task if it has ended. Before, it reads no more than the state: a task can be long, and a look comes
// up to 20 times a second.
func (f *logFollower) ended(ctx context.Context) (task.Task, bool, error) {
	state, err := f.control.TaskState(ctx, f.who, f.id)
	if err != nil || !state.Final() {
		return task.Task{}, false, err
	}
	t, err := f.control.GetTask(ctx, f.who, f.id)
	return t, t.State.Final(), err
}

func (f *logFollower) send(lines []task.LogLine) error {
	for _, line := range lines {
		if err := f.out.Send("log", line.Cursor, lineOf(line)); err != nil {
			return err
		}
	}
	return nil
}

// end sends the task. If too much waits for slow readers, the stream ends without it, and the client asks again.
func (f *logFollower) end(t task.Task) error {
	text, err := edge.Frame("end", "", f.show(t))
	if err != nil {
		return err
	}
	release, err := f.reserve(int64(len(text)))
	if err != nil {
		return err
	}
	defer release()
	if err := f.out.Write(text); err != nil {
		return err
	}
	return f.out.Flush()
}

// wait returns when there is a reason to look again.
func (f *logFollower) wait(ctx context.Context, beat, look <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look:
			return nil
		case <-beat:
			if err := f.out.Alive(); err != nil {
				return err
			}
		case _, open := <-f.feed.C():
			if !open {
				return f.feed.Err()
			}
			return f.gather(ctx)
		}
	}
}

// gather waits for lines that come together, so that one look finds them all.
func (f *logFollower) gather(ctx context.Context) error {
	wait := min(max(gatherTime, time.Duration(f.streams())*lookShare), lookAgain)
	if err := clock.Sleep(ctx, wait); err != nil {
		return err
	}
	select {
	case <-f.feed.C(): // of a line that the next look finds
	default:
	}
	return nil
}
