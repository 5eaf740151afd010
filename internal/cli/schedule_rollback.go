package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newRollbackCommand(s *session) *cobra.Command {
	ifMatch := 0
	cmd := &cobra.Command{
		Use: "rollback ID REVISION", Short: "Put an earlier definition of a schedule in force again", Args: named("ID", "REVISION"),
		Long: `rollback puts the definition of an earlier revision in force again, as a new revision. "dtsctl schedule history" shows which
ones there are.

What is printed is as of "dtsctl schedule put".`,
		Example: `  dtsctl schedule rollback nightly 3
  dtsctl schedule rollback nightly 3 --if-match 5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := strconv.Atoi(args[1])
			if err != nil || revision < 1 {
				return usagef("REVISION: %q is not the number of a revision", args[1])
			}
			if cmd.Flags().Changed("if-match") && ifMatch < 1 {
				return usagef("--if-match: %d is less than 1", ifMatch)
			}
			return s.runRollback(cmd.Context(), args[0], revision, ifMatch)
		},
	}
	cmd.Flags().IntVar(&ifMatch, "if-match", 0, "only if this is the revision in force")
	return cmd
}

func (s *session) runRollback(ctx context.Context, id string, revision, ifMatch int) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	before, err := s.schedule(ctx, id)
	if err != nil {
		return err
	}
	params := client.RollbackScheduleParams{Namespace: s.namespaceParam()}
	if ifMatch > 0 {
		params.IfMatch = new(revisionTag(ifMatch))
	}
	body, err := bodyOf(client.Rollback{Revision: revision})
	if err != nil {
		return err
	}
	a, err := ask[client.Schedule](c.RollbackScheduleWithBodyWithResponse(ctx, id, &params, jsonType, body))
	if err != nil {
		return err
	}
	return s.showPut(ctx, &before, a)
}
