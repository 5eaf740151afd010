package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// scheduleDefinitionOf is the schedule a PUT asks for, except for its namespace (see callerIn). Package control checks
// which times and limits are possible.
func scheduleDefinitionOf(in wire.ScheduleDefinition, id string) (schedule.Definition, error) {
	var r reader
	misfire := wire.Value(in.Misfire)
	d := schedule.Definition{
		Ref: task.Ref{ID: id},
		Spec: schedule.Spec{
			Rules:    r.rules(in),
			Exclude:  in.Exclude,
			Timezone: wire.Value(in.Timezone),
			StartAt:  momentOf(wire.Value(in.StartAt)),
			EndAt:    momentOf(wire.Value(in.EndAt)),
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
		return []schedule.Rule{{Cron: cron, Every: r.span("every", every)}}
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
	return schedule.Rule{Cron: cron, Every: r.span(path+".every", every)}
}

// template reads the task of every tick; the fields of its errors are named as parts of the schedule.
func (r *reader) template(in wire.TaskTemplate) task.Definition {
	d, err := DefinitionOf(wire.Submission{
		Type: in.Type, Queue: in.Queue, Payload: in.Payload, Timeout: in.Timeout, Retry: in.Retry, Retention: in.Retention,
		Owner: in.Owner, Labels: in.Labels,
	})
	r.note(schedule.InTask(err))
	return d
}

// matchOf reads an If-Match of which the document has checked the form: the revision, 0 for none in particular. exists
// says that there must be a revision, whichever it is.
func matchOf(tag wire.IfMatch) (revision int, exists bool) {
	revision, _ = strconv.Atoi(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
	return revision, tag == "*"
}

// labelsOf reads selectors of the form name=value.
func labelsOf(selectors []wire.LabelSelector) (map[string]string, error) {
	if len(selectors) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(selectors))
	for _, selector := range selectors {
		name, value, _ := strings.Cut(selector, "=")
		if before, given := labels[name]; given && before != value {
			return nil, task.Invalid("label", "%q cannot be %q and %q", name, before, value)
		}
		labels[name] = value
	}
	return labels, nil
}

// scheduleOf is a schedule as the API shows it: what was said, without the defaults, so that it can be edited and
// sent again.
func scheduleOf(s schedule.Schedule) wire.Schedule {
	d := saidOf(s.Definition)
	next, _ := s.NextTick() // zero, and so left out, if there is none
	return wire.Schedule{
		ID:             s.ID,
		Namespace:      s.Namespace,
		Cron:           d.Cron,
		Every:          d.Every,
		Specs:          d.Specs,
		Exclude:        d.Exclude,
		Timezone:       d.Timezone,
		StartAt:        d.StartAt,
		EndAt:          d.EndAt,
		MaxRuns:        d.MaxRuns,
		Jitter:         d.Jitter,
		Misfire:        d.Misfire,
		Overlap:        d.Overlap,
		PauseOnFailure: d.PauseOnFailure,
		Owner:          d.Owner,
		Description:    d.Description,
		Labels:         d.Labels,
		Task:           d.Task,
		Revision:       s.Revision,
		CreatedAt:      wire.At(s.CreatedAt),
		UpdatedAt:      wire.At(s.UpdatedAt),
		UpdatedBy:      wire.Given(s.By),
		Cursor:         wire.At(s.Cursor),
		NextAt:         wire.AtIfAny(next),
		Paused:         !s.PausedAt.IsZero(),
		PausedAt:       wire.AtIfAny(s.PausedAt),
		PausedBy:       wire.Given(s.PausedBy),
		PauseNote:      wire.Given(s.PauseNote),
		AfterPause:     wire.Given(afterPause(s)),
		EndedAt:        wire.AtIfAny(s.EndedAt),
		Runs:           s.Runs,
		Failures:       s.Failures,
		Live:           s.Live,
		Waiting:        s.Waiting,
		Conditions:     each(s.Conditions, func(c schedule.Condition) wire.ScheduleCondition { return wire.ScheduleCondition(c) }),
		LastRun:        lastRunOf(s),
		LastMissed:     missedOf(s.LastMissed),
		LastSuccessAt:  wire.AtIfAny(s.Track.SucceededAt),
		Recent:         each(s.Recent, tickResultOf(s.ID)),
		Days:           each(s.Track.Days, dayOf),
	}
}

// lastRunOf is the run of a schedule that ended last; nil if none is known.
func lastRunOf(s schedule.Schedule) *wire.LastRun {
	e, ok := s.Track.LastEnd()
	if !ok {
		return nil
	}
	run := wire.LastRun{
		Task: s.ID + "@" + e.Name, Tick: wire.At(e.Tick), Outcome: wire.LastRunOutcome(e.State), Attempts: e.Attempts,
		StartedAt: wire.AtIfAny(e.StartedAt()), EndedAt: wire.At(e.At),
	}
	if e.Ran {
		run.DurationMs = new(e.Took.Milliseconds())
	}
	return &run
}

// missedOf is a tick that was missed; nil for none.
func missedOf(e schedule.Entry) *wire.MissedTick {
	if e.Tick.IsZero() {
		return nil
	}
	return &wire.MissedTick{Tick: wire.At(e.Tick), Reason: wire.Given(e.Reason), DecidedAt: wire.AtIfAny(e.DecidedAt)}
}

func tickResultOf(id string) func(schedule.TickResult) wire.TickResult {
	return func(r schedule.TickResult) wire.TickResult {
		out := wire.TickResult{Tick: wire.At(r.Tick), Result: wire.RunResult(r.Result), Attempts: wire.Given(r.Attempts)}
		if r.HasTask {
			out.Task = new(id + "@" + r.Name)
		}
		switch {
		case r.Manual:
			out.By = new(wire.TickResultByTrigger)
		case r.Backfill:
			out.By = new(wire.TickResultByBackfill)
		}
		if took, known := r.Took(); known {
			out.DurationMs = new(took.Milliseconds())
		}
		return out
	}
}

func dayOf(d schedule.Day) wire.TickDay {
	return wire.TickDay{
		Date: d.Date.Format(time.DateOnly), Succeeded: d.Counts[schedule.ResultSucceeded], Failed: d.Counts[schedule.ResultFailed],
		Cancelled: d.Counts[schedule.ResultCancelled], Missed: d.Counts[schedule.ResultMissed],
		SkippedOverlap: d.Counts[schedule.ResultSkipped], Excluded: d.Counts[schedule.ResultExcluded],
		Replaced: d.Counts[schedule.ResultReplaced],
	}
}

// afterPause says what becomes of the ticks of a pause; "" for a schedule that is not paused.
func afterPause(s schedule.Schedule) string {
	if s.PausedAt.IsZero() {
		return ""
	}
	return s.Misfire.AfterPause()
}

// saidOf is a definition as somebody could have sent it.
func saidOf(d schedule.Definition) wire.ScheduleDefinition {
	out := wire.ScheduleDefinition{
		Exclude: d.Exclude, Timezone: wire.Given(d.Timezone), StartAt: wire.AtIfAny(d.StartAt), EndAt: wire.AtIfAny(d.EndAt),
		MaxRuns: wire.Given(d.MaxRuns), Jitter: spanOf(d.Jitter), Overlap: wire.Given(wire.Overlap(d.Overlap)),
		PauseOnFailure: wire.Given(d.PauseOnFailure), Owner: wire.Given(d.Owner), Description: wire.Given(d.Description),
		Labels: wire.LabelsOf(d.Labels), Task: templateOf(d.Task), Misfire: wire.Given(wire.Misfire{
			Policy: wire.Given(wire.MisfirePolicy(d.Misfire.Policy)), Window: spanOf(d.Misfire.Window), Max: wire.Given(d.Misfire.Max),
		}),
	}
	rules := each(d.Rules, ruleOf)
	if len(rules) == 1 {
		out.Cron, out.Every = rules[0].Cron, rules[0].Every
	} else {
		out.Specs = rules
	}
	return out
}

func ruleOf(r schedule.Rule) wire.ScheduleRule {
	return wire.ScheduleRule{Cron: wire.Given(r.Cron), Every: spanOf(r.Every)}
}

func templateOf(d task.Definition) wire.TaskTemplate {
	return wire.TaskTemplate{
		Type: d.Type, Queue: wire.Given(d.Queue), Payload: d.Payload, Timeout: spanOf(d.Timeout), Retention: spanOf(d.Retention),
		Owner: wire.Given(d.Owner), Labels: wire.LabelsOf(d.Labels), Retry: retryOf(d.Retry),
	}
}
