package schedule

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

// definitionFlags is the flags that define a schedule, except for the task that it creates. The server chooses what no
// flag names.
type definitionFlags struct {
	Crons, Exclude []string
	Every          []time.Duration
	Timezone       *string
	StartAt, EndAt *string
	MaxRuns        *int
	Jitter         *time.Duration
	Misfire        *string
	MisfireWindow  *time.Duration
	MisfireMax     *int
	Overlap        *string
	PauseOnFailure *int
	Paused         *bool
	Owner          *string
	Description    *string
	Labels         []string
}

func (d *definitionFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringArrayVar(&d.Crons, "cron", nil, "ticks of a cron expression, such as '30 2 * * MON-FRI' or @daily; may be repeated")
	set.DurationSliceVar(&d.Every, "every", nil, "a tick each time this much has passed, such as 10s; may be repeated")
	flags.String(set, &d.Timezone, "timezone", "the IANA zone of the cron expressions and exclusions, such as Europe/Berlin (default UTC)")
	flags.String(set, &d.StartAt, "start-at", "no tick before this time; intervals are counted from it. Without an offset, it is in the zone of --timezone, else local")
	flags.String(set, &d.EndAt, "end-at", "no tick after this time; without an offset as --start-at")
	flags.Int(set, &d.MaxRuns, "max-runs", "how many ticks may run, before the schedule ends")
	flags.Duration(set, &d.Jitter, "jitter", "each task is due up to this much after its tick")
	set.StringArrayVar(&d.Exclude, "exclude", nil, "no run on this date (2026-12-25), in this range (2026-12-24/2027-01-02), or at this cron expression; may be repeated")
	flags.String(set, &d.Misfire, "misfire", "which ticks run that are late or fell into a pause: skip (none), once (the newest) or all")
	flags.Duration(set, &d.MisfireWindow, "misfire-window", "how late a tick may be and still run")
	flags.Int(set, &d.MisfireMax, "misfire-max", "with --misfire all: how many run at most")
	flags.String(set, &d.Overlap, "overlap", "what a tick does while a task of the schedule has not ended: allow, skip, queue or replace")
	flags.Int(set, &d.PauseOnFailure, "pause-on-failure", "pause after this many tasks have failed one after the other")
	flags.Bool(set, &d.Paused, "paused", "pause it, or with --paused=false, do not (default: a schedule stays as it is)")
	flags.String(set, &d.Owner, "owner", "who is responsible for the schedule")
	flags.String(set, &d.Description, "description", "what it is for")
	set.StringArrayVar(&d.Labels, "label", nil, "a label of the schedule, as NAME=VALUE; may be repeated")
	command.Complete(cmd, "misfire", "skip", "once", "all")
	command.Complete(cmd, "overlap", "allow", "skip", "queue", "replace")
}

// definition returns the schedule as the API takes it.
func (d *definitionFlags) definition(times flags.Times, task wire.TaskTemplate) (wire.ScheduleDefinition, error) {
	definition := wire.ScheduleDefinition{
		Exclude: d.Exclude, Timezone: d.Timezone, MaxRuns: d.MaxRuns, Jitter: flags.DurationText(d.Jitter), Misfire: d.misfire(),
		Overlap: (*wire.Overlap)(d.Overlap), PauseOnFailure: d.PauseOnFailure, Paused: d.Paused, Owner: d.Owner,
		Description: d.Description, Task: task,
	}
	times = times.In(d.Timezone)
	var err error
	if definition.Labels, err = flags.Labels("--label", d.Labels); err != nil {
		return definition, err
	}
	if definition.StartAt, err = times.Time("--start-at", d.StartAt); err != nil {
		return definition, err
	}
	if definition.EndAt, err = times.Time("--end-at", d.EndAt); err != nil {
		return definition, err
	}
	return definition, d.addRules(&definition)
}

// addRules adds the rules that name the ticks: a single one by itself, several as a list.
func (d *definitionFlags) addRules(definition *wire.ScheduleDefinition) error {
	var rules []wire.ScheduleRule
	for _, cron := range d.Crons {
		rules = append(rules, wire.ScheduleRule{Cron: &cron})
	}
	for _, every := range d.Every {
		rules = append(rules, wire.ScheduleRule{Every: new(every.String())})
	}
	switch len(rules) {
	case 0:
		return command.Usagef("it would never tick: give --cron or --every")
	case 1:
		definition.Cron, definition.Every = rules[0].Cron, rules[0].Every
	default:
		definition.Specs = rules
	}
	return nil
}

// misfire returns the misfire policy, nil if no flag names it.
func (d *definitionFlags) misfire() *wire.Misfire {
	return flags.NilIfZero(wire.Misfire{
		Policy: (*wire.MisfirePolicy)(d.Misfire), Window: flags.DurationText(d.MisfireWindow), Max: d.MisfireMax,
	})
}
