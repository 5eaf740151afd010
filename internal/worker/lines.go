package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

const (
	linesInterval = 200 * time.Millisecond // between two flushes
	linesAtOnce   = 200                    // lines in one script
)

// lines sends the output of an attempt to its log in Redis, several lines at a time, and its newest progress and checkpoint with them.
// It never delays the executor. Between two flushes it keeps the newest task.LogLimit lines, as the log holds no more.
// Dropped lines leave a gap in the numbers.
type lines struct {
	ctx  context.Context
	run  *tasks.Run
	save func(context.Context, json.RawMessage) error // a checkpoint
	log  *slog.Logger
	kick chan struct{}
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pumping bool // pump has been started, at the first line or progress
	closed  bool
	kept    []tasks.Line
	number  int             // of the first line kept, from 1
	newest  progress        // reported
	sent    progress        // to Redis
	unsaved json.RawMessage // the newest checkpoint; nil if Redis has it
}

// progress is how far an attempt is, in percent, and what it is at.
type progress struct {
	percent int
	note    string
}

func newLines(ctx context.Context, run *tasks.Run, save func(context.Context, json.RawMessage) error, log *slog.Logger) *lines {
	return &lines{
		ctx: ctx, run: run, save: save, log: log, number: 1,
		kick: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

// add takes a line.
func (l *lines) add(stream, text string) {
	l.mu.Lock()
	l.kept = append(l.kept, tasks.Line{Stream: stream, Text: text})
	if len(l.kept) >= 2*task.LogLimit {
		l.drop(len(l.kept) - task.LogLimit)
	}
	l.mu.Unlock()
	l.wake()
}

// progress takes the progress of the attempt in percent, and a note. It ignores values that are not 0 to 100.
func (l *lines) progress(percent int, note string) {
	if percent < 0 || percent > 100 {
		return
	}
	l.mu.Lock()
	l.newest = progress{percent, task.Cut(note, task.ProgressNoteLimit)}
	l.mu.Unlock()
	l.wake()
}

func (l *lines) wake() {
	l.mu.Lock()
	if !l.pumping && !l.closed {
		l.pumping = true
		go l.pump(l.ctx)
	}
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// drop drops the n oldest lines. The caller holds mu.
func (l *lines) drop(n int) {
	l.kept = append([]tasks.Line(nil), l.kept[n:]...)
	l.number += n
}

// close sends the remaining lines and waits until that is done.
func (l *lines) close() {
	l.mu.Lock()
	l.closed = true
	pumping := l.pumping
	l.mu.Unlock()
	if !pumping {
		return
	}
	close(l.quit)
	<-l.done
}

// pump flushes at most once in linesInterval, when there is something to send, and a last time when l is closed.
func (l *lines) pump(ctx context.Context) {
	defer close(l.done)
	for {
		select {
		case <-l.quit:
			l.flush(ctx, true)
			return
		case <-l.kick:
		}
		l.flush(ctx, false)
		timer := time.NewTimer(linesInterval)
		select {
		case <-l.quit:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// flush sends the lines that are kept, but no more than fit into the log: an executor that writes faster than that would
// keep Redis busy with lines that nobody sees. Lines that Redis does not accept are lost: a log is no reason to fail an
// attempt. An attempt that may log no more is stopped when its lease cannot be extended.
func (l *lines) flush(ctx context.Context, last bool) {
	l.sendProgress(ctx)
	l.sendCheckpoint(ctx, last)
	for range task.LogLimit / linesAtOnce {
		first, next := l.take()
		if len(next) == 0 {
			return
		}
		if err := l.run.Log(ctx, first, next); err != nil {
			l.log.Debug("dropped log lines", "task", l.run.Task.Ref.String(), "lines", len(next), "error", err)
			return
		}
	}
}

// sendProgress sends the progress if it has changed.
func (l *lines) sendProgress(ctx context.Context) {
	l.mu.Lock()
	newest, unchanged := l.newest, l.newest == l.sent
	l.sent = newest
	l.mu.Unlock()
	if unchanged {
		return
	}
	if err := l.run.Progress(ctx, newest.percent, newest.note); err != nil {
		l.log.Debug("dropped a progress report", "task", l.run.Task.Ref.String(), "error", err)
	}
}

// take removes and returns the next lines to send, with the number of the first.
func (l *lines) take() (first int, next []tasks.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := len(l.kept) - task.LogLimit; over > 0 {
		l.drop(over)
	}
	n := min(len(l.kept), linesAtOnce)
	first, next = l.number, l.kept[:n:n]
	l.kept = l.kept[n:]
	l.number += n
	return first, next
}
