package queue

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/whyview"
)

func newWhyCommand(f *command.Factory) *cobra.Command {
	return whyview.NewCommand(f, whyview.Command{
		Operation: "whyQueue", Argument: "QUEUE", Waits: "the tasks of a queue wait", Nothing: "nothing holds the queue up",
		Example: "dtsctl queue why reports",
		Read: func(ctx context.Context, c *rest.Client, name string) (rest.Answer[wire.Why], error) {
			return rest.Read[wire.Why](c.WhyQueueWithResponse(ctx, name))
		},
	})
}
