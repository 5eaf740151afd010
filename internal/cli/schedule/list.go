package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Paused *bool
	Owner  string // "" means any
	Prefix string
	Labels []string
	Window flags.Window

	Failing, Missed bool
	AllNamespaces   bool
	Stale           *time.Duration // nil: whether or not they are stale
}

const listLong = `list lists the schedules of a namespace, or of all of them, by their names. Filters are joined by
"and".

The columns in a pipe are: id, state, when, timezone, next, runs, failures, live, waiting, type, owner, note, last,
ended, took, recent, conditions, namespace, missed, why, retry_at, retry_error. The state is active, paused or ended;
next is the next tick; runs is how many ticks ran; failures is how many tasks failed since the last one that did not;
live is how many of its tasks have not ended; waiting is how many ticks wait for those; note is the reason for a pause.
Last, ended and took are of the run that ended last: its outcome, when it ended, and how long its last attempt took.
Recent is what became of the newest 30 ticks and runs by hand, the newest at the right:

  .  succeeded              c  cancelled
  F  failed                 r  replaced by a later one
  M  missed                 o  skipped, as a task had not ended
  >  running                x  excluded
  w  waiting                ?  not known, as its end was not recorded

Conditions are what is wrong with it: failing, missed, stale (for 24h). Missed is the newest tick that was missed, if
that was in the last 24h, and why is the reason that the ledger has. Retry_at and retry_error are of a task that failed
and is tried again: when its next attempt is due, and why the last one failed. A terminal gets what fits it, and has
that in the column note.`

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "list", Short: "List schedules", Args: command.ExactArgs(),
		Annotations: command.Asks("listSchedules"),
		Long:        listLong,
		Example: `  dtsctl schedule list
  dtsctl schedule list --paused --label team=billing
  dtsctl schedule list --paused=false --all -o json
  dtsctl schedule list --failing
  dtsctl schedule list --missed --all-namespaces
  dtsctl schedule list --stale=48h`,
		RunE: func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
	opts.Window.Bind(cmd.Flags())
	set := cmd.Flags()
	flags.Bool(set, &opts.Paused, "paused", "only those that are paused; with --paused=false, only the others")
	set.StringVar(&opts.Prefix, "prefix", "", "only those whose ids begin with this")
	set.StringVar(&opts.Owner, "owner", "", "only of this owner")
	set.StringArrayVarP(&opts.Labels, "label", "l", nil, "only with this label, as NAME=VALUE; may be repeated")
	flags.RefuseEmpty(set, "prefix", "owner", "label")
	set.BoolVar(&opts.Failing, "failing", false,
		"only those whose newest run, of those that succeeded or failed, has failed")
	set.BoolVar(&opts.Missed, "missed", false, "only those of which a tick of the last 24h was missed")
	flags.DurationOr(set, &opts.Stale, "stale", 24*time.Hour,
		"only those that have not succeeded for this long since a tick was due; 24h without a value")
	set.BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "list the schedules of all namespaces, as -n '*'")
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ListSchedulesParams{
		Namespace: c.Namespace, Paused: opts.Paused, Owner: flags.NilIfZero(opts.Owner),
		Prefix: flags.NilIfZero(opts.Prefix), Label: opts.Labels,
		Condition: opts.condition(), StaleAfter: flags.DurationText(opts.Stale),
	}
	if opts.AllNamespaces {
		params.Namespace = new("*")
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.ScheduleList](c.ListSchedulesWithResponse(ctx, &params))
		return answer.Raw, err
	}
	columns := opts.columns(printer.Deref(params.Namespace) == "*")
	_, err = command.ListPages(opts.Printer, opts.Window.Window, "schedules", read, columns)
	return err
}

// columns are those of the table. all: it may have schedules of several namespaces.
func (o *listOptions) columns(all bool) []printer.Column[wire.Schedule] {
	if !o.Printer.OutIsTerminal {
		return listColumns
	}
	columns := append(slices.Clip(terminalColumns), noteColumn(o.Printer))
	if o.Missed {
		columns = missedColumns
	}
	if all {
		columns = slices.Concat([]printer.Column[wire.Schedule]{namespaceColumn}, columns)
	}
	return columns
}

