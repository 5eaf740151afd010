package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type runsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Times   flags.Times

	States        []string
	Workflow      string // "" means any
	Owner         string
	Labels        []string
	Since, Until  *string
	Window        flags.Window
	AllNamespaces bool
}

func newRunsCommand(f *command.Factory) *cobra.Command {
	opts := &runsOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "runs", Short: "List runs of workflows", Args: command.ExactArgs(),
		Annotations: command.Asks("listRuns"),
		Long: `runs lists the runs of workflows of a namespace, or of all of them. The one that came into its state last comes
first. Filters are joined by "and".

Steps says how many steps of how many have ended. A paused run has the state running, and releases no steps.

The columns in a pipe are: id, state, attempt, due, started, finished, owner, error, namespace, ended, steps, paused.`,
		Example: `  dtsctl flow runs
  dtsctl flow runs --state failed --since 24h
  dtsctl flow runs --workflow etl --limit 3
  dtsctl flow runs --label team=data --all-namespaces
  dtsctl flow runs --state failed --all | cut -f 1 | xargs -n 1 dtsctl flow rerun`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Window.Check(); err != nil {
				return err
			}
			return runsRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringSliceVar(&opts.States, "state", nil,
		"only in this state; may be repeated, or name several separated by commas")
	set.StringVar(&opts.Workflow, "workflow", "", "only of this workflow that was put")
	set.StringVar(&opts.Owner, "owner", "", "only of this owner")
	set.StringArrayVarP(&opts.Labels, "label", "l", nil, "only with this label, as NAME=VALUE; may be repeated")
	flags.String(set, &opts.Since, "since",
		"only if it was created, or has ended if --state names ends only, at this time or later; or how long ago, as 2h")
	flags.String(set, &opts.Until, "until", "only if that was before this time, or longer ago")
	flags.RefuseEmpty(set, "state", "workflow", "owner", "label")
	command.Complete(cmd, "state", "scheduled", "queued", "running", "succeeded", "failed", "cancelled")
	opts.Window.Bind(set)
	set.BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "list the runs of all namespaces, as -n '*'")
	return cmd
}

func runsRun(ctx context.Context, opts *runsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ListRunsParams{Namespace: c.Namespace, Owner: flags.NilIfZero(opts.Owner), Label: opts.Labels}
	if opts.Workflow != "" { // the label that its runs have
		params.Label = append(params.Label, "workflow="+opts.Workflow)
	}
	if opts.AllNamespaces {
		params.Namespace = new("*")
	}
	for _, state := range opts.States {
		params.State = append(params.State, wire.State(state))
	}
	if params.Since, err = opts.Times.Past("--since", opts.Since); err != nil {
		return err
	}
	if params.Until, err = opts.Times.Past("--until", opts.Until); err != nil {
		return err
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.TaskList](c.ListRunsWithResponse(ctx, &params))
		return answer.Raw, err
	}
	columns := slices.Concat(runColumns, errorColumns, []printer.Column[wire.Task]{namespaceColumn}, progressColumns)
	if opts.Printer.ForPeople() {
		columns = slices.Concat(runColumns, stepsColumns, errorColumns)
		if printer.Deref(params.Namespace) == "*" {
			columns = slices.Concat([]printer.Column[wire.Task]{namespaceColumn}, columns)
		}
	}
	_, err = command.ListPages(opts.Printer, opts.Window.Window, "tasks", read, columns)
	return err
}

var runColumns = []printer.Column[wire.Task]{
	{Name: "id", Value: func(t wire.Task) any { return t.ID }},
	{Name: "state", Value: func(t wire.Task) any { return printer.Status(t.State) }},
	{Name: "attempt", Value: func(t wire.Task) any { return t.Attempt }},
	{Name: "due", Value: func(t wire.Task) any { return t.RunAt }},
	{Name: "started", Value: func(t wire.Task) any { return t.StartedAt }},
	{Name: "finished", Value: func(t wire.Task) any { return t.FinishedAt }},
	{Name: "owner", Value: func(t wire.Task) any { return t.Owner }},
}

// errorColumns say why a run has not succeeded.
var errorColumns = []printer.Column[wire.Task]{
	{Name: "error", Value: func(t wire.Task) any {
		return printer.Remark(cmp.Or(printer.Deref(t.Damage), printer.Deref(t.Error)))
	}},
}

var namespaceColumn = printer.Column[wire.Task]{Name: "namespace", Value: func(t wire.Task) any { return t.Namespace }}

// stepsColumns say to people how far a run is.
var stepsColumns = []printer.Column[wire.Task]{{Name: "steps", Value: func(t wire.Task) any {
	switch {
	case t.Run == nil:
		return nil
	case isPaused(t, *t.Run):
		return fmt.Sprintf("%d of %d, paused", t.Run.Ended, t.Run.Steps)
	}
	return fmt.Sprintf("%d of %d", t.Run.Ended, t.Run.Steps)
}}}

// progressColumns say to a pipe how far a run is; they are empty of a run that has not begun.
var progressColumns = []printer.Column[wire.Task]{
	progressColumn("ended", func(_ wire.Task, r wire.RunProgress) any { return r.Ended }),
	progressColumn("steps", func(_ wire.Task, r wire.RunProgress) any { return r.Steps }),
	progressColumn("paused", func(t wire.Task, r wire.RunProgress) any { return isPaused(t, r) }),
}

// isPaused reports whether a run is paused now. A run that has ended may still have the mark of its pause.
func isPaused(t wire.Task, r wire.RunProgress) bool { return r.Paused && t.State == wire.StateRunning }

func progressColumn(name string, value func(t wire.Task, r wire.RunProgress) any) printer.Column[wire.Task] {
	return printer.Column[wire.Task]{Name: name, Value: func(t wire.Task) any {
		if t.Run == nil {
			return nil
		}
		return value(t, *t.Run)
	}}
}
