package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// scheduleDefinitionOf is the schedule a PUT asks for, except for its namespace (see callerIn). Package control checks
// which times and limits are possible.
func scheduleDefinitionOf(in ScheduleDefinition, id string) (schedule.Definition, error) {
	var r reader
	d := schedule.Definition{
		Ref: task.Ref{ID: id},
		Spec: schedule.Spec{
			Rules:    r.rules(in),
			Exclude:  in.Exclude,
			Timezone: in.Timezone,
			StartAt:  r.time("start_at", in.StartAt),
			EndAt:    r.time("end_at", in.EndAt),
			Jitter:   r.duration("jitter", in.Jitter),
		},
		MaxRuns: in.MaxRuns,
		Misfire: schedule.Misfire{
			Policy: schedule.MisfirePolicy(in.Misfire.Policy), Window: r.span("misfire.window", in.Misfire.Window), Max: in.Misfire.Max,
		},
		Overlap:        schedule.Overlap(in.Overlap),
		PauseOnFailure: in.PauseOnFailure,
		Owner:          in.Owner,
		Description:    in.Description,
		Labels:         in.Labels,
		Task:           r.template(in.Task),
	}
	return d, r.err
}

// rules reads which of the three ways to name times was taken, of which exactly one must be.
func (r *reader) rules(in ScheduleDefinition) []schedule.Rule {
	given := map[string]bool{"cron": in.Cron != "", "every": in.Every != "", "specs": len(in.Specs) > 0}
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
		return []schedule.Rule{{Cron: in.Cron, Every: r.span("every", in.Every)}}
	}
	var rules []schedule.Rule
	for i, rule := range in.Specs {
		rules = append(rules, r.rule(fmt.Sprintf("specs[%d]", i), rule))
	}
	return rules
}

func (r *reader) rule(path string, in ScheduleRule) schedule.Rule {
	switch {
	case in.Cron == "" && in.Every == "":
		r.note(task.Invalid(path, "give cron or every"))
	case in.Cron != "" && in.Every != "":
		r.note(task.Invalid(path+".every", "give cron or every, not both"))
	}
	return schedule.Rule{Cron: in.Cron, Every: r.span(path+".every", in.Every)}
}

// template reads the task of every tick; the fields of its errors are named as parts of the schedule.
func (r *reader) template(in TaskTemplate) task.Definition {
	var inner reader
	d := task.Definition{
		Type: in.Type, Queue: in.Queue, Payload: in.Payload, Timeout: inner.span("timeout", in.Timeout), Retry: inner.retry(in.Retry),
		Retention: inner.span("retention", in.Retention), Owner: in.Owner, Labels: in.Labels,
	}
	r.note(schedule.InTask(inner.err))
	return d
}

// matchOf reads an If-Match of which the document has checked the form: the revision, 0 for none in particular. exists
// says that there must be a revision, whichever it is.
func matchOf(tag IfMatch) (revision int, exists bool) {
	revision, _ = strconv.Atoi(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
	return revision, tag == "*"
}

// labelsOf reads selectors of the form name=value.
func labelsOf(selectors []LabelSelector) (map[string]string, error) {
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
func scheduleOf(s schedule.Schedule) Schedule {
	d := saidOf(s.Definition)
	next, _ := s.NextTick() // zero, and so left out, if there is none
	return Schedule{
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
		CreatedAt:      formatTime(s.CreatedAt),
		UpdatedAt:      formatTime(s.UpdatedAt),
		UpdatedBy:      s.By,
		Cursor:         formatTime(s.Cursor),
		NextAt:         formatTime(next),
		Paused:         !s.PausedAt.IsZero(),
		PausedAt:       formatTime(s.PausedAt),
		PausedBy:       s.PausedBy,
		PauseNote:      s.PauseNote,
		AfterPause:     afterPause(s),
		EndedAt:        formatTime(s.EndedAt),
		Runs:           s.Runs,
		Failures:       s.Failures,
		Live:           s.Live,
		Waiting:        s.Waiting,
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
func saidOf(d schedule.Definition) ScheduleDefinition {
	out := ScheduleDefinition{
		Exclude: d.Exclude, Timezone: d.Timezone, StartAt: formatTime(d.StartAt), EndAt: formatTime(d.EndAt),
		MaxRuns: d.MaxRuns, Jitter: formatSpan(d.Jitter), Overlap: Overlap(d.Overlap), PauseOnFailure: d.PauseOnFailure,
		Owner: d.Owner, Description: d.Description, Labels: d.Labels, Task: templateOf(d.Task),
		Misfire: Misfire{Policy: MisfirePolicy(d.Misfire.Policy), Window: formatSpan(d.Misfire.Window), Max: d.Misfire.Max},
	}
	rules := each(d.Rules, ruleOf)
	if len(rules) == 1 {
		out.Cron, out.Every = rules[0].Cron, rules[0].Every
	} else {
		out.Specs = rules
	}
	return out
}

func ruleOf(r schedule.Rule) ScheduleRule {
	return ScheduleRule{Cron: r.Cron, Every: formatSpan(r.Every)}
}

func templateOf(d task.Definition) TaskTemplate {
	return TaskTemplate{
		Type: d.Type, Queue: d.Queue, Payload: d.Payload, Timeout: formatSpan(d.Timeout), Retention: formatSpan(d.Retention),
		Owner: d.Owner, Labels: d.Labels, Retry: retryOf(d.Retry),
	}
}

// formatSpan is "" for a duration that nobody gave.
func formatSpan(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return formatDuration(d)
}
