package flow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/whyview"
)

type whyOptions struct {
	options
	Step string // "" for all that have not ended well
}

func newWhyCommand(f *command.Factory) *cobra.Command {
	opts := &whyOptions{options: newOptions(f)}
	cmd := &cobra.Command{
		Use: "why RUN [STEP]", Short: "Say what a run waits for, or why a step is where it is",
		Annotations: command.Asks("getRun", "whyTask"),
		Long: `why says of each step that has not succeeded why it is where it is: what it waits for, why it was skipped,
or how its task failed. With STEP, it says that of this step; of one whose task waits, it says what the task waits for,
and what to do, as "dtsctl task why" does. It says the same of a run that has not begun.

A pipe gets a line for each step: step, state, why. A run that its workflow keeps from beginning has one line, and one
that has not ended though its deadline is over has such a line before those of its steps.`,
		Example: `  dtsctl flow why etl-1
  dtsctl flow why etl-1 load`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return command.ExactArgs("RUN", "STEP")(cmd, args)
			}
			return command.ExactArgs("RUN")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Run = args[0]
			if len(args) > 1 {
				opts.Step = args[1]
			}
			return whyRun(cmd.Context(), opts)
		},
	}
	return cmd
}

func whyRun(ctx context.Context, opts *whyOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := getRun(ctx, c, opts.Run)
	if err != nil {
		return err
	}
	run := answer.Value
	if opts.Step != "" {
		return whyStep(ctx, c, opts, run)
	}
	if !hasBegun(run) && run.Waits == nil {
		return whyTask(ctx, c, opts.Printer, run.ID)
	}
	return opts.Printer.Show(answer.Raw, func() error { return printReasons(opts.Printer, run) })
}

// whyStep says why one step is where it is.
func whyStep(ctx context.Context, c *rest.Client, opts *whyOptions, run wire.Run) error {
	at := slices.IndexFunc(run.Steps, func(s wire.RunStep) bool { return s.ID == opts.Step })
	if at < 0 {
		opts.Printer.Errorf("%s has no step %q (dtsctl flow show %s)", run.ID, opts.Step, run.ID)
		return command.ErrReported
	}
	s := run.Steps[at]
	if s.State == wire.StepActive && s.Task != nil && wire.Value(s.TaskState) != wire.StateRunning {
		return whyTask(ctx, c, opts.Printer, *s.Task)
	}
	raw, err := wire.Encode(s)
	if err != nil {
		return err
	}
	return opts.Printer.Show(raw, func() error {
		if !opts.Printer.OutIsTerminal {
			return opts.Printer.PrintTabbed([][]any{{s.ID, s.State, reasonOf(opts.Printer, s)}})
		}
		id := opts.Printer.StatusText(printer.Status(s.State), s.ID)
		return opts.Printer.Printf("%s %s\n", id, reasonOf(opts.Printer, s))
	})
}

// whyTask says what a task waits for.
func whyTask(ctx context.Context, c *rest.Client, p *printer.Printer, id string) error {
	answer, err := rest.Read[wire.Why](c.WhyTaskWithResponse(ctx, id, &client.WhyTaskParams{Namespace: c.Namespace}))
	if err != nil {
		return err
	}
	return whyview.Show(p, id, answer)
}

// printReasons says why a run waits and, if it has begun, of each step that has not succeeded why it is where it is.
func printReasons(p *printer.Printer, run wire.Run) error {
	var lines [][]any
	if p.OutIsTerminal {
		if err := p.Printf("%s\n", sentence(p, run)); err != nil {
			return err
		}
		if run.Waits != nil {
			if err := p.Printf("%s\n", printer.Flat(*run.Waits)); err != nil {
				return err
			}
		}
	} else if run.Waits != nil {
		lines = append(lines, []any{run.ID, run.State, *run.Waits})
	}
	waiting := "" // a step whose task waits
	for _, s := range run.Steps {
		if s.State != wire.StepSucceeded && hasBegun(run) {
			lines = append(lines, []any{s.ID, printer.Status(s.State), reasonOf(p, s)})
		}
		if s.State == wire.StepActive && wire.Value(s.TaskState) != wire.StateRunning {
			waiting = cmp.Or(waiting, s.ID)
		}
	}
	if !p.OutIsTerminal {
		return p.PrintTabbed(lines)
	}
	if err := p.PrintAligned(lines); err != nil {
		return err
	}
	if err := printAnswers(p, run); err != nil || waiting == "" {
		return err
	}
	return p.Printf("dtsctl flow why %s %s says what its task waits for.\n", run.ID, waiting)
}

func hasBegun(run wire.Run) bool {
	return run.State != wire.StateScheduled && run.State != wire.StateQueued
}

// reasonOf says in words why a step is where it is.
func reasonOf(p *printer.Printer, s wire.RunStep) string {
	if s.State != wire.StepActive {
		return printer.Flat(cmp.Or(whyOf(s), string(s.State)))
	}
	state := wire.Value(s.TaskState)
	words := []string{"its task is", string(state)}
	if state == wire.StateRunning && s.StartedAt != nil {
		words = append(words, "for", p.Text(p.Now().Sub(s.StartedAt.Time)))
	}
	text := strings.Join(words, " ")
	if attempt := wire.Value(s.Attempt); attempt > 1 {
		text += fmt.Sprintf(", attempt %d", attempt)
	}
	if why := whyOf(s); why != "" {
		text += ": " + printer.Flat(why)
	}
	return text
}
