package flow

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

func newAuditCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	return &cobra.Command{
		Use: "audit RUN", Short: "Check a run against its definition", Args: command.ExactArgs("RUN"),
		Annotations: command.Asks("auditRun"),
		Long: `audit looks at each step of a run by what was decided when it was released, and at the tasks of the steps.
It says what does not fit the definition. Values of expressions are not computed again. The exit code is 1 if anything
was found.

A pipe gets a line for each finding, and none if all fits.`,
		Example: "  dtsctl flow audit etl-1 && echo all fits",
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Run = args[0]
			return auditRun(cmd.Context(), opts)
		},
	}
}

func auditRun(ctx context.Context, opts options) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.AuditRunParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.RunAudit](c.AuditRunWithResponse(ctx, opts.Run, params))
	if err != nil {
		return err
	}
	if err := opts.Printer.Show(answer.Raw, func() error { return printAudit(opts.Printer, answer.Value) }); err != nil {
		return err
	}
	if !answer.Value.Sound {
		return command.ErrReported
	}
	return nil
}

func printAudit(p *printer.Printer, a wire.RunAudit) error {
	for _, finding := range a.Findings {
		if err := p.Printf("%s\n", printer.Flat(finding)); err != nil {
			return err
		}
	}
	if !p.OutIsTerminal {
		return nil
	}
	if a.Sound {
		return p.Printf("%s: %s of %s fit the definition.\n", p.StatusText("proved", "Sound"),
			printer.Counted(a.Steps, "step"), printer.Flat(a.ID))
	}
	return p.Printf("\n%s: %s.\n", p.StatusText("not proved", "Not sound"), printer.Counted(len(a.Findings), "finding"))
}
