package queue

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type statsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Since string
	Queue string
}

func newStatsCommand(f *command.Factory) *cobra.Command {
	opts := &statsOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "stats [QUEUE]", Short: "Show what began, ended and failed lately, and how late tasks began",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.ExactArgs("QUEUE")(cmd, args)
		},
		Annotations: command.Asks("readStats"),
		Long: `stats shows what all nodes have recorded: for each queue, the sum of the last hour or of --since; for one
queue, a line for each minute, or for each hour if --since is more than 1h.

The columns are: queue or time, begun, ended, failed, dead, per_second, late_p50, late_p99, late_max, waiting, oldest,
begun_per_second, failed_per_second. Begun and ended count attempts, failed those that failed, timed out or were lost,
dead the tasks that ended failed. Per_second is ended attempts a second; a terminal has begun/s, ended/s and failed/s.
Late is the time from due to begun. Waiting is how many due tasks wait, in DTS and in asynq, and oldest for how long the
first of them has been due.`,
		Example: `  dtsctl queue stats
  dtsctl queue stats mail --since 24h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.Queue = args[0]
			}
			return statsRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.Since, "since", "1h", "how far to look back, from 1m to 24h")
	return cmd
}

func statsRun(ctx context.Context, opts *statsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.ReadStatsParams{Since: &opts.Since, Queue: wire.Given(opts.Queue)}
	answer, err := rest.Read[wire.Stats](c.ReadStatsWithResponse(ctx, params))
	if err != nil {
		return err
	}
	stats := answer.Value
	opts.Printer.Warn(stats.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		whole := stats.Until.Sub(stats.From.Time)
		if opts.Queue == "" {
			first := printer.Column[wire.QueueStats]{Name: "queue", Value: func(q wire.QueueStats) any { return q.Name }}
			of := func(q wire.QueueStats) (wire.Counts, time.Duration) { return q.Counts, whole }
			return printer.PrintTable(opts.Printer, statsColumns(opts.Printer.OutIsTerminal, first, of), stats.Queues)
		}
		length, _ := time.ParseDuration(stats.Length)
		first := printer.Column[wire.Period]{Name: "time", Value: func(p wire.Period) any { return p.At }}
		of := func(p wire.Period) (wire.Counts, time.Duration) {
			return p.Counts, min(length, stats.Until.Sub(p.At.Time))
		}
		return printer.PrintTable(opts.Printer, statsColumns(opts.Printer.OutIsTerminal, first, of), stats.Periods)
	})
}

// statsColumns are the columns of a table of counts; of returns the counts of a row, and of how much time they are.
func statsColumns[T any](
	forPeople bool, first printer.Column[T], of func(T) (wire.Counts, time.Duration),
) []printer.Column[T] {
	column := func(name string, value func(wire.Counts) any) printer.Column[T] {
		return printer.Column[T]{Name: name, Value: func(row T) any { counts, _ := of(row); return value(counts) }}
	}
	rate := func(name string, number func(wire.Counts) int) printer.Column[T] {
		return printer.Column[T]{Name: name, Value: func(row T) any {
			counts, within := of(row)
			return printer.Rate(float64(number(counts)) / max(within.Seconds(), 1))
		}}
	}
	columns := []printer.Column[T]{
		first,
		column("begun", func(c wire.Counts) any { return c.Begun }),
		column("ended", func(c wire.Counts) any { return c.Ended }),
		column("failed", func(c wire.Counts) any { return failedOf(c) }),
		column("dead", func(c wire.Counts) any { return c.Dead }),
	}
	late := []printer.Column[T]{
		column("late_p50", func(c wire.Counts) any { return c.LateP50 }),
		column("late_p99", func(c wire.Counts) any { return c.LateP99 }),
		column("late_max", func(c wire.Counts) any { return c.LateMax }),
		column("waiting", func(c wire.Counts) any { return c.Waiting }),
		column("oldest", func(c wire.Counts) any { return c.Oldest }),
	}
	begun := func(c wire.Counts) int { return c.Begun }
	ended := func(c wire.Counts) int { return c.Ended }
	if forPeople {
		rates := []printer.Column[T]{rate("begun/s", begun), rate("ended/s", ended), rate("failed/s", failedOf)}
		return slices.Concat(columns, rates, late)
	}
	columns = append(columns, rate("per_second", ended))
	return slices.Concat(columns, late, []printer.Column[T]{
		rate("begun_per_second", begun), rate("failed_per_second", failedOf),
	})
}

// failedOf is how many attempts did not succeed.
func failedOf(c wire.Counts) int { return c.Failed + c.Timeout + c.Lost }
