package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/workflow/words"
)

func newSignalCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	var data *string
	cmd := &cobra.Command{
		Use: "signal RUN NAME", Short: "Give a run a signal for which steps wait", Args: command.ExactArgs("RUN", "NAME"),
		Annotations: command.Asks("signalRun"),
		Long: `signal gives a run a signal. Its steps that wait for it go on, and the data is their output. A run keeps a
signal that comes before a step waits for it, also if the run has not begun.

A run has each signal once, and keeps it when it is run again. The same signal with the same data is harmless.`,
		Example: `  dtsctl flow signal order-7 paid
  dtsctl flow signal order-7 paid --data '{"amount": 7}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var in wire.SignalData
			if data != nil {
				if in.Data = json.RawMessage(*data); !json.Valid(in.Data) {
					return command.Usagef("--data: %s is no JSON: a text needs quotation marks, as in --data '\"late\"'", *data)
				}
			}
			body, err := rest.Body(in)
			if err != nil {
				return err
			}
			return change(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				params := &client.SignalRunParams{Namespace: c.Namespace}
				return c.SignalRunWithBodyWithResponse(ctx, args[0], args[1], params, rest.JSONType, body)
			})
		},
	}
	flags.String(cmd.Flags(), &data, "data", "what the signal says, as JSON (default null)")
	return cmd
}

func newApproveCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	var note *string
	var values []string
	cmd := &cobra.Command{
		Use: "approve RUN STEP", Short: "Approve what a step asks for", Args: command.ExactArgs("RUN", "STEP"),
		Annotations: command.Asks("approveStep", "getRun"),
		Long: `approve answers yes to a step that waits for an approval: the step succeeds. -p fills in the fields of its
form. A value is text if the form says that it is a string. Else it is JSON, as 5, true or ["a"].

Whoever answers first decides. The same answer by the same caller again is harmless.`,
		Example: `  dtsctl flow approve order-7 release
  dtsctl flow approve order-7 release -p amount=7 --note 'as agreed'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := flags.Pairs("--param", "=", values); err != nil { // before anything is asked
				return err
			}
			return change(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				in := wire.Approval{Note: note}
				if len(values) > 0 {
					form, err := formOf(ctx, c, args[0], args[1])
					if err != nil {
						return nil, err
					}
					if in.Data, err = valuesOf(form, values); err != nil {
						return nil, err
					}
				}
				body, err := rest.Body(in)
				if err != nil {
					return nil, err
				}
				params := &client.ApproveStepParams{Namespace: c.Namespace}
				return c.ApproveStepWithBodyWithResponse(ctx, args[0], args[1], params, rest.JSONType, body)
			})
		},
	}
	flags.String(cmd.Flags(), &note, "note", "why, or what to keep in mind")
	cmd.Flags().StringArrayVarP(&values, "param", "p", nil, "the value of a field, as NAME=VALUE; may be repeated")
	return cmd
}

func newRejectCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	var note *string
	cmd := &cobra.Command{
		Use: "reject RUN STEP", Short: "Reject what a step asks for", Args: command.ExactArgs("RUN", "STEP"),
		Annotations: command.Asks("rejectStep"),
		Long: `reject answers no to a step that waits for an approval: the step fails.

Whoever answers first decides. The same answer by the same caller again is harmless.`,
		Example: "  dtsctl flow reject order-7 release --note 'the sums differ'",
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := rest.Body(wire.Rejection{Note: note})
			if err != nil {
				return err
			}
			return change(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				params := &client.RejectStepParams{Namespace: c.Namespace}
				return c.RejectStepWithBodyWithResponse(ctx, args[0], args[1], params, rest.JSONType, body)
			})
		},
	}
	flags.String(cmd.Flags(), &note, "note", "why it is rejected")
	return cmd
}

// formOf reads which fields the approval of a step has; none if the run has no such step.
func formOf(ctx context.Context, c *rest.Client, run, step string) (map[string]words.Param, error) {
	answer, err := getRun(ctx, c, run)
	if err != nil {
		return nil, err
	}
	for _, s := range answer.Value.Steps {
		if w := waitOf(s); s.ID == step && w.Approval != nil {
			return w.Approval.Form, nil
		}
	}
	return nil, nil
}

// waitOf is what a step waits for, as far as this release knows it.
func waitOf(s wire.RunStep) (w words.Wait) {
	_ = json.Unmarshal(s.Wait, &w) // what cannot be read is left out
	return w
}

// signalText says what signal a run was given, by whom, and when.
func signalText(p *printer.Printer, s wire.RunSignal) string {
	text := s.Name
	if s.By != nil {
		text += " by " + *s.By
	}
	text += ", " + p.Text(s.At)
	if len(s.Data) > 0 {
		text += ": " + string(wire.PlainSigns(s.Data))
	}
	return text
}

// printAnswers prints the commands that answer the steps that wait for somebody.
func printAnswers(p *printer.Printer, r wire.Run) error {
	var lines [][]any
	for _, s := range r.Steps {
		if s.State != wire.StepWaiting {
			continue
		}
		switch w := waitOf(s); {
		case w.Signal != "":
			lines = append(lines, []any{fmt.Sprintf("dtsctl flow signal %s %s", r.ID, w.Signal)})
		case w.Approval != nil:
			lines = append(lines,
				[]any{fmt.Sprintf("dtsctl flow approve %s %s%s", r.ID, s.ID, formText(w.Approval.Form))},
				[]any{fmt.Sprintf("dtsctl flow reject %s %s", r.ID, s.ID)})
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if err := p.Printf("\n"); err != nil {
		return err
	}
	return p.PrintAligned(slices.CompactFunc(lines, func(a, b []any) bool { return a[0] == b[0] }))
}

// formText has the flags for the fields of a form: those that it needs, and the types of their values.
func formText(form map[string]words.Param) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if form[name].Required {
			fmt.Fprintf(&text, " -p %s=%s", name, strings.ToUpper(cmp.Or(form[name].Type, "value")))
		}
	}
	return text.String()
}
