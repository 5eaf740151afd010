package schedule

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Paused *bool
	Owner  string // "" means any
	Labels []string
	Window flags.Window
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "list", Short: "List schedules", Args: command.ExactArgs(),
		Annotations: command.Asks("listSchedules"),
		Long: `list lists the schedules of a namespace by their ids. Filters are joined by "and".

The columns are: id, state, when, timezone, next, runs, failures, live, waiting, type, owner, note. The state is active,
paused or ended; next is the next tick; runs is how many ticks ran; failures is how many tasks failed since the last one
that did not; live is how many of its tasks have not ended; waiting is how many ticks wait for those; note is the reason
for a pause.`,
		Example: `  dtsctl schedule list
  dtsctl schedule list --paused --label team=billing
  dtsctl schedule list --paused=false --all -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Window.Check(); err != nil {
				return err
			}
			if _, err := flags.Labels("--label", opts.Labels); err != nil {
				return err
			}
			return listRun(cmd.Context(), opts)
		},
	}
	opts.Window.Bind(cmd.Flags())
	set := cmd.Flags()
	flags.Bool(set, &opts.Paused, "paused", "only those that are paused; with --paused=false, only the others")
	set.StringVar(&opts.Owner, "owner", "", "only of this owner")
	set.StringArrayVar(&opts.Labels, "label", nil, "only with this label, as NAME=VALUE; may be repeated")
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ListSchedulesParams{
		Namespace: c.Namespace, Paused: opts.Paused, Owner: flags.NilIfZero(opts.Owner), Label: opts.Labels,
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.ScheduleList](c.ListSchedulesWithResponse(ctx, &params))
		return answer.Raw, err
	}
	pages, err := server.ReadPages[wire.Schedule](opts.Window.Window, "schedules", read)
	if err != nil {
		return err
	}
	return command.ShowPages(opts.Printer, pages, listColumns)
}

var listColumns = []printer.Column[wire.Schedule]{
	{Name: "id", Value: func(s wire.Schedule) any { return s.ID }},
	{Name: "state", Value: func(s wire.Schedule) any { return stateOf(s) }},
	{Name: "when", Value: func(s wire.Schedule) any { return rulesOf(s) }},
	{Name: "timezone", Value: func(s wire.Schedule) any { return s.Timezone }},
	{Name: "next", Value: func(s wire.Schedule) any { return s.NextAt }},
	{Name: "runs", Value: func(s wire.Schedule) any { return s.Runs }},
	{Name: "failures", Value: func(s wire.Schedule) any { return s.Failures }},
	{Name: "live", Value: func(s wire.Schedule) any { return s.Live }},
	{Name: "waiting", Value: func(s wire.Schedule) any { return s.Waiting }},
	{Name: "type", Value: func(s wire.Schedule) any { return s.Task.Type }},
	{Name: "owner", Value: func(s wire.Schedule) any { return s.Owner }},
	{Name: "note", Value: func(s wire.Schedule) any { return s.PauseNote }},
}

// rulesOf returns the rules that name a schedule's ticks, as its definition writes them.
func rulesOf(s wire.Schedule) printer.Rules {
	var texts printer.Rules
	for _, r := range append([]wire.ScheduleRule{{Cron: s.Cron, Every: s.Every}}, s.Specs...) {
		switch {
		case r.Cron != nil:
			texts = append(texts, *r.Cron)
		case r.Every != nil:
			texts = append(texts, "every "+*r.Every)
		}
	}
	return texts
}
