package web

import (
	"context"
	"net/url"
	"strconv"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// checkedTicks is how many of the next ticks a check shows.
const checkedTicks = 10

// scheduleEdit is what the page shows on which a schedule is written.
type scheduleEdit struct {
	textEdit
	Form   *scheduleForm // nil if it is written as text
	Put    control.Put   // what putting it would do
	Words  []string      // when it ticks
	Coming []comingTick
	Change *clockChange

	before     schedule.Schedule   // that is in force; the zero value for a new one
	definition schedule.Definition // that the text has
}

// NextTicks is how many of the next ticks a check shows.
func (*scheduleEdit) NextTicks() int { return checkedTicks }

// firstText is what a new schedule begins with, given a namespace and a time zone: the fields of most schedules.
const firstText = `namespace: %s
schedules:
  - id: daily-report
    description: Asks for the report of the day
    cron: "0 9 * * MON-FRI"  # minute, hour, day, month, weekday; or each quarter of an hour: every: 15m
    timezone: %s
    task:
      type: http  # or shell, with a payload such as {command: [make, report]}
      payload:
        method: POST
        url: https://example.com/reports
        headers:
          Authorization: Bearer TOKEN
        body: {kind: daily}
      timeout: 1m
`

// newScheduleEdit is one whose text was not read yet.
func newScheduleEdit() *scheduleEdit {
	return &scheduleEdit{textEdit: textEdit{Kind: manifest.KindSchedule}}
}

func readScheduleEdit(ctx context.Context, v *visit) (any, string, error) {
	e := newScheduleEdit()
	err := v.open(ctx, e)
	if err == nil {
		err = e.showFields(ctx, v)
	}
	if err != nil {
		return nil, "", err
	}
	return e, e.title(v), nil
}

// bareScheduleEdit shows a form while Redis does not answer, unless it is to have a schedule that is there.
func bareScheduleEdit(v *visit) (any, string) {
	e := newScheduleEdit()
	if !v.bareEdit(e) {
		return nil, ""
	}
	if v.inFields() {
		e.Text, e.Form = v.text(), v.scheduleForm(nil)
	}
	return e, e.title(v)
}

// putSchedule is the action of the form on which a schedule is written.
func putSchedule(ctx context.Context, v *visit, _ url.Values) (result, error) {
	return v.putText(ctx, newScheduleEdit())
}

func (e *scheduleEdit) find(ctx context.Context, v *visit, id string) (task.Ref, int, error) {
	var err error
	e.before, err = v.site.Control.GetSchedule(ctx, v.who, id)
	return e.before.Ref, e.before.Revision, err
}

func (e *scheduleEdit) begin(v *visit) error {
	if e.Revision == 0 {
		e.Text = v.firstText()
		return nil
	}
	d, err := manifest.DocumentOf(e.before.Definition, !e.before.PausedAt.IsZero())
	if err == nil {
		e.Text, err = d.Text()
	}
	return err
}

func (e *scheduleEdit) check(ctx context.Context, v *visit) error {
	e.Text = v.text()
	if v.inFields() {
		if err := e.readFields(v); err != nil || len(e.Faults) > 0 {
			e.answerWrong(v)
			return err
		}
	}
	return v.checkText(ctx, e)
}

func (e *scheduleEdit) read(entry *manifest.Entry) error {
	d, paused, err := entry.Definition()
	e.definition = d
	if is := paused != nil && *paused; is == e.before.PausedAt.IsZero() { // else it stays as it is
		e.options.Paused = &is
	}
	return err
}

func (e *scheduleEdit) put(ctx context.Context, v *visit, o control.PutOptions) (outcome, error) {
	who := v.who
	who.Namespace = e.definition.Namespace
	put, err := v.site.Control.PutSchedule(ctx, who, e.definition, o)
	e.Put = put
	return outcome{put.Created, put.Changed, put.Switched, put.Schedule.Revision, saidOf(put)}, err
}

// saidOf is the key of the sentence that says what putting a schedule has done.
func saidOf(put control.Put) string {
	switch isPaused := !put.Schedule.PausedAt.IsZero(); {
	case put.Changed:
		return "put"
	case !put.Switched:
		return "put-before"
	case isPaused:
		return "paused"
	}
	return "resumed"
}

// tell says what a valid text changes, and when it ticks.
func (e *scheduleEdit) tell(v *visit) (err error) {
	s := e.Put.Schedule
	e.Words, e.Warnings = s.InWords(), e.Put.Warnings
	if e.Revision > 0 {
		if e.Changes, err = manifest.Differences(e.before.Definition, s.Definition); err != nil {
			return err
		}
		if e.Put.Switched {
			was, is := strconv.FormatBool(!e.before.PausedAt.IsZero()), strconv.FormatBool(!s.PausedAt.IsZero())
			e.Changes = append(e.Changes, manifest.Change{Name: "paused", Before: was, After: is})
		}
	}
	table, err := schedule.Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return err
	}
	after := v.now
	if s.CreatedAt.After(after) { // a new one ticks after its creation
		after = s.CreatedAt
	}
	e.Coming, e.Change = comingOf(table.NextTicks(after, checkedTicks))
	return nil
}
