package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type failuresOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Since         string
	Queue         string
	Schedule      string
	AllNamespaces bool
}

func newFailuresCommand(f *command.Factory) *cobra.Command {
	opts := &failuresOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "failures", Short: "Show why attempts failed lately, grouped by error", Args: command.ExactArgs(),
		Annotations: command.Asks("listFailures"),
		Long: `failures shows why attempts failed, timed out or were lost lately, the most frequent cause first. Errors that
differ by numbers, ids, addresses and quoted names only are one cause; # stands for what differs.

The columns are: count, dead, error, queues, schedules, types, example, first, last, namespace. Dead is how many tasks
ended failed with it, as they had no attempt left. The example is the task of the newest one. A * among the schedules
stands for several that are not told apart.`,
		Example: `  dtsctl task failures
  dtsctl task failures --since 24h --queue mail
  dtsctl task get "$(dtsctl task failures | cut -f 7 | head -1)"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return failuresRun(cmd.Context(), opts) },
	}
	cmd.Flags().StringVar(&opts.Since, "since", "1h", "how far to look back, from 1m to 24h")
	cmd.Flags().StringVar(&opts.Queue, "queue", "", "only failures of tasks of this queue")
	cmd.Flags().StringVar(&opts.Schedule, "schedule", "", "only failures of tasks of this schedule")
	flags.RefuseEmpty(cmd.Flags(), "queue", "schedule")
	cmd.Flags().BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "the failures of all namespaces, as -n '*'")
	return cmd
}

func failuresRun(ctx context.Context, opts *failuresOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.ListFailuresParams{
		Namespace: c.Namespace, Since: &opts.Since, Queue: wire.Given(opts.Queue), Schedule: wire.Given(opts.Schedule),
	}
	if opts.AllNamespaces {
		params.Namespace = new("*")
	}
	answer, err := rest.Read[wire.FailureList](c.ListFailuresWithResponse(ctx, params))
	if err != nil {
		return err
	}
	p := opts.Printer
	p.Warn(answer.Value.Warnings)
	return p.Show(answer.Raw, func() error {
		if p.OutIsTerminal && len(answer.Value.Failures) == 0 {
			where := "in all namespaces"
			if !opts.AllNamespaces {
				where = fmt.Sprintf("in the namespace %q", cmp.Or(printer.Deref(c.Namespace), "default"))
			}
			err = p.Printf("Nothing failed in the last %s %s%s.\n", opts.Since, where, opts.part())
		} else {
			err = printer.PrintTable(p, opts.columns(printer.Deref(params.Namespace) == "*"), answer.Value.Failures)
		}
		if n := answer.Value.Untold; n > 0 {
			p.Notef("%s in all namespaces, of rare causes, of which only the number is known",
				printer.Counted(n, "further failure"))
		}
		return err
	})
}

// columns are those of the table. A pipe always gets the namespace; a terminal gets it, as the first one, where there
// may be several.
func (o *failuresOptions) columns(all bool) []printer.Column[wire.Failure] {
	namespace := printer.Column[wire.Failure]{Name: "namespace", Value: func(f wire.Failure) any { return f.Namespace }}
	switch {
	case !o.Printer.OutIsTerminal:
		return slices.Concat(failureColumns, []printer.Column[wire.Failure]{namespace})
	case all:
		return slices.Concat([]printer.Column[wire.Failure]{namespace}, failureColumns)
	}
	return failureColumns
}

// part names the part of the namespaces that was asked for, behind a sentence; "" for all of it.
func (o *failuresOptions) part() (text string) {
	if o.Queue != "" {
		text += fmt.Sprintf(", queue %q", o.Queue)
	}
	if o.Schedule != "" {
		text += fmt.Sprintf(", schedule %q", o.Schedule)
	}
	return text
}

var failureColumns = []printer.Column[wire.Failure]{
	{Name: "count", Value: func(f wire.Failure) any { return f.Count }},
	{Name: "dead", Value: func(f wire.Failure) any { return f.Dead }},
	{Name: "error", Value: func(f wire.Failure) any { return f.Error }},
	{Name: "queues", Value: func(f wire.Failure) any { return strings.Join(f.Queues, ",") }},
	{Name: "schedules", Value: func(f wire.Failure) any { return strings.Join(f.Schedules, ",") }},
	{Name: "types", Value: func(f wire.Failure) any { return strings.Join(f.Types, ",") }},
	{Name: "example", Value: func(f wire.Failure) any { return f.Example.Task }},
	{Name: "first", Value: func(f wire.Failure) any { return f.First }},
	{Name: "last", Value: func(f wire.Failure) any { return f.Last }},
}
