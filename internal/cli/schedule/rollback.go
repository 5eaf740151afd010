package schedule

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type rollbackOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID       string
	Revision int
	IfMatch  *int
}

func newRollbackCommand(f *command.Factory) *cobra.Command {
	opts := &rollbackOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "rollback ID REVISION", Short: "Put an earlier definition of a schedule in force again", Args: command.ExactArgs("ID", "REVISION"),
		Annotations: command.Asks("rollbackSchedule", "getSchedule", "previewSchedule"),
		Long: `rollback puts the definition of an earlier revision in force again, as a new revision. "dtsctl schedule history" lists the
revisions.

The output is that of "dtsctl schedule put".`,
		Example: `  dtsctl schedule rollback nightly 3
  dtsctl schedule rollback nightly 3 --if-match 5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := strconv.Atoi(args[1])
			if err != nil || revision < 1 {
				return command.Usagef("REVISION: %q is not the number of a revision", args[1])
			}
			if err := checkIfMatch(opts.IfMatch); err != nil {
				return err
			}
			opts.ID, opts.Revision = args[0], revision
			return rollbackRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.IfMatch, "if-match", "only if this is the revision in force")
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
	params := &client.RollbackScheduleParams{Namespace: c.Namespace, IfMatch: revisionTag(opts.IfMatch)}
	after, err := rest.Read[wire.Schedule](c.RollbackScheduleWithBodyWithResponse(ctx, opts.ID, params, rest.JSONType, body))
	if err != nil {
		return err
	}
	result := putChanged
	if before.Value.Revision == after.Value.Revision {
		result = putUnchanged
	}
	return showPut(ctx, c, opts.Printer, result, &before, after)
}
