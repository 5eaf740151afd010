// Package flow is the commands of "dtsctl flow".
package flow

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// NewCommand returns "dtsctl flow".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "flow", Short: "Keep and run workflows, and show, draw, answer, pause, cancel or rerun their runs",
		Long: `A workflow is a number of steps, and the order in which they may run: most steps are tasks. Some wait for
something, and some decide which of the steps behind them go on. A run carries them out once. It is a task of the type
workflow, so "dtsctl task" knows it, too, and each step that is a task is called RUN@.STEP.`,
		Example: `  dtsctl flow graph -f etl.yaml
  dtsctl flow run -f etl.yaml -p day=2026-11-25 --id etl-1 --wait
  dtsctl flow show etl-1
  dtsctl flow why etl-1 load
  dtsctl flow rerun etl-1 --from load
  dtsctl flow approve etl-1 release
  dtsctl flow put etl -f etl.yaml
  dtsctl flow run etl -p day=2026-11-25`,
	}
	cmd.AddCommand(
		newPutCommand(f), newGetCommand(f), newListCommand(f), newDeleteCommand(f), newHistoryCommand(f),
		newRollbackCommand(f), newExportCommand(f),
		newRunCommand(f), newRunsCommand(f), newShowCommand(f), newGraphCommand(f), newWhyCommand(f),
		newPauseCommand(f), newResumeCommand(f), newCancelCommand(f), newRerunCommand(f), newAuditCommand(f),
		newSignalCommand(f), newApproveCommand(f), newRejectCommand(f),
	)
	return command.Group(cmd)
}

// options are those of commands about one run.
type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Run string
}

func newOptions(f *command.Factory) options { return options{Client: f.Client, Printer: f.Printer} }

// getRun returns a run as it is now.
func getRun(ctx context.Context, c *rest.Client, id string) (rest.Answer[wire.Run], error) {
	return rest.Read[wire.Run](c.GetRunWithResponse(ctx, id, &client.GetRunParams{Namespace: c.Namespace}))
}

// showState prints what became of a run: a sentence on a terminal. A pipe gets its id and state,
// and whether it was asked to stop.
func showState(p *printer.Printer, answer rest.Answer[wire.Run]) error {
	return p.Show(answer.Raw, func() error {
		if p.OutIsTerminal {
			return p.Printf("%s\n", sentence(p, answer.Value))
		}
		line := []any{answer.Value.ID, stateOf(answer.Value)}
		if answer.Value.State == wire.StateRunning && answer.Value.CancelRequestedAt != nil {
			line = append(line, "asked to stop")
		}
		return p.PrintTabbed([][]any{line})
	})
}

// stateOf returns the state of a run in a word.
func stateOf(r wire.Run) printer.Status {
	if r.Paused && r.State == wire.StateRunning {
		return "paused"
	}
	return printer.Status(r.State)
}

// sentence tells people in a few words where a run is.
func sentence(p *printer.Printer, r wire.Run) string {
	text := printer.Flat(r.ID) + " " + p.StatusWord(stateOf(r))
	switch {
	case r.State == wire.StateScheduled:
		text += " due " + p.Text(r.RunAt)
	case r.State == wire.StateRunning && r.CancelRequestedAt != nil:
		text += " asked to stop"
	case r.State == wire.StateRunning && len(r.Asked) > 0:
		text += " asked to " + printer.Flat(r.Asked[len(r.Asked)-1])
	case r.StartedAt != nil && r.FinishedAt != nil:
		text += " after " + p.Text(r.FinishedAt.Sub(r.StartedAt.Time))
	case r.StartedAt != nil:
		text += " for " + p.Text(p.Now().Sub(r.StartedAt.Time).Round(time.Second))
	}
	if r.Attempt > 1 {
		text += ", attempt " + p.Text(r.Attempt)
	}
	if reason := printer.Deref(r.Error); reason != "" && r.State != wire.StateSucceeded {
		text += " (" + printer.Flat(reason) + ")"
	}
	return text
}
