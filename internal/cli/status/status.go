// Package status is the command "dtsctl status".
package status

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Watch bool
}

// NewCommand returns "dtsctl status".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "status", Short: "Say whether anything needs somebody", Args: command.ExactArgs(),
		Annotations: command.Asks("getStatus"),
		Long: `status says in one sentence whether the installation needs somebody, and then what is wrong, the worst first,
with the next thing to do. "bad" means that work does not happen, "warn" that somebody should know. It is about a second
old. While Redis is away, it says what the server knows.

A pipe gets a line for each reason, none if all is well.
The columns are: code, severity, since, about, namespace, id, detail, to_do, more. "more" is how many reasons of the
same code and severity were left out.

With --watch, it shows the status each second until it is interrupted. A pipe then gets a line for each change: when,
level, sentence.

The exit code is 1 if anything is "bad", else 0.`,
		Example: `  dtsctl status
  dtsctl status --watch
  dtsctl status -o json | jq -r '.reasons[] | select(.severity == "bad") | .detail'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.Watch {
				return command.UnlessInterrupted(cmd.Context(), watch(cmd.Context(), opts))
			}
			return run(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Watch, "watch", "w", false, "show it each second until interrupted")
	return cmd
}

func run(ctx context.Context, opts *options) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.Status](c.GetStatusWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	if err := opts.Printer.Show(answer.Raw, func() error { return show(opts.Printer, answer.Value) }); err != nil {
		return err
	}
	if answer.Value.Level == wire.StatusBad {
		return command.ErrReported
	}
	return nil
}

// watch shows the status each second, until ctx ends.
func watch(ctx context.Context, opts *options) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) (rest.Answer[wire.Status], error) {
		return rest.Read[wire.Status](c.GetStatusWithResponse(ctx))
	}
	return command.Watch(ctx, opts.Printer, read, func(now rest.Answer[wire.Status], before wire.Status) (bool, error) {
		return false, showAgain(opts.Printer, now, before)
	})
}

// showAgain shows a status in the place of the one before; a pipe gets a line if it says something else.
func showAgain(p *printer.Printer, answer rest.Answer[wire.Status], before wire.Status) error {
	if p.ForPeople() {
		if err := p.ClearScreen(); err != nil {
			return err
		}
		return show(p, answer.Value)
	}
	if now := answer.Value; now.Level == before.Level && now.Sentence == before.Sentence && p.IsTable() {
		return nil
	}
	return p.ShowLine(answer.Raw, func() error {
		return p.PrintTabbed([][]any{{answer.Value.At, string(answer.Value.Level), answer.Value.Sentence}})
	})
}
