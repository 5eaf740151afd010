package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// checkedTicks is how many of the next ticks a check shows.
const checkedTicks = 10

// scheduleEdit is what the page shows on which a schedule is written. Its text stays as it was sent, whatever the
// answer.
type scheduleEdit struct {
	Ref      task.Ref // of the schedule; the zero value for a new one
	Revision int      // that is in force, and is replaced; 0 for a new one
	Text     string
	Form     *scheduleForm // nil if it is written as text
	Faults   manifest.Faults
	Wrong    string // what else is wrong
	Exists   bool   // it is wrong because another schedule has the id
	Meantime bool   // somebody has put another revision since the text was read
	Changed  bool   // it was to be put, and is not what was checked
	Valid    bool
	Put      control.Put // what putting it would do
	Same     bool        // it changes nothing
	Changes  []manifest.Change
	Words    []string // when it ticks
	Coming   []comingTick
	Change   *clockChange

	before     schedule.Schedule   // that is in force; the zero value for a new one
	definition schedule.Definition // that the text has
	options    control.PutOptions  // with which the text is put
	refusal    error               // of putting it; nil for none, or if the text cannot be read
}

// Can reports whether the form, sent again, puts the schedule.
func (e *scheduleEdit) Can(string) bool { return e.Valid && !e.Same }

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

func readScheduleEdit(ctx context.Context, v *visit) (any, string, error) {
	e, err := v.scheduleEdit(ctx)
	if err == nil {
		err = e.showFields(ctx, v)
	}
	switch {
	case err != nil:
		return nil, "", err
	case e.Revision == 0:
		return e, string(v.T("New schedule")), nil
	}
	return e, string(v.T("Edit")) + " " + e.Ref.ID, nil
}

// bareScheduleEdit shows a form while Redis does not answer, unless it is to have a schedule that is there.
func bareScheduleEdit(v *visit) (any, string) {
	e := &scheduleEdit{Text: v.text(), Revision: v.revisionRead()}
	switch {
	case v.form == nil && v.param("id") != "":
		return nil, ""
	case v.inFields():
		e.Form = v.scheduleForm(nil)
	case v.form == nil:
		e.beginNew(v)
	}
	if e.Revision == 0 {
		return e, string(v.T("New schedule"))
	}
	e.Ref = task.Ref{Namespace: v.param("namespace"), ID: v.param("id")}
	return e, string(v.T("Edit")) + " " + e.Ref.ID
}

// text is the text that a form has, with the ends of lines that it had before a browser sent it.
func (v *visit) text() string { return strings.ReplaceAll(v.form.Get("text"), "\r\n", "\n") }

// revisionRead is the revision that was in force when the text of a form was read; 0 for none.
func (v *visit) revisionRead() int {
	n, _ := strconv.Atoi(v.form.Get("revision"))
	return n
}

// scheduleEdit reads the schedule that the path names, if it names one, and checks the text if a form was sent. The
// text of a schedule that was deleted meanwhile is that of a new one.
func (v *visit) scheduleEdit(ctx context.Context) (e *scheduleEdit, err error) {
	e = &scheduleEdit{}
	if id := v.param("id"); id != "" {
		v.who = v.ofPath()
		e.before, err = v.site.Control.GetSchedule(ctx, v.who, id)
		if err != nil && (v.form == nil || edge.CodeOf(err) != schedule.CodeNotFound) {
			return nil, err
		}
		e.Ref, e.Revision = e.before.Ref, e.before.Revision
	}
	switch {
	case v.reshaped:
		e.Text = v.text()
		return e, nil
	case v.form != nil:
		return e, e.check(ctx, v)
	}
	return e, e.begin(v)
}

// begin sets the text with which a reader begins.
func (e *scheduleEdit) begin(v *visit) error {
	if e.Revision > 0 {
		d, err := manifest.DocumentOf(e.before.Definition, !e.before.PausedAt.IsZero())
		if err == nil {
			e.Text, err = d.Text()
		}
		return err
	}
	e.beginNew(v)
	return nil
}

// beginNew sets the text with which a new schedule begins.
func (e *scheduleEdit) beginNew(v *visit) {
	e.Text = v.firstText()
}

// Checked is a digest of what the page shows the check of. Only that can be put.
func (e *scheduleEdit) Checked() string {
	sum := sha256.Sum256([]byte(e.Text))
	return hex.EncodeToString(sum[:12])
}

// check reads the text that was sent, and finds out what putting it would do. What is wrong with it is no error: the
// page says it, and has another status.
func (e *scheduleEdit) check(ctx context.Context, v *visit) error {
	defer func() {
		if len(e.Faults) > 0 || e.Wrong != "" {
			v.status = http.StatusUnprocessableEntity
		}
	}()
	e.Text = v.text()
	if v.inFields() {
		if err := e.readFields(v); err != nil || len(e.Faults) > 0 {
			return err
		}
	}
	e.Meantime = v.revisionRead() != e.Revision
	e.Changed = v.form.Get("do") == doPut && v.form.Get("checked") != e.Checked()
	entry, err := e.read(v)
	if entry == nil || err != nil {
		return err
	}
	dry := e.options
	dry.DryRun = true
	if e.Put, e.refusal = e.put(ctx, v, dry); e.refusal != nil {
		return e.refuse(entry, e.refusal)
	}
	e.Valid, e.Same = true, !e.Put.Changed && !e.Put.Switched
	return e.tell(v)
}