// check returns an error if a flag is wrong, or more than one condition is asked for.
func (o *listOptions) check() error {
	if err := o.Window.Check(); err != nil {
		return err
	}
	if _, err := flags.Labels("--label", o.Labels); err != nil {
		return err
	}
	switch {
	case o.Failing && o.Missed, o.Stale != nil && (o.Failing || o.Missed):
		return command.Usagef("give one of --failing, --missed and --stale")
	case o.Stale != nil && *o.Stale <= 0:
		return command.Usagef("--stale: %s must be more than 0", *o.Stale)
	}
	return nil
}

// condition returns the condition that is asked for; nil if none is.
func (o *listOptions) condition() *wire.ScheduleCondition {
	switch {
	case o.Failing:
		return new(wire.ScheduleConditionFailing)
	case o.Missed:
		return new(wire.ScheduleConditionMissed)
	case o.Stale != nil:
		return new(wire.ScheduleConditionStale)
	}
	return nil
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
	{Name: "last", Value: lastOutcome},
	{Name: "ended", Value: lastEnd},
	{Name: "took", Value: lastDuration},
	{Name: "recent", Value: func(s wire.Schedule) any { return stripOf(s.Recent) }},
	{Name: "conditions", Value: conditionsOf},
	namespaceColumn,
	{Name: "missed", Value: missedTick},
	{Name: "why", Value: func(s wire.Schedule) any { return wire.Value(s.LastMissed).Reason }},
	{Name: "retry_at", Value: retryTime},
	{Name: "retry_error", Value: retryError},
}

var namespaceColumn = printer.Column[wire.Schedule]{
	Name: "namespace", Value: func(s wire.Schedule) any { return s.Namespace },
}

// missedColumns are those that a terminal gets of schedules that have missed a tick.
var missedColumns = []printer.Column[wire.Schedule]{
	{Name: "id", Value: func(s wire.Schedule) any { return s.ID }},
	{Name: "state", Value: func(s wire.Schedule) any { return stateOf(s) }},
	{Name: "when", Value: func(s wire.Schedule) any { return rulesOf(s) }},
	{Name: "missed", Value: missedTick},
	{Name: "recent", Value: func(s wire.Schedule) any { return stripOf(s.Recent) }},
	{Name: "why", Value: func(s wire.Schedule) any {
		return printer.Remark(printer.Deref(wire.Value(s.LastMissed).Reason))
	}},
}

// missedTick is the newest tick that was missed; nil if that is long ago, or none was.
func missedTick(s wire.Schedule) any {
	if s.LastMissed == nil {
		return nil
	}
	return printer.Timestamp(s.LastMissed.Tick)
}

// terminalColumns are those that fit a terminal, without the note.
var terminalColumns = []printer.Column[wire.Schedule]{
	{Name: "id", Value: func(s wire.Schedule) any { return s.ID }},
	{Name: "state", Value: func(s wire.Schedule) any { return stateOf(s) }},
	{Name: "when", Value: func(s wire.Schedule) any { return rulesOf(s) }},
	{Name: "next", Value: func(s wire.Schedule) any { return s.NextAt }},
	{Name: "last", Value: lastOutcome},
	{Name: "ended", Value: lastEnd},
	{Name: "took", Value: lastDuration},
	{Name: "recent", Value: func(s wire.Schedule) any { return stripOf(s.Recent) }},
	{Name: "conditions", Value: conditionsOf},
}

// noteColumn says why a schedule is paused, or else which task of it is tried again.
func noteColumn(p *printer.Printer) printer.Column[wire.Schedule] {
	return printer.Column[wire.Schedule]{Name: "note", Value: func(s wire.Schedule) any {
		return printer.Remark(cmp.Or(printer.Deref(s.PauseNote), retrySentence(p, s)))
	}}
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
