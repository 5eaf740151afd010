// Package bench is "dtsctl bench", which measures a deployment with tasks that do nothing.
//
// A measurement submits tasks, reads what became of them while it goes on (they are kept for a minute only), and prints
// figures. What has not begun when it is broken off is cancelled.
package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// tasksLimit is the most tasks of a measurement.
const tasksLimit = 100_000

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Name    string // of this measurement; the ids of its tasks begin with it
	Queue   string
	Tasks   int
	Rate    int           // tasks per second; 0 means as fast as possible
	Delay   time.Duration // from the submission of a task to its due time
	Timeout time.Duration // of the whole measurement
}

// NewCommand returns "dtsctl bench".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure how late tasks start", Args: command.ExactArgs(),
		Annotations: command.Asks("submitTasks", "followEvents", "listTasks", "getTask", "cancelTask", "listNodes"),
		Long: `bench submits tasks that do nothing (type noop) to a running deployment, and prints how fast they were accepted and
how late they were started: started_at - run_at, both by the clock of Redis, in whole milliseconds. With --delay 0 that is
the time from the submission to the start. No task may start early; "early" counts those that did.

The tasks go through a queue of their own, which a worker must serve. In a queue that has other work, as with
--queue default, they wait behind it, and it behind them. They belong to the namespace of the command line, have one
attempt and the label bench, and expire a minute after their end. An interrupt (Ctrl-C) or the timeout cancels those that
have not begun.

A terminal gets the figures and a histogram. A pipe gets a line for each figure: its name and value, separated by a tab.
With -o json or -o yaml, the histogram is among the figures. The exit code is 1 if a task failed, was cancelled or
started early, and at the timeout.`,
		Example: `  dtsctl bench
  dtsctl bench --queue default --tasks 200 --rate 20
  dtsctl bench --delay 0 --rate 100
  dtsctl bench --tasks 20000 --delay 10s -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.check(); err != nil {
				return err
			}
			opts.Name = "bench-" + strings.ToLower(rand.Text()[:8])
			return benchRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringVar(&opts.Queue, "queue", "bench", "the queue that the tasks go through")
	set.IntVar(&opts.Tasks, "tasks", 1000, fmt.Sprintf("how many tasks, at most %d", tasksLimit))
	set.IntVar(&opts.Rate, "rate", 0, "tasks to submit per second; 0 means as fast as possible, in batches")
	set.DurationVar(&opts.Delay, "delay", time.Second, "how long after its submission a task is due")
	set.DurationVar(&opts.Timeout, "timeout", 5*time.Minute, "how long the whole may take")
	command.Complete(cmd, "queue", "bench", "default")
	return cmd
}

// check refuses options that make no sense.
func (o *options) check() error {
	switch {
	case o.Tasks < 1 || o.Tasks > tasksLimit:
		return command.Usagef("--tasks: %d must be 1 to %d", o.Tasks, tasksLimit)
	case o.Rate < 0:
		return command.Usagef("--rate: %d is negative", o.Rate)
	case o.Delay < 0:
		return command.Usagef("--delay: %s is negative", o.Delay)
	case o.Delay%time.Millisecond != 0:
		return command.Usagef("--delay: %s is not a whole number of milliseconds", o.Delay)
	case o.needs() >= o.Timeout:
		return command.Usagef("--timeout: %s is too short: the last task is due after %s", o.Timeout, o.needs())
	}
	return nil
}

// needs returns how long it takes at least until the last task is due.
func (o *options) needs() time.Duration {
	if o.Rate == 0 {
		return o.Delay
	}
	return time.Duration(o.Tasks-1)*time.Second/time.Duration(o.Rate) + o.Delay
}

// errTimeout is the cause of the end of the context when the measurement takes longer than its timeout.
var errTimeout = errors.New("the timeout of the measurement has passed")

func benchRun(ctx context.Context, opts *options) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
	defer cancel()
	if err := checkQueue(limited, c, opts); err != nil {
		return err
	}
	m := newMeasurement(c, opts)
	err = m.run(limited)
	m.line.Clear()
	if err != nil {
		m.cleanUp(ctx)
	}
	if err != nil && limited.Err() == nil {
		return err // the server said no, or went away
	}
	f := m.figures()
	if err := f.show(opts.Printer); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		opts.Printer.Errorf("only %d of %d tasks have ended within %s: are the workers busy, or is the queue %s paused?",
			f.Succeeded+f.Failed, opts.Tasks, opts.Timeout, opts.Queue)
		return command.ErrReported
	}
	return m.verdict(f)
}
