package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

type scheduleListOptions struct {
	window
	session *session
	paused  bool
	owner   string
	labels  []string
}

func newScheduleListCommand(s *session) *cobra.Command {
	o := scheduleListOptions{session: s}
	cmd := &cobra.Command{
		Use: "list", Short: "List schedules", Args: named(),
		Long: `list lists the schedules of a namespace by their ids. Filters are joined by "and".

The columns are: id, state, when, timezone, next, runs, failures, live, waiting, type, owner, note. The state is active,
paused or ended; next is the next tick, runs is how many ticks ran, failures how many tasks failed since the last one
that did not, live how many of its tasks have not ended, waiting how many ticks wait for those, note
why it is paused.`,
		Example: `  dtsctl schedule list
  dtsctl schedule list --paused --label team=billing
  dtsctl schedule list --paused=false --all -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd) },
	}
	o.bind(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.paused, "paused", false, "only those that are paused; with --paused=false, only the others")
	flags.StringVar(&o.owner, "owner", "", "only of this owner")
	flags.StringArrayVar(&o.labels, "label", nil, "only with this label, as NAME=VALUE; may be repeated")
	return cmd
}

func (o *scheduleListOptions) run(ctx context.Context, cmd *cobra.Command) error {
	c, err := o.session.calls()
	if err != nil {
		return err
	}
	if _, err := pairs("--label", "=", o.labels); err != nil {
		return err
	}
	list, err := readPages[client.Schedule](o.window, "schedules", func(limit int, cursor *string) (json.RawMessage, error) {
		a, err := ask[client.ScheduleList](c.ListSchedulesWithResponse(ctx, &client.ListSchedulesParams{
			Namespace: o.session.namespaceParam(), Paused: given(cmd.Flags(), "paused", o.paused), Owner: orNil(o.owner),
			Label: o.labels, Limit: &limit, Cursor: cursor,
		}))
		return a.raw, err
	})
	if err != nil {
		return err
	}
	return showPages(o.session, list, "schedules", scheduleColumns)
}

// scheduleColumns is a schedule in a list.
var scheduleColumns = []column[client.Schedule]{
	{"id", func(c client.Schedule) any { return c.ID }},
	{"state", func(c client.Schedule) any { return stateOf(c) }},
	{"when", func(c client.Schedule) any { return timesOf(c.Cron, c.Every, c.Specs) }},
	{"timezone", func(c client.Schedule) any { return c.Timezone }},
	{"next", func(c client.Schedule) any { return c.NextAt }},
	{"runs", func(c client.Schedule) any { return c.Runs }},
	{"failures", func(c client.Schedule) any { return c.Failures }},
	{"live", func(c client.Schedule) any { return c.Live }},
	{"waiting", func(c client.Schedule) any { return c.Waiting }},
	{"type", func(c client.Schedule) any { return c.Task.Type }},
	{"owner", func(c client.Schedule) any { return c.Owner }},
	{"note", func(c client.Schedule) any { return c.PauseNote }},
}
