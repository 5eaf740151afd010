// Package limit is the commands of "dtsctl limit".
package limit

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// NewCommand returns "dtsctl limit".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "limit", Short: "Set, show and pause limits of tasks",
		Long: `A limit says how many tasks may be queued or running at once, and how many may be handed over in a second, a
minute or an hour.

` + names,
		Example: "  dtsctl limit set 'key:*' --slots 5\n  dtsctl limit list",
	}
	cmd.AddCommand(
		newSetCommand(f), newListCommand(f), newGetCommand(f), newDeleteCommand(f), newPauseCommand(f), newResumeCommand(f),
	)
	return command.Group(cmd)
}

const names = `NAME is key:KEY, type:TYPE, queue:QUEUE, namespace:NAMESPACE or all. "*" at its end stands for any
further characters: under key:*, each key has the slots and the rate for itself. Of several names that match, the
longest one applies.`

// action is a command that does something to a limit and has no options.
type action struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Limit string
	Done  string // what was done
	Do    func(ctx context.Context, c *rest.Client, name string) error
}

func (a *action) run(ctx context.Context) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	if err := a.Do(ctx, c, a.Limit); err != nil {
		return err
	}
	return printDone(a.Printer, a.Limit, a.Done)
}

func newDeleteCommand(f *command.Factory) *cobra.Command {
	opts := &action{Client: f.Client, Printer: f.Printer, Done: "deleted"}
	opts.Do = func(ctx context.Context, c *rest.Client, name string) error {
		_, err := rest.Read[struct{}](c.DeleteLimitWithResponse(ctx, name))
		return err
	}
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a limit", Args: command.ExactArgs("NAME"),
		Annotations: command.Asks("deleteLimit"),
		Long:        `delete deletes a limit. Tasks that waited for it are handed over in 10 s at the latest.`,
		Example:     `  dtsctl limit delete 'key:*'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Limit = args[0]
			return opts.run(cmd.Context())
		},
	}
}

func newResumeCommand(f *command.Factory) *cobra.Command {
	opts := &action{Client: f.Client, Printer: f.Printer, Done: "resumed"}
	opts.Do = func(ctx context.Context, c *rest.Client, name string) error {
		_, err := rest.Read[struct{}](c.ResumeLimitWithResponse(ctx, name))
		return err
	}
	return &cobra.Command{
		Use: "resume NAME", Short: "End the pause of a limit", Args: command.ExactArgs("NAME"),
		Annotations: command.Asks("resumeLimit"),
		Long: `resume ends the pause of a limit, which keeps its slots and its rate. A limit that was created for
its pause is deleted.
Resuming a limit that is not paused changes nothing.`,
		Example: `  dtsctl limit resume key:tenant-7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Limit = args[0]
			return opts.run(cmd.Context())
		},
	}
}

// printDone tells what was done to a limit. In the formats json and yaml there is nothing: nor has the answer.
func printDone(p *printer.Printer, limit, done string) error {
	switch {
	case !p.IsTable():
		return nil
	case p.OutIsTerminal:
		return p.Printf("%s %s\n", limit, done)
	}
	return p.PrintTabbed([][]any{{limit, done}})
}
