package bench

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/clock"
)

// parallel is how many requests about single tasks are under way at once.
const parallel = 16

// measurement is one run of the command. submit and watch run side by side.
type measurement struct {
	opts   *options
	client *rest.Client
	line   printer.StatusLine // used by watch while it runs
	tally  *tally

	start     time.Time
	sent      atomic.Int64  // the tasks before this one may exist; no other does
	took      atomic.Int64  // time.Duration from the start to the last answer about submitted tasks
	submitted chan struct{} // closed once all tasks are accepted
}

func newMeasurement(c *rest.Client, opts *options) *measurement {
	return &measurement{
		opts: opts, client: c, line: printer.StatusLine{Printer: opts.Printer}, tally: newTally(opts.Name, opts.Tasks),
		start: clock.Now(), submitted: make(chan struct{}),
	}
}

// run submits the tasks and returns once the ends of all of them are known, or the first error. It leaves tasks behind that
// have not ended if it fails.
func (m *measurement) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.submit(ctx) })
	g.Go(func() error { return m.watch(ctx) })
	return g.Wait()
}

// allSubmitted reports whether all tasks are accepted.
func (m *measurement) allSubmitted() bool {
	select {
	case <-m.submitted:
		return true
	default:
		return false
	}
}

// each calls do for each task, for some of them at a time. It stops at the first error and returns it.
func (m *measurement) each(ctx context.Context, tasks []int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, n := range tasks {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(ctx, n) })
	}
	return g.Wait()
}

// barWidth is the width of the progress bar, in columns.
const barWidth = 30

// draw shows how far the measurement is.
func (m *measurement) draw() {
	ended, sent := m.tally.settled(), int(m.sent.Load())
	full := ended * barWidth / m.opts.Tasks
	m.line.Draw(fmt.Sprintf("%s%s %d of %d ended, %d submitted",
		strings.Repeat("█", full), strings.Repeat("░", barWidth-full), ended, m.opts.Tasks, sent))
}
