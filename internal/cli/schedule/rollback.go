package schedule

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/diff"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

type rollbackOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID       string
	Revision int
	IfMatch  *int
	DryRun   bool
}

func newRollbackCommand(f *command.Factory) *cobra.Command {
	opts := &rollbackOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "rollback ID REVISION", Short: "Put an earlier definition of a schedule in force again",
		Args:        command.ExactArgs("ID", "REVISION"),
		Annotations: command.Asks("rollbackSchedule", "getSchedule", "previewSchedule"),
		Long: `rollback puts the definition of an earlier revision in force again, as a new revision. The revisions are those
of "dtsctl schedule history".

The output is that of "dtsctl schedule put". With --dry-run, it is the same, and nothing changes. A terminal also gets
the next ticks as they are, and as they would be.`,
		Example: `  dtsctl schedule rollback nightly 3 --dry-run
  dtsctl schedule rollback nightly 3
  dtsctl schedule rollback nightly 3 --if-match 5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := strconv.Atoi(args[1])
			if err != nil || revision < 1 {
				return command.Usagef("REVISION: %q is not the number of a revision", args[1])
			}
			if err := flags.CheckIfMatch(opts.IfMatch); err != nil {
				return err
			}
			opts.ID, opts.Revision = args[0], revision
			return rollbackRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.IfMatch, "if-match", "only if this is the revision in force")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "show what would change, and do nothing")
	return cmd
}

func rollbackRun(ctx context.Context, opts *rollbackOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	before, err := getSchedule(ctx, c, opts.ID)
	if err != nil {
		return err
	}
	body, err := rest.Body(wire.Rollback{Revision: opts.Revision})
	if err != nil {
		return err
	}
	params := &client.RollbackScheduleParams{
		Namespace: c.Namespace, IfMatch: flags.RevisionTag(opts.IfMatch), DryRun: flags.NilIfZero(opts.DryRun),
	}
	response, err := c.RollbackScheduleWithBodyWithResponse(ctx, opts.ID, params, rest.JSONType, body)
	after, err := rest.Read[wire.Schedule](response, err)
	if err != nil {
		return err
	}
	opts.Printer.Warn(after.Value.Warnings)
	result := putChanged
	if before.Value.Revision == after.Value.Revision {
		result = putUnchanged
	}
	if opts.DryRun && opts.Printer.IsTable() && opts.Printer.OutIsTerminal {
		return previewRollback(ctx, c, opts, result, before, after)
	}
	return showPut(ctx, c, opts.Printer, result, &before, after)
}

// previewRollback shows a terminal what a rollback would change.
func previewRollback(
	ctx context.Context, c *rest.Client, opts *rollbackOptions, result string, before, after rest.Answer[wire.Schedule],
) error {
	p := opts.Printer
	if result == putUnchanged {
		return p.Printf("%s would not change: it has the definition of revision %d\n", printer.Flat(opts.ID), opts.Revision)
	}
	if err := p.Printf("%s would change, to revision %d\n", printer.Flat(opts.ID), after.Value.Revision); err != nil {
		return err
	}
	changes, err := manifest.Changes(before.Raw, after.Raw)
	if err != nil {
		return err
	}
	if err := diff.Print(p, changes); err != nil {
		return err
	}
	if err := printTicksOf(ctx, c, p, opts.ID, "now", nil); err != nil {
		return err
	}
	return printTicksOf(ctx, c, p, opts.ID, "then", &opts.Revision)
}

// printTicksOf prints the next few ticks of a schedule, or those that it would have at a revision.
func printTicksOf(
	ctx context.Context, c *rest.Client, p *printer.Printer, id, when string, revision *int,
) error {
	params := &client.PreviewScheduleParams{Namespace: c.Namespace, Count: new(fewTicks), Revision: revision}
	answer, err := rest.Read[wire.SchedulePreview](c.PreviewScheduleWithResponse(ctx, id, params))
	if err != nil {
		return err
	}
	if len(answer.Value.Ticks) == 0 {
		return p.Printf("no ticks %s\n", when)
	}
	if err := p.Printf("next ticks %s, in %s:\n", when, printer.Flat(answer.Value.Timezone)); err != nil {
		return err
	}
	return p.PrintAligned(printer.Cells(shortTickColumns, answer.Value.Ticks))
}
