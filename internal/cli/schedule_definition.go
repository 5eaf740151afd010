package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

// plan is what can be said about a schedule, beside what it runs. What was not said is left to the server.
type plan struct {
	crons, exclude []string
	every          []time.Duration
	timezone       string
	startAt, endAt string
	maxRuns        int
	jitter         time.Duration
	misfire        string
	window         time.Duration
	max            int
	overlap        string
	pauseOnFailure int
	paused         bool
	owner          string
	description    string
	labels         []string
}

func (p *plan) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&p.crons, "cron", nil, "ticks of a cron expression, such as '30 2 * * MON-FRI' or @daily; may be repeated")
	flags.DurationSliceVar(&p.every, "every", nil, "a tick each time so much has passed, such as 10s; may be repeated")
	flags.StringVar(&p.timezone, "timezone", "", "the IANA zone of the cron expressions and exclusions, such as Europe/Berlin (default UTC)")
	flags.StringVar(&p.startAt, "start-at", "", "no tick before this time; intervals are counted from it")
	flags.StringVar(&p.endAt, "end-at", "", "no tick after this time")
	flags.IntVar(&p.maxRuns, "max-runs", 0, "how many ticks may run, before the schedule ends")
	flags.DurationVar(&p.jitter, "jitter", 0, "each task is due up to this much after its tick")
	flags.StringArrayVar(&p.exclude, "exclude", nil, "no run on this date (2026-12-25), in this range (2026-12-24/2027-01-02), or at this cron expression; may be repeated")
	flags.StringVar(&p.misfire, "misfire", "", "what runs of the ticks that are late or fell into a pause: skip (none), once (the newest) or all")
	flags.DurationVar(&p.window, "misfire-window", 0, "how late a tick may be and still run")
	flags.IntVar(&p.max, "misfire-max", 0, "with --misfire all: how many run at most")
	flags.StringVar(&p.overlap, "overlap", "", "what a tick does while a task of the schedule has not ended: allow, skip, queue or replace")
	flags.IntVar(&p.pauseOnFailure, "pause-on-failure", 0, "pause after so many tasks in a row that failed")
	flags.BoolVar(&p.paused, "paused", false, "pause it, or with --paused=false, do not (default: a schedule stays as it is)")
	flags.StringVar(&p.owner, "owner", "", "who answers for the schedule")
	flags.StringVar(&p.description, "description", "", "what it is for")
	flags.StringArrayVar(&p.labels, "label", nil, "a label of the schedule, as NAME=VALUE; may be repeated")
	complete(cmd, "misfire", "skip", "once", "all")
	complete(cmd, "overlap", "allow", "skip", "queue", "replace")
}

// definition is the schedule as the API takes it.
func (p *plan) definition(s *session, flags *pflag.FlagSet, task client.TaskTemplate) (client.ScheduleDefinition, error) {
	d := client.ScheduleDefinition{
		Exclude: p.exclude, Timezone: given(flags, "timezone", p.timezone), MaxRuns: given(flags, "max-runs", p.maxRuns),
		Jitter: given(flags, "jitter", p.jitter.String()), Misfire: p.misfires(flags),
		Overlap: (*client.Overlap)(given(flags, "overlap", p.overlap)), PauseOnFailure: given(flags, "pause-on-failure", p.pauseOnFailure),
		Paused: given(flags, "paused", p.paused), Owner: given(flags, "owner", p.owner),
		Description: given(flags, "description", p.description), Task: task,
	}
	labels, err := pairs("--label", "=", p.labels)
	if err != nil {
		return d, err
	}
	d.Labels = (*client.Labels)(labels)
	if d.StartAt, err = s.timeFrom(flags, "start-at", p.startAt); err != nil {
		return d, err
	}
	if d.EndAt, err = s.timeFrom(flags, "end-at", p.endAt); err != nil {
		return d, err
	}
	return d, p.sayWhen(&d)
}

// sayWhen names the ticks: a single rule by itself, several as a list.
func (p *plan) sayWhen(d *client.ScheduleDefinition) error {
	for _, cron := range p.crons {
		d.Specs = append(d.Specs, client.ScheduleRule{Cron: &cron})
	}
	for _, every := range p.every {
		d.Specs = append(d.Specs, client.ScheduleRule{Every: new(every.String())})
	}
	switch len(d.Specs) {
	case 0:
		return usagef("it would never tick: give --cron or --every")
	case 1:
		d.Cron, d.Every, d.Specs = d.Specs[0].Cron, d.Specs[0].Every, nil
	}
	return nil
}

func (p *plan) misfires(flags *pflag.FlagSet) *client.Misfire {
	m := client.Misfire{
		Policy: (*client.MisfirePolicy)(given(flags, "misfire", p.misfire)),
		Window: given(flags, "misfire-window", p.window.String()),
		Max:    given(flags, "misfire-max", p.max),
	}
	if m == (client.Misfire{}) {
		return nil
	}
	return &m
}
