package schedule

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

// many is the flags by which a command chooses schedules in place of their ids.
type many struct {
	in          io.Reader
	previews    bool // a dry run shows what the server would do with each of them
	Labels      []string
	DryRun, Yes bool
}

func (m *many) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	dryRun := "with --label: show which these are, and do nothing"
	if m.previews {
		dryRun = "show what it would do, and do nothing"
	}
	set.StringArrayVarP(&m.Labels, "label", "l", nil,
		"all with this label, as NAME=VALUE, in place of ids; may be repeated")
	flags.RefuseEmpty(set, "label")
	set.BoolVar(&m.DryRun, "dry-run", false, dryRun)
	set.BoolVarP(&m.Yes, "yes", "y", false, "with --label: do not ask")
}

// checkArgs refuses ids together with labels, and neither of both. Beside ids, it refuses the flags that are for labels
// only.
func (m *many) checkArgs(cmd *cobra.Command, ids []string) error {
	if len(m.Labels) > 0 && len(ids) > 0 {
		return command.Usagef("name schedules, or choose them with --label, and not both")
	}
	if len(m.Labels) > 0 {
		return nil
	}
	if err := command.IDs(cmd, ids); err != nil {
		return err
	}
	if m.previews {
		return command.NotWithIDs(cmd, "yes")
	}
	return command.NotWithIDs(cmd, "yes", "dry-run")
}

// choose returns the ids, or those of the schedules with the labels, after it has asked whether to do that with them.
// There are none if nothing is to be done.
func (m *many) choose(
	ctx context.Context, c *rest.Client, p *printer.Printer, verb string, ids []string,
) ([]string, error) {
	if len(m.Labels) == 0 {
		return ids, nil
	}
	found, err := m.find(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		p.Notef("No schedule matches.")
		return nil, nil
	}
	show := func() error { return printer.PrintTable(p, chosenColumns, found) }
	what := verb + " " + printer.Counted(len(found), "schedule")
	if m.DryRun && !m.previews {
		p.Notef("This would %s.", what)
		return nil, show()
	}
	if !m.Yes && !m.DryRun {
		if err := command.Agree(p, m.in, what, show); err != nil {
			return nil, err
		}
	}
	for _, s := range found {
		ids = append(ids, s.ID)
	}
	return ids, nil
}

// find reads all schedules with the labels.
func (m *many) find(ctx context.Context, c *rest.Client) ([]wire.Schedule, error) {
	params := client.ListSchedulesParams{Namespace: c.Namespace, Label: m.Labels}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.ScheduleList](c.ListSchedulesWithResponse(ctx, &params))
		return answer.Raw, err
	}
	pages, err := server.ReadPages[wire.Schedule](server.Window{All: true}, "schedules", read)
	return pages.Rows, err
}

var chosenColumns = []printer.Column[wire.Schedule]{
	{Name: "id", Value: func(s wire.Schedule) any { return s.ID }},
	{Name: "state", Value: func(s wire.Schedule) any { return stateOf(s) }},
	{Name: "next", Value: func(s wire.Schedule) any { return s.NextAt }},
	{Name: "live", Value: func(s wire.Schedule) any { return s.Live }},
}

// manyHelp is the help on commands that get --label in place of ids.
const manyHelp = `With --label, it concerns all schedules of the namespace that have the label. It shows which
these are, and asks; --yes answers, and --dry-run does nothing.`
