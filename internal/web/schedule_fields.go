package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/task"
)

// A new schedule may be typed into fields. They make the text that somebody could have written instead: that text is
// checked and put.

// scheduleForm is a new schedule in fields. Fields have the names that the API has, without "task." before them.
type scheduleForm struct {
	payloadForm
	When    []formField
	Further []formField
}

const newSchedulePath = "/schedules/new"

// inFields reports whether a new schedule comes, or is to come, in fields.
func (v *visit) inFields() bool {
	return v.param("id") == "" && !v.form.Has("text") && (v.form != nil || v.query.Get("as") != asYAML)
}

// scheduleForm is what the page shows of a schedule in fields, given the types that nodes run besides.
func (v *visit) scheduleForm(types []string) *scheduleForm {
	first := map[string]string{"namespace": v.namespaceOfNew(), "timezone": v.zone.String()}
	f := scheduleForm{payloadForm: v.payloadForm(task.Task{}, types, first)}
	f.When = v.fields([]formField{
		{Name: "id", Label: v.T("Id"), Hint: "daily-report", Required: true, Wide: true},
		{Name: "every", Label: v.T("Every"), Hint: "5m"},
		{Name: "cron", Label: v.T("Or by cron"), Hint: "0 9 * * MON-FRI"},
		{Name: "timezone", Label: v.T("Time zone"), Hint: "UTC"},
		{Name: "queue", Label: v.T("Queue"), Hint: task.DefaultQueue},
		{Name: "namespace", Label: v.T("Namespace"), Hint: task.DefaultNamespace},
	}, first)
	f.Further = v.fields(v.scheduleFurther(), first)
	return &f
}

// scheduleFurther are the fields of a new schedule that few need.
func (v *visit) scheduleFurther() []formField {
	fields := []formField{
		{Name: "overlap", Label: v.T("If the run before has not ended"), Hint: "skip, queue, allow, replace"},
		{Name: "misfire.policy", Label: v.T("If ticks were missed"), Hint: "once, skip, all"},
	}
	further := slices.Concat(v.attemptFields(), []formField{v.ownerField()}, v.precedenceFields(), v.reachFields())
	return append(slices.Concat(fields, further), v.followUpField())
}

// namespaceOfNew is the namespace of what is new, unless the reader says another one.
func (v *visit) namespaceOfNew() string {
	if v.Namespace == control.EveryNamespace {
		return task.DefaultNamespace
	}
	return v.Namespace
}

// typedText is the text of the schedule that was typed into fields. Error: CodeInvalid.
func (v *visit) typedText() (string, error) {
	d, err := v.typedDocument()
	if err != nil {
		return "", err
	}
	return d.Text()
}

// typedDocument is the document of typedText.
func (v *visit) typedDocument() (d manifest.Document, _ error) {
	get := func(name string) string { return strings.TrimSpace(v.form.Get(name)) }
	payload, err := v.payloadTyped(get("type"), v.form)
	if err != nil {
		return d, err
	}
	var precedence task.Definition
	if err := v.setPrecedence(&precedence, get); err != nil {
		return d, err
	}
	reach, err := v.reachOf(get)
	if err != nil {
		return d, err
	}
	s := manifest.Schedule{ID: get("id"), ScheduleDefinition: wire.ScheduleDefinition{
		Cron: wire.Given(get("cron")), Every: wire.Given(get("every")), Timezone: wire.Given(get("timezone")),
		Owner: wire.Given(get("owner")), Overlap: wire.Given(wire.Overlap(get("overlap"))),
		Task: wire.TaskTemplate{
			Type: get("type"), Queue: wire.Given(get("queue")), Payload: payload, Timeout: wire.Given(get("timeout")),
			Retention: wire.Given(get("retention")), StartBy: wire.Given(get("start_by")),
			Priority: wire.Given(precedence.Priority), FairKey: wire.Given(precedence.FairKey),
			FairWeight: wire.Given(precedence.FairWeight), LimitKey: wire.Given(precedence.LimitKey),
			Cost: wire.Given(precedence.Cost), Slots: reach.Slots,
			Select: reach.Select, Prefer: reach.Prefer, Route: reach.Route,
		},
	}}
	if policy := get("misfire.policy"); policy != "" {
		s.Misfire = &wire.Misfire{Policy: new(wire.MisfirePolicy(policy))}
	}
	if s.Task.Retry, err = v.typedRetry(get("retry.max_attempts"), get("retry.delays")); err != nil {
		return d, err
	}
	if s.Task.OnEnd, err = v.typedFollowUp(get("on_end")); err != nil {
		return d, err
	}
	return manifest.Document{Namespace: get("namespace"), Schedules: []manifest.Schedule{s}}, nil
}

// typedRetry is how often a task of a schedule is tried, and the waits between; nil for the defaults. Error:
// CodeInvalid.
func (v *visit) typedRetry(attempts, delays string) (*wire.Retry, error) {
	var typed task.Retry
	if err := v.setRetry(&typed, attempts, delays); err != nil {
		return nil, err
	}
	if typed.MaxAttempts == 0 && len(typed.Delays) == 0 {
		return nil, nil
	}
	return &wire.Retry{MaxAttempts: wire.Given(typed.MaxAttempts), Delays: wordsOf(delays)}, nil
}

// readFields makes the text of what was typed into fields. What is wrong with a field is no error, but a fault.
func (e *scheduleEdit) readFields(v *visit) (err error) {
	var invalid *task.Error
	if e.Text, err = v.typedText(); errors.As(err, &invalid) {
		e.Faults = manifest.Faults{{Field: invalid.Field, Text: invalid.Message}}
		return nil
	}
	return err
}

// showFields shows the schedule in fields, unless it is written as text. What is wrong with the text is said of the
// fields that made it.
func (e *scheduleEdit) showFields(ctx context.Context, v *visit) error {
	if !v.inFields() {
		return nil
	}
	nodes, err := v.site.Control.ListNodes(ctx, v.who)
	if err != nil {
		return err
	}
	var invalid []edge.Invalid
	for _, f := range e.Faults {
		name := strings.TrimPrefix(strings.TrimPrefix(f.Field, "schedules[0]."), "task.")
		switch every, cron := v.first("every") != "", v.first("cron") != ""; {
		case name == "cron" && !every && !cron:
			name, f.Text = "every", v.invalid("", v.T("give an interval, as in 5m, or a cron expression")).Message
		case name == "every" && every && cron:
			f.Text = v.invalid("", v.T("give an interval or a cron expression, not both")).Message
		}
		invalid = append(invalid, edge.Invalid{Field: name, Detail: manifest.Fault{Field: name, Text: f.Text}.Message()})
	}
	if len(invalid) > 0 {
		v.problem = &edge.Problem{Status: http.StatusUnprocessableEntity, Errors: invalid}
	}
	e.Form = v.scheduleForm(typesOf(nodes))
	for i, one := range invalid {
		e.Faults[i] = manifest.Fault{Text: v.named(one.Detail, one.Field)}
	}
	return nil
}