// read reads the text. It returns no entry if something is wrong with it.
func (e *scheduleEdit) read(v *visit) (*manifest.Entry, error) {
	fallback := cmp.Or(v.param("namespace"), task.DefaultNamespace)
	m, err := manifest.Read([]manifest.Source{{Text: []byte(e.Text)}}, nil, manifest.Namespaces{Fallback: fallback})
	switch {
	case errors.As(err, &e.Faults):
		return nil, nil //nolint:nilnil // the page says what is wrong
	case err != nil || len(m.Schedules) != 1 || len(m.Tasks)+len(m.Workflows) > 0:
		e.Wrong = string(v.T("The text must have one schedule, and nothing else. Put several one after another, " +
			"or in a shell: dtsctl apply -f FILE."))
		return nil, nil //nolint:nilerr,nilnil // the page says it
	}
	entry := &m.Schedules[0]
	if e.Revision > 0 && (entry.ID != e.Ref.ID || entry.Namespace != e.Ref.Namespace) {
		stays := v.T("must stay %s in the namespace %s: a copy is a new schedule", e.Ref.ID, e.Ref.Namespace)
		e.Faults = manifest.Faults{entry.Fault("id", string(stays))}
		return nil, nil //nolint:nilnil // as above
	}
	d, paused, err := entry.Definition()
	if err != nil {
		return nil, e.refuse(entry, err)
	}
	e.definition, e.options = d, control.PutOptions{IfMatch: e.Revision, IfAbsent: e.Revision == 0}
	if is := paused != nil && *paused; is == e.before.PausedAt.IsZero() { // else it stays as it is
		e.options.Paused = &is
	}
	return entry, nil
}

// put puts the text that was read, or finds out what that would do.
func (e *scheduleEdit) put(ctx context.Context, v *visit, o control.PutOptions) (control.Put, error) {
	who := v.who
	who.Namespace = e.definition.Namespace
	return v.site.Control.PutSchedule(ctx, who, e.definition, o)
}

// The values of the buttons that check a schedule, and put it.
const (
	doCheck = "check"
	doPut   = "put"
)

// putSchedule is the action of the form on which a schedule is written. The form is shown again if the text was only to
// be checked or is not what was checked, if something is wrong with it, or if somebody has put another revision that
// the reader has not seen.
func putSchedule(ctx context.Context, v *visit, form url.Values) (result, error) {
	if form.Get("do") != doPut {
		return result{}, nil
	}
	e, err := v.scheduleEdit(ctx)
	if err != nil {
		return result{}, err
	}
	put, err := e.Put, e.refusal
	switch {
	case err != nil:
	case !e.Valid || (e.Meantime || e.Changed) && !e.Same:
		return result{}, nil
	default:
		put, err = e.put(ctx, v, e.options)
	}
	if edge.CodeOf(err) == schedule.CodeChanged { // by this form, if it was sent to two nodes
		put, err = e.put(ctx, v, control.PutOptions{DryRun: true})
		if put.Created || put.Changed {
			return result{}, err
		}
	}
	if refusalOf(err) != nil {
		return result{}, nil //nolint:nilerr // the page that is shown again says it
	}
	path := v.Path("schedules", e.definition.Namespace, e.definition.ID)
	return result{path: string(path), said: saidOf(put), n: put.Schedule.Revision}, err
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

// refuse notes why a text cannot be put, with the places of the fields that are invalid. It returns the error if that
// is no refusal.
func (e *scheduleEdit) refuse(entry *manifest.Entry, err error) error {
	invalid := refusalOf(err)
	switch {
	case invalid == nil:
		return err
	case invalid.Code != task.CodeInvalid:
		e.Wrong, e.Exists = invalid.Error(), invalid.Code == schedule.CodeChanged && e.options.IfAbsent
		return nil
	}
	for _, one := range append([]*task.Error{invalid}, invalid.Others...) {
		e.Faults = append(e.Faults, entry.Fault(one.Field, one.Message))
	}
	e.Faults = e.Faults.InOrder()
	return nil
}

// tell says what a valid text changes, and when it ticks.
func (e *scheduleEdit) tell(v *visit) (err error) {
	s := e.Put.Schedule
	e.Words = s.InWords()
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

// Named is the schedule that the text names.
func (e *scheduleEdit) Named() task.Ref { return e.definition.Ref }

// Place is where a fault is.
func (v *visit) Place(f manifest.Fault) string {
	switch {
	case f.Line == 0:
		return ""
	case f.Column == 0:
		return string(v.T("Line %d", f.Line))
	}
	return string(v.T("Line %d, column %d", f.Line, f.Column))
}
