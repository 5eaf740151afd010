package task

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
	"github.com/dts-sched/dts/internal/definition"
)

type getOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID            string
	AllNamespaces bool
}

func newGetCommand(f *command.Factory) *cobra.Command {
	opts := &getOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show everything about a task", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("getTask"),
		Long: `get shows a task as it is now. A pipe gets a line for each field that has a value: its name in the API, a tab,
the value.`,
		Example: `  dtsctl task get nightly
  dtsctl task get 01JDPKF0QRB1V7DZCC9YB3HQ4D -A
  dtsctl task get nightly -o json | jq -r .result`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return getRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false,
		"look in all namespaces, as -n '*'; only one task may have that id")
	return cmd
}

func getRun(ctx context.Context, opts *getOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.GetTaskParams{Namespace: c.Namespace}
	if opts.AllNamespaces {
		params.Namespace = new("*")
	}
	answer, err := rest.Read[wire.Task](c.GetTaskWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error { return opts.Printer.PrintDetails(details(answer.Value)) })
}

// details returns all fields of a task.
func details(t wire.Task) []printer.Detail {
	all := []printer.Detail{
		{Name: "id", Value: t.ID}, {Name: "namespace", Value: t.Namespace}, {Name: "schedule", Value: t.Schedule},
		{Name: "tick", Value: printer.OptionalTimestamp(t.Tick)}, {Name: "type", Value: t.Type},
		{Name: "queue", Value: t.Queue},
		{Name: "state", Value: printer.Status(t.State)}, {Name: "attempt", Value: t.Attempt},
		{Name: "max_attempts", Value: lastAttempt(t)}, {Name: "progress", Value: t.Progress},
		{Name: "progress_note", Value: t.ProgressNote},
		{Name: "run_at", Value: t.RunAt}, {Name: "created_at", Value: t.CreatedAt}, {Name: "queued_at", Value: t.QueuedAt},
		{Name: "started_at", Value: t.StartedAt}, {Name: "finished_at", Value: t.FinishedAt},
		{Name: "cancel_requested_at", Value: t.CancelRequestedAt},
		{Name: "move_requested_at", Value: t.MoveRequestedAt},
		{Name: "move_requested_by", Value: t.MoveRequestedBy}, {Name: "move_to", Value: t.MoveTo},
		{Name: "node", Value: t.Node}, {Name: "error", Value: t.Error},
		{Name: "checkpoint", Value: string(wire.PlainSigns(t.Checkpoint))}, {Name: "result", Value: t.Result},
		{Name: "payload", Value: string(wire.PlainSigns(t.Payload))}, {Name: "timeout", Value: t.Timeout},
		{Name: "retry", Value: jsonText(t.Retry)}, {Name: "retention", Value: t.Retention}, {Name: "owner", Value: t.Owner},
	}
	if t.Labels != nil {
		all = append(all, printer.Detail{Name: "labels", Value: labelList(*t.Labels)})
	}
	all = append(all,
		printer.Detail{Name: "priority", Value: t.Priority}, printer.Detail{Name: "fair_key", Value: t.FairKey},
		printer.Detail{Name: "fair_weight", Value: t.FairWeight}, printer.Detail{Name: "limit_key", Value: t.LimitKey},
		printer.Detail{Name: "cost", Value: t.Cost}, printer.Detail{Name: "slots", Value: t.Slots},
		printer.Detail{Name: "select", Value: t.Select})
	if len(t.Prefer) > 0 {
		all = append(all, printer.Detail{Name: "prefer", Value: preferenceList(t.Prefer)})
	}
	if t.Route != nil {
		all = append(all, printer.Detail{Name: "route", Value: jsonText(t.Route)})
	}
	if t.StartBy != nil {
		all = append(all, printer.Detail{Name: "start_by", Value: *t.StartBy})
	}
	if t.OnEnd != nil {
		all = append(all, printer.Detail{Name: "on_end", Value: jsonText(t.OnEnd)})
	}
	if t.Once != nil {
		all = append(all, printer.Detail{Name: "once", Value: jsonText(t.Once)})
		if other := taskview.WaitsFor(t); other != "" {
			all = append(all, printer.Detail{Name: "waits_for", Value: "the end of " + other})
		}
	}
	if p := t.Parent; p != nil {
		text := fmt.Sprintf("%s, which has %s (attempt %d)", p.ID, p.State, p.Attempt)
		if p.State == wire.StateCancelled {
			text = fmt.Sprintf("%s, which was cancelled (attempt %d)", p.ID, p.Attempt)
		}
		all = append(all, printer.Detail{Name: "follows", Value: text})
	}
	if t.Damage != nil {
		all = append(all, printer.Detail{Name: "damage", Value: t.Damage})
	}
	if len(t.Warnings) > 0 {
		all = append(all, printer.Detail{Name: "warnings", Value: printer.List(t.Warnings)})
	}
	return all
}

// lastAttempt is the number of the last attempt that may be made, and why it is higher than the retry policy says.
func lastAttempt(t wire.Task) any {
	counted := wire.Value(t.Retry.MaxAttempts)
	more := t.MaxAttempts - counted
	if counted == 0 || more <= 0 {
		return t.MaxAttempts
	}
	const form = "%d of retry, and %d more for attempts that were snoozed, interrupted, moved or made before a retry"
	why := fmt.Sprintf(form, counted, more)
	return printer.Explained{Value: t.MaxAttempts, Text: why}
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(wire.PlainSigns(raw))
}

// preferenceList writes preferences as --prefer takes them.
func preferenceList(prefer wire.Preferences) string {
	texts := make([]string, len(prefer))
	for i, p := range prefer {
		texts[i] = definition.PreferenceText(p)
	}
	return strings.Join(texts, "; ")
}

func labelList(labels wire.Labels) printer.List {
	var texts printer.List
	for name, value := range labels {
		texts = append(texts, name+"="+value)
	}
	slices.Sort(texts)
	return texts
}
