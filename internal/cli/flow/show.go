package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type showOptions struct {
	options
	Watch bool
}

func newShowCommand(f *command.Factory) *cobra.Command {
	opts := &showOptions{options: newOptions(f)}
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run, and what became of its steps", Args: command.ExactArgs("RUN"),
		Annotations: command.Asks("getRun"),
		Long: `show shows a run as it is now: where it is, and its steps. Task is the state of the task of a step. The
reason of an allowed failure begins with "(allowed)". Of a step that waits, why says for what, and until when. A
terminal also gets the signals that the run was given, and the commands that answer the steps that wait.

The columns in a pipe, which gets a line for each step, are: step, state, task, attempt, took, why, section, task_id,
started, finished.

With --watch, it shows the run each second until it has ended. A pipe then gets a line for each step whose state has
changed.`,
		Example: `  dtsctl flow show etl-1
  dtsctl flow show etl-1 --watch
  dtsctl flow show etl-1 -o json | jq -r '.steps[] | select(.state == "failed") | .task'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Run = args[0]
			if opts.Watch {
				return command.UnlessInterrupted(cmd.Context(), showWatched(cmd.Context(), opts))
			}
			return showRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Watch, "watch", "w", false, "show it each second until it has ended")
	return cmd
}

func showRun(ctx context.Context, opts *showOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := getRun(ctx, c, opts.Run)
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error { return printRun(opts.Printer, answer.Value) })
}

// showWatched shows a run until it has ended.
func showWatched(ctx context.Context, opts *showOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) (rest.Answer[wire.Run], error) { return getRun(ctx, c, opts.Run) }
	return command.Watch(ctx, opts.Printer, read, func(now rest.Answer[wire.Run], before wire.Run) (bool, error) {
		return rest.IsEnd(now.Value.State), showAgain(opts.Printer, now, before)
	})
}

// showAgain shows a run in the place of what it was before; a pipe gets what has changed.
func showAgain(p *printer.Printer, answer rest.Answer[wire.Run], before wire.Run) error {
	if p.ForPeople() {
		if err := p.ClearScreen(); err != nil {
			return err
		}
		return printRun(p, answer.Value)
	}
	states := make(map[string]wire.RunStepState, len(before.Steps))
	for _, s := range before.Steps {
		states[s.ID] = s.State
	}
	var changed []wire.RunStep
	for _, s := range answer.Value.Steps {
		if states[s.ID] != s.State {
			changed = append(changed, s)
		}
	}
	if len(changed) == 0 && answer.Value.State == before.State {
		return nil
	}
	return p.ShowLine(answer.Raw, func() error { return printer.PrintTable(p, stepColumns(p), changed) })
}

// printRun prints a run: a sentence and a table on a terminal, a line for each step in a pipe.
func printRun(p *printer.Printer, r wire.Run) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, stepColumns(p), r.Steps)
	}
	if err := p.Printf("%s\n", sentence(p, r)); err != nil {
		return err
	}
	if err := p.PrintDetails(runDetails(p, r)); err != nil {
		return err
	}
	if err := p.Printf("\n"); err != nil {
		return err
	}
	if err := printer.PrintTable(p, stepColumns(p), r.Steps); err != nil {
		return err
	}
	return printAnswers(p, r)
}

// runDetails are what people get of a run above its steps.
func runDetails(p *printer.Printer, r wire.Run) []printer.Detail {
	details := []printer.Detail{
		{Name: "workflow", Value: r.Workflow}, {Name: "revision", Value: r.Revision}, {Name: "waits", Value: r.Waits},
		{Name: "params", Value: paramsText(r.Params)},
	}
	for _, s := range r.Signals {
		details = append(details, printer.Detail{Name: "signal", Value: signalText(p, s)})
	}
	if phase := wire.Value(r.Phase); phase != wire.RunPhaseEnded && phase != wire.RunPhaseMain {
		details = append(details, printer.Detail{Name: "phase", Value: string(phase)})
	}
	return append(details,
		printer.Detail{Name: "deadline", Value: r.Deadline}, printer.Detail{Name: "owner", Value: r.Owner},
		printer.Detail{Name: "result", Value: r.Result},
	)
}

func paramsText(params wire.RunParams) string {
	if len(params) == 0 {
		return ""
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return ""
	}
	return string(wire.PlainSigns(raw))
}

// stepColumns are the columns of the steps of a run. A terminal gets those that fit.
func stepColumns(p *printer.Printer) []printer.Column[wire.RunStep] {
	columns := []printer.Column[wire.RunStep]{
		{Name: "step", Value: func(s wire.RunStep) any { return s.ID }},
		{Name: "state", Value: func(s wire.RunStep) any { return printer.Status(s.State) }},
		{Name: "task", Value: func(s wire.RunStep) any { return printer.Status(wire.Value(s.TaskState)) }},
		{Name: "attempt", Value: func(s wire.RunStep) any { return s.Attempt }},
		{Name: "took", Value: func(s wire.RunStep) any { return took(p, s) }},
		{Name: "why", Value: func(s wire.RunStep) any { return printer.Remark(whyOf(s)) }},
	}
	if p.OutIsTerminal {
		return columns
	}
	return append(columns,
		printer.Column[wire.RunStep]{Name: "section", Value: func(s wire.RunStep) any { return string(s.Section) }},
		printer.Column[wire.RunStep]{Name: "task_id", Value: func(s wire.RunStep) any { return s.Task }},
		printer.Column[wire.RunStep]{Name: "started", Value: func(s wire.RunStep) any { return s.StartedAt }},
		printer.Column[wire.RunStep]{Name: "finished", Value: func(s wire.RunStep) any { return s.FinishedAt }},
	)
}

// took is how long the newest attempt of a step took, or has taken until now; nil if it has not begun. Of a step that
// waits, it is for how long.
func took(p *printer.Printer, s wire.RunStep) any {
	switch {
	case s.WaitingSince != nil:
		return max(0, p.Now().Sub(s.WaitingSince.Time))
	case s.StartedAt == nil:
		return nil
	case s.FinishedAt == nil || s.FinishedAt.Before(s.StartedAt.Time): // that was the attempt before
		return max(0, p.Now().Sub(s.StartedAt.Time))
	}
	return s.FinishedAt.Sub(s.StartedAt.Time)
}

// whyOf says why a step is where it is; "" if there is nothing to say.
func whyOf(s wire.RunStep) string {
	text := strings.TrimSpace(cmp.Or(printer.Deref(s.Reason), printer.Deref(s.Error)))
	if wire.Value(s.FailureAllowed) {
		return strings.TrimSpace("(allowed) " + text)
	}
	return text
}
