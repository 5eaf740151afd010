package whyview

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// Command is what the "why" command of a noun has of its own.
type Command struct {
	Operation string // that it asks for
	Argument  string // that names the thing: ID, or QUEUE
	Waits     string // what waits, with its verb: "a task waits"
	Nothing   string // when a pipe gets no line: "the task waits for nothing"
	Further   string // a further sentence of the help; "" for none
	Example   string // the command line of an example
	Read      func(ctx context.Context, c *rest.Client, name string) (rest.Answer[wire.Why], error)
}

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Name string
}

// NewCommand returns the "why" command of a noun.
func NewCommand(f *command.Factory, why Command) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer}
	further := why.Further
	if further != "" {
		further += "\n"
	}
	return &cobra.Command{
		Use: "why " + why.Argument, Short: "Say what " + why.Waits + " for, and what to do",
		Args: command.ExactArgs(why.Argument), Annotations: command.Asks(why.Operation),
		Long: "why says what " + why.Waits + ` for, and what to do about each reason. The reason that must change
first comes first. The answer is computed from Redis and from the newest heartbeats of the nodes.
` + further + `
A pipe gets a line for each reason, and none if ` + why.Nothing + `.
The columns are: ` + Columns + `.`,
		Example: "  " + why.Example + "\n  " + why.Example + " -o json | jq -r .waiting_for.code",
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Name = args[0]
			return run(cmd.Context(), opts, why)
		},
	}
}

func run(ctx context.Context, opts *options, why Command) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := why.Read(ctx, c, opts.Name)
	if err != nil {
		return err
	}
	return Show(opts.Printer, opts.Name, answer)
}
