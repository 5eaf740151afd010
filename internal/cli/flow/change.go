package flow

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

func newPauseCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	var note *string
	workflow := false
	cmd := &cobra.Command{
		Use: "pause RUN", Short: "Have a run release no further steps, or no run of a workflow begin",
		Args:        command.ExactArgs("RUN"),
		Annotations: command.Asks("pauseRun", "pauseWorkflow"),
		Long: `pause keeps a run from releasing steps until it is resumed, or begins again. Its steps that run go on, and
steps of on_failure and finally are released nevertheless. The deadline of the run is not put off.

With --workflow, RUN is the id of a workflow: no further run of it begins until it is resumed. Runs that have begun go
on.`,
		Example: `  dtsctl flow pause etl-1
  dtsctl flow pause --workflow etl --note 'the shop is closed'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case note != nil && !workflow:
				return command.Usagef("--note: only a pause of a --workflow has one")
			case !workflow:
				return change(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
					return c.PauseRunWithResponse(ctx, args[0], &client.PauseRunParams{Namespace: c.Namespace})
				})
			}
			body, err := rest.Body(wire.SchedulePause{Note: note})
			if err != nil {
				return err
			}
			return askAndShow(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				params := &client.PauseWorkflowParams{Namespace: c.Namespace}
				return c.PauseWorkflowWithBodyWithResponse(ctx, args[0], params, rest.JSONType, body)
			}, showPaused)
		},
	}
	cmd.Flags().BoolVar(&workflow, "workflow", false, "pause a workflow that was put, not a run")
	flags.String(cmd.Flags(), &note, "note", "why the workflow is paused")
	return cmd
}

func newResumeCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	workflow := false
	cmd := &cobra.Command{
		Use: "resume RUN", Short: "End the pause of a run or of a workflow",
		Args:        command.ExactArgs("RUN"),
		Annotations: command.Asks("resumeRun", "resumeWorkflow"),
		Long: `resume ends the pause of a run: its next steps begin. A run that is not paused stays as it is.

With --workflow, RUN is the id of a workflow, whose runs may begin again.`,
		Example: `  dtsctl flow resume etl-1
  dtsctl flow resume --workflow etl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if workflow {
				return askAndShow(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
					return c.ResumeWorkflowWithResponse(ctx, args[0], &client.ResumeWorkflowParams{Namespace: c.Namespace})
				}, showPaused)
			}
			return change(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				return c.ResumeRunWithResponse(ctx, args[0], &client.ResumeRunParams{Namespace: c.Namespace})
			})
		},
	}
	cmd.Flags().BoolVar(&workflow, "workflow", false, "resume a workflow that was put, not a run")
	return cmd
}

func newCancelCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	var note *string
	cmd := &cobra.Command{
		Use: "cancel RUN", Short: "Cancel a run", Args: command.ExactArgs("RUN"),
		Annotations: command.Asks("cancelRun"),
		Long: `cancel cancels a run. One that has not begun is cancelled at once. One that runs is asked to stop: its
steps are cancelled, those of finally run, and then it ends as cancelled. "dtsctl task wait RUN" waits for that.`,
		Example: "  dtsctl flow cancel etl-1 --note 'the data was wrong'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				return c.CancelRunWithResponse(ctx, args[0], &client.CancelRunParams{Namespace: c.Namespace, Note: note})
			})
		},
	}
	flags.String(cmd.Flags(), &note, "note", "why it is cancelled")
	return cmd
}

// change asks something of a run, and prints what became of it.
func change(
	ctx context.Context, opts options, ask func(ctx context.Context, c *rest.Client) (rest.Reply, error),
) error {
	return askAndShow(ctx, opts, ask, showState)
}

// askAndShow sends a request, and shows the answer.
func askAndShow[T any](
	ctx context.Context, opts options, ask func(ctx context.Context, c *rest.Client) (rest.Reply, error),
	show func(p *printer.Printer, answer rest.Answer[T]) error,
) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[T](ask(ctx, c))
	if err != nil {
		return err
	}
	return show(opts.Printer, answer)
}

type rerunOptions struct {
	options
	From []string
	Wait bool
}

func newRerunCommand(f *command.Factory) *cobra.Command {
	opts := &rerunOptions{options: newOptions(f)}
	cmd := &cobra.Command{
		Use: "rerun RUN", Short: "Run a run again that has ended", Args: command.ExactArgs("RUN"),
		Annotations: command.Asks("rerunRun", "getTask", "followEvents"),
		Long: `rerun begins a run again that has ended. Its steps that failed or were cancelled run again, and all
behind these; the others keep their ends. If no step has failed, all run again. With --from, these steps, those
that were cancelled, and all behind them run again. Steps of on_failure and finally always do.`,
		Example: `  dtsctl flow rerun etl-1
  dtsctl flow rerun etl-1 --from load --from check --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Run = args[0]
			return rerunRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringSliceVar(&opts.From, "from", nil, "a step to begin with; may be repeated")
	flags.RefuseEmpty(cmd.Flags(), "from")
	cmd.Flags().BoolVar(&opts.Wait, "wait", false, "wait for its end, as \"dtsctl task wait\" does")
	return cmd
}

func rerunRun(ctx context.Context, opts *rerunOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	body, err := rest.Body(wire.RunAgain{From: opts.From})
	if err != nil {
		return err
	}
	params := &client.RerunRunParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.Run](c.RerunRunWithBodyWithResponse(ctx, opts.Run, params, rest.JSONType, body))
	if err != nil {
		return err
	}
	if opts.Wait {
		return taskview.Wait(ctx, taskview.WaitOptions{Client: c, Printer: opts.Printer, ID: opts.Run})
	}
	return showState(opts.Printer, answer)
}
