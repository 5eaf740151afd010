package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

const (
	linesInterval = 200 * time.Millisecond // how often new lines go to Redis
	linesAtOnce   = 200                    // lines in one script
)

// lines carries the output of an attempt to its log in Redis, several lines at a time, and the newest word on its
// progress with them. It never holds up the task: between two trips it keeps the newest task.LogLimit lines, which is all that the log keeps anyway. Lines
// that were passed over leave a gap in the numbers.
type lines struct {
	run  *store.Run
	log  *slog.Logger
	kick chan struct{}
	quit chan struct{}
	done chan struct{}

	mu     sync.Mutex
	kept   []store.Line
	far    int // percent; told is what Redis knows of it
	told   int
	number int // of the first line kept, from 1
}

func newLines(ctx context.Context, run *store.Run, log *slog.Logger) *lines {
	l := &lines{
		run: run, log: log, number: 1,
		kick: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go l.pump(ctx)
	return l
}

// add takes a line.
func (l *lines) add(stream, text string) {
	l.mu.Lock()
	l.kept = append(l.kept, store.Line{Stream: stream, Text: text})
	if len(l.kept) >= 2*task.LogLimit {
		l.drop(len(l.kept) - task.LogLimit)
	}
	l.mu.Unlock()
	l.wake()
}

// progress takes how far the attempt is, in percent; what is none is no reason to fail.
func (l *lines) progress(percent int) {
	if percent < 0 || percent > 100 {
		return
	}
	l.mu.Lock()
	l.far = percent
	l.mu.Unlock()
	l.wake()
}

func (l *lines) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// drop forgets the n oldest lines.
func (l *lines) drop(n int) {
	l.kept = append([]store.Line(nil), l.kept[n:]...)
	l.number += n
}

// close sends what is left and waits for it.
func (l *lines) close() {
	close(l.quit)
	<-l.done
}

func (l *lines) pump(ctx context.Context) {
	defer close(l.done)
	for {
		select {
		case <-l.quit:
			l.flush(ctx)
			return
		case <-l.kick:
		}
		if !l.flush(ctx) {
			<-l.quit
			return
		}
		timer := time.NewTimer(linesInterval)
		select {
		case <-l.quit:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// flush sends what is kept, and no more than fits into the log: whoever writes faster than that would keep Redis
// busy with lines that nobody will see. It answers whether the attempt may log any more. Lines that Redis does not
// take are lost: a log is no reason to fail an attempt.
func (l *lines) flush(ctx context.Context) bool {
	if !l.tell(ctx) {
		return false
	}
	for range task.LogLimit / linesAtOnce {
		first, some := l.take()
		if len(some) == 0 {
			return true
		}
		if err := l.run.Log(ctx, first, some); err != nil {
			l.log.Debug("lines not logged", "task", l.run.Task.Ref.String(), "lines", len(some), "error", err)
			return !errors.Is(err, store.ErrStale)
		}
	}
	return true
}

// tell reports the progress if it has changed.
func (l *lines) tell(ctx context.Context) bool {
	l.mu.Lock()
	percent, known := l.far, l.far == l.told
	l.told = percent
	l.mu.Unlock()
	if known {
		return true
	}
	err := l.run.Progress(ctx, percent)
	if err != nil {
		l.log.Debug("progress not reported", "task", l.run.Task.Ref.String(), "error", err)
	}
	return !errors.Is(err, store.ErrStale)
}

// take takes the next lines to send, with the number of the first.
func (l *lines) take() (int, []store.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := len(l.kept) - task.LogLimit; over > 0 {
		l.drop(over)
	}
	n := min(len(l.kept), linesAtOnce)
	first, some := l.number, l.kept[:n:n]
	l.kept = l.kept[n:]
	l.number += n
	return first, some
}
