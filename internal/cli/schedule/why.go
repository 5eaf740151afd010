package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/whyview"
)

func newWhyCommand(f *command.Factory) *cobra.Command {
	return whyview.NewCommand(f, whyview.Command{
		Operation: "whySchedule", Argument: "ID", Waits: "the next tick of a schedule waits",
		Nothing: "the schedule waits for nothing", Example: "dtsctl schedule why nightly",
		Further: `A task that failed and is tried again comes last, as retry: it does not hold up the next tick by itself. It
says so if the definition of the task is an old one. To ask why the task of a tick waits, use "dtsctl task why".`,
		Read: func(ctx context.Context, c *rest.Client, id string) (rest.Answer[wire.Why], error) {
			params := &client.WhyScheduleParams{Namespace: c.Namespace}
			return rest.Read[wire.Why](c.WhyScheduleWithResponse(ctx, id, params))
		},
	})
}
