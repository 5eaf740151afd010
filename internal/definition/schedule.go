package definition

import (
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Schedule is the schedule that somebody asks for, without a namespace. Package control checks which times and limits
// are possible. Error: CodeInvalid, with the fields.
func Schedule(in wire.ScheduleDefinition, id string) (schedule.Definition, error) {
	var r reader
	misfire := wire.Value(in.Misfire)
	d := schedule.Definition{
		Ref: task.Ref{ID: id},
		Spec: schedule.Spec{
			Rules:    r.rules(in),
			Exclude:  in.Exclude,
			Timezone: wire.Value(in.Timezone),
			StartAt:  Moment(wire.Value(in.StartAt)),
			EndAt:    Moment(wire.Value(in.EndAt)),
			Jitter:   r.duration("jitter", wire.Value(in.Jitter)),
		},
		MaxRuns: wire.Value(in.MaxRuns),
		Misfire: schedule.Misfire{
			Policy: schedule.MisfirePolicy(wire.Value(misfire.Policy)),
			Window: r.span("misfire.window", wire.Value(misfire.Window)), Max: wire.Value(misfire.Max),
		},
		Overlap:        schedule.Overlap(wire.Value(in.Overlap)),
		PauseOnFailure: wire.Value(in.PauseOnFailure),
		Owner:          wire.Value(in.Owner),
		Description:    wire.Value(in.Description),
		Labels:         wire.Value(in.Labels),
		Task:           r.template(in.Task),
	}
	return d, r.err
}

// rules reads which of the three ways to name times was taken, of which exactly one must be.
func (r *reader) rules(in wire.ScheduleDefinition) []schedule.Rule {
	cron, every := wire.Value(in.Cron), wire.Value(in.Every)
	given := map[string]bool{"cron": cron != "", "every": every != "", "specs": len(in.Specs) > 0}
	var names []string
	for _, name := range []string{"cron", "every", "specs"} {
		if given[name] {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 0:
		r.note(task.Invalid("cron", "is missing: give cron, every or specs"))
	case len(names) > 1:
		r.note(task.Invalid(names[1], "give %s or %s, not both", names[0], names[1]))
	case len(in.Specs) == 0:
		return []schedule.Rule{{Cron: cron, Every: r.every("every", every)}}
	}
	var rules []schedule.Rule
	for i, rule := range in.Specs {
		rules = append(rules, r.rule(fmt.Sprintf("specs[%d]", i), rule))
	}
	return rules
}

func (r *reader) rule(path string, in wire.ScheduleRule) schedule.Rule {
	cron, every := wire.Value(in.Cron), wire.Value(in.Every)
	switch {
	case cron == "" && every == "":
		r.note(task.Invalid(path, "give cron or every"))
	case cron != "" && every != "":
		r.note(task.Invalid(path+".every", "give cron or every, not both"))
	}
	return schedule.Rule{Cron: cron, Every: r.every(path+".every", every)}
}

// every reads the interval of a rule. An hour stands for one that cannot be read: else the rule would seem to have
// none.
func (r *reader) every(field, s string) time.Duration {
	d := r.span(field, s)
	if s != "" && d == 0 {
		return time.Hour
	}
	return d
}

// template reads the task of every tick; the fields of its errors are named as parts of the schedule.
func (r *reader) template(in wire.TaskTemplate) task.Definition {
	d, err := Task(wire.Submission{
		Type: in.Type, Queue: in.Queue, Payload: in.Payload, Timeout: in.Timeout, Retry: in.Retry, Retention: in.Retention,
		Owner: in.Owner, Labels: in.Labels, StartBy: in.StartBy, OnEnd: in.OnEnd,
		Priority: in.Priority, FairKey: in.FairKey, FairWeight: in.FairWeight, LimitKey: in.LimitKey, Cost: in.Cost,
		Slots: in.Slots, Select: in.Select, Prefer: in.Prefer, Route: in.Route,
	})
	r.note(schedule.InTask(err))
	return d
}

// WireSchedule is a definition as somebody could have sent it.
func WireSchedule(d schedule.Definition) wire.ScheduleDefinition {
	out := wire.ScheduleDefinition{
		Exclude: d.Exclude, Timezone: wire.Given(d.Timezone), StartAt: wire.AtIfAny(d.StartAt), EndAt: wire.AtIfAny(d.EndAt),
		MaxRuns: wire.Given(d.MaxRuns), Jitter: Span(d.Jitter), Overlap: wire.Given(wire.Overlap(d.Overlap)),
		PauseOnFailure: wire.Given(d.PauseOnFailure), Owner: wire.Given(d.Owner), Description: wire.Given(d.Description),
		Labels: wire.LabelsOf(d.Labels), Task: templateOf(d.Task), Misfire: wire.Given(wire.Misfire{
			Policy: wire.Given(wire.MisfirePolicy(d.Misfire.Policy)), Window: Span(d.Misfire.Window),
			Max: wire.Given(d.Misfire.Max),
		}),
	}
	var rules []wire.ScheduleRule
	for _, r := range d.Rules {
		rules = append(rules, ruleOf(r))
	}
	if len(rules) == 1 {
		out.Cron, out.Every = rules[0].Cron, rules[0].Every
	} else {
		out.Specs = rules
	}
	return out
}

func ruleOf(r schedule.Rule) wire.ScheduleRule {
	return wire.ScheduleRule{Cron: wire.Given(r.Cron), Every: Span(r.Every)}
}

func templateOf(d task.Definition) wire.TaskTemplate {
	selector, prefer, route, slots := Reach(d)
	return wire.TaskTemplate{
		Type: d.Type, Queue: wire.Given(d.Queue), Payload: d.Payload, Timeout: Span(d.Timeout), Retention: Span(d.Retention),
		Owner: wire.Given(d.Owner), Labels: wire.LabelsOf(d.Labels), Retry: Retry(d.Retry),
		StartBy: Span(d.StartBy), OnEnd: FollowUp(d.OnEnd),
		Priority: wire.Given(d.Priority), FairKey: wire.Given(d.FairKey), FairWeight: wire.Given(d.FairWeight),
		LimitKey: wire.Given(d.LimitKey), Cost: wire.Given(d.Cost), Slots: slots, Select: selector, Prefer: prefer,
		Route: route,
	}
}
