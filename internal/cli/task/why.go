package task

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
		Operation: "whyTask", Argument: "ID", Waits: "a task waits", Nothing: "the task waits for nothing",
		Example: "dtsctl task why nightly",
		Read: func(ctx context.Context, c *rest.Client, id string) (rest.Answer[wire.Why], error) {
			return rest.Read[wire.Why](c.WhyTaskWithResponse(ctx, id, &client.WhyTaskParams{Namespace: c.Namespace}))
		},
	})
}
