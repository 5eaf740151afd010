package queue

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type resumeOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Queue string
}

func newResumeCommand(f *command.Factory) *cobra.Command {
	opts := &resumeOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "resume QUEUE", Short: "Let workers take tasks from a paused queue again", Args: command.ExactArgs("QUEUE"),
		Annotations: command.Asks("resumeQueue"),
		Long:        `resume ends the pause of a queue. Resuming a queue that is not paused changes nothing.`,
		Example:     `  dtsctl queue resume reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Queue = args[0]
			return resumeRun(cmd.Context(), opts)
		},
	}
}

func resumeRun(ctx context.Context, opts *resumeOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	if _, err := rest.Read[struct{}](c.ResumeQueueWithResponse(ctx, opts.Queue)); err != nil {
		return err
	}
	return printDone(opts.Printer, opts.Queue, "resumed")
}
