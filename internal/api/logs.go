package api

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// gatherTime is how long a follower waits for more lines before it fetches any.
	gatherTime = 50 * time.Millisecond

	// lookAgain is how often a follower looks without having been told to: the feed may lose events.
	lookAgain = 2 * time.Second
)

// ReadLogs answers GET /v1/tasks/{id}/logs.
func (e *endpoints) ReadLogs(c echo.Context, id TaskID, params ReadLogsParams) error {
	ref, after := refOf(params.Namespace, id), cmp.Or(params.LastEventID, params.After)
	if params.Follow {
		return e.followLogs(c, ref, after)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), e.RequestTimeout)
	defer cancel()
	lines, err := e.Tasks.Logs(ctx, ref, after, cmp.Or(params.Limit, defaultLogLimit))
	if err != nil {
		return err
	}
	if len(lines) > 0 {
		after = lines[len(lines)-1].Cursor
	}
	return ok(c, LogPage{Lines: each(lines, lineOf), NextCursor: after})
}

func (e *endpoints) followLogs(c echo.Context, ref task.Ref, after string) error {
	if _, err := e.Tasks.Logs(c.Request().Context(), ref, after, 1); err != nil { // says no before the stream is open
		return err
	}
	ctx, source, end, err := e.subscribe(c)
	if err != nil {
		return err
	}
	defer end()
	out, err := openStream(c)
	if err != nil {
		return err
	}
	f := follower{tasks: e.Tasks, ref: ref, after: after, source: source, out: out, heartbeat: e.Heartbeat}
	return f.run(ctx)
}

// follower sends the log of a task as it grows. The feed only tells it when to look: lines come from the
// store, so none is lost or sent twice.
type follower struct {
	tasks     TaskStore
	ref       task.Ref
	after     string
	source    EventSource
	out       *stream
	heartbeat time.Duration
}

// run sends until the task has ended and everything was sent, or until ctx ends.
func (f *follower) run(ctx context.Context) error {
	beat, look := time.NewTicker(f.heartbeat), time.NewTicker(lookAgain)
	defer beat.Stop()
	defer look.Stop()
	for {
		done, err := f.catchUp(ctx)
		if done || err != nil {
			return unlessEnded(ctx, err)
		}
		if err := f.wait(ctx, beat.C, look.C); err != nil {
			return unlessEnded(ctx, err)
		}
	}
}

// unlessEnded is err, but for one that only says that the stream is over.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// catchUp sends what is new. The task is looked at before its lines: when it has ended, all of them are there.
func (f *follower) catchUp(ctx context.Context) (done bool, err error) {
	t, err := f.tasks.Get(ctx, f.ref)
	if err != nil {
		return false, err
	}
	for {
		lines, err := f.tasks.Logs(ctx, f.ref, f.after, defaultLogLimit)
		if err != nil {
			return false, err
		}
		if err := f.send(lines); err != nil {
			return false, err
		}
		if len(lines) < defaultLogLimit {
			break
		}
	}
	if t.State.Final() {
		return true, f.end(t)
	}
	return false, f.out.flush()
}

func (f *follower) send(lines []task.LogLine) error {
	for _, line := range lines {
		if err := f.out.send("log", line.Cursor, lineOf(line)); err != nil {
			return err
		}
		f.after = line.Cursor
	}
	return nil
}

func (f *follower) end(t task.Task) error {
	if err := f.out.send("end", "", taskOf(t)); err != nil {
		return err
	}
	return f.out.flush()
}

// wait returns when there is a reason to look again.
func (f *follower) wait(ctx context.Context, beat, look <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look:
			return nil
		case <-beat:
			if err := f.out.comment("alive"); err != nil {
				return err
			}
		case event, open := <-f.source.C():
			if !open {
				return context.Canceled
			}
			if event.Ref == f.ref {
				return f.gather(ctx)
			}
		}
	}
}

// gather lets the lines that come together be fetched together.
func (f *follower) gather(ctx context.Context) error {
	if err := clock.Sleep(ctx, gatherTime); err != nil {
		return err
	}
	for len(f.source.C()) > 0 {
		<-f.source.C()
	}
	return nil
}
