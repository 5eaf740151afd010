package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// Schedules and workflows are written as text, on pages that check the text first. What was checked can be put, unless
// somebody has put another revision since the text was read.

// textEdit is what such a page shows of a text, whatever the text has. It stays as it was sent, whatever the answer.
type textEdit struct {
	Kind     string   // of what it has: manifest.KindSchedule or manifest.KindWorkflow
	Ref      task.Ref // of what is edited; the zero value for a new one
	Revision int      // that is in force, and is replaced; 0 for a new one
	Text     string
	Faults   manifest.Faults
	Wrong    string // what else is wrong
	Exists   bool   // it is wrong because something else has the id
	Meantime bool   // somebody has put another revision since the text was read
	Changed  bool   // it was to be put, and is not what was checked
	Valid    bool
	Outcome  outcome // of putting it
	Same     bool    // it changes nothing
	Changes  []manifest.Change
	Cut      bool // there are more of these
	Warnings []string

	named   task.Ref           // what the text names
	options control.PutOptions // with which the text is put
	refusal error              // of putting it; nil for none, or if the text cannot be read
}

// outcome is what came of putting a text or, after a dry run, what would come of it.
type outcome struct {
	Created, Changed bool
	Switched         bool // it was paused, or resumed
	Revision         int
	said             string // the key of the sentence that says it
}

// edited is what a textEdit has.
type edited interface {
	edit() *textEdit
	// find reads what has the id of the path, which is in force. Errors: those of the use case.
	find(ctx context.Context, v *visit, id string) (task.Ref, int, error)
	// begin sets the text with which a reader begins.
	begin(v *visit) error
	// check checks the text that was sent.
	check(ctx context.Context, v *visit) error
	// read reads the definition of an entry. Error: CodeInvalid.
	read(entry *manifest.Entry) error
	// put puts what was read, or finds out what that would do.
	put(ctx context.Context, v *visit, o control.PutOptions) (outcome, error)
	// tell says what a valid text changes, and what follows.
	tell(v *visit) error
}

// The values of the buttons that check a text, and put it.
const (
	doCheck = "check"
	doPut   = "put"
)

// Can reports whether the form, sent again, puts the text.
func (e *textEdit) Can(string) bool { return e.Valid && !e.Same }

// Named is what the text names.
func (e *textEdit) Named() task.Ref { return e.named }

// List is the first part of the paths of what the text has.
func (e *textEdit) List() string { return e.Kind + "s" }

// Checked is a digest of what the page shows the check of. Only that can be put.
func (e *textEdit) Checked() string {
	sum := sha256.Sum256([]byte(e.Text))
	return hex.EncodeToString(sum[:12])
}

// edit returns e, for what embeds it.
func (e *textEdit) edit() *textEdit { return e }

// title is that of the page.
func (e *textEdit) title(v *visit) string {
	switch {
	case e.Revision > 0:
		return string(v.T("Edit")) + " " + e.Ref.ID
	case e.Kind == manifest.KindWorkflow:
		return string(v.T("New workflow"))
	}
	return string(v.T("New schedule"))
}

// DeletedMeantime says that there is nothing any more that the text could change.
func (v *visit) DeletedMeantime(kind string) template.HTML {
	if kind == manifest.KindWorkflow {
		return v.T("Somebody has deleted the workflow meanwhile. What you put creates it anew.")
	}
	return v.T("Somebody has deleted the schedule meanwhile. What you put creates it anew.")
}

// text is the text that a form has, with the ends of lines that it had before a browser sent it.
func (v *visit) text() string { return strings.ReplaceAll(v.form.Get("text"), "\r\n", "\n") }

// revisionRead is the revision that was in force when the text of a form was read; 0 for none.
func (v *visit) revisionRead() int {
	n, _ := strconv.Atoi(v.form.Get("revision"))
	return n
}

// open reads what the path names, if it names something, and checks the text if a form was sent. The text of what was
// deleted meanwhile is that of a new one.
func (v *visit) open(ctx context.Context, of edited) (err error) {
	e := of.edit()
	if id := v.param("id"); id != "" {
		v.who = v.ofPath()
		e.Ref, e.Revision, err = of.find(ctx, v, id)
		if gone := isGone(err); err != nil && (v.form == nil || !gone) {
			return err
		}
	}
	switch {
	case v.reshaped:
		e.Text = v.text()
		return nil
	case v.form != nil:
		return of.check(ctx, v)
	}
	return of.begin(v)
}

// isGone reports whether there is no schedule, or workflow, with an id.
func isGone(err error) bool {
	code := edge.CodeOf(err)
	return code == schedule.CodeNotFound || code == workflow.CodeNotFound
}

// isChanged reports whether somebody else has put, created or deleted something since it was read.
func isChanged(err error) bool {
	code := edge.CodeOf(err)
	return code == schedule.CodeChanged || code == workflow.CodeChanged
}

// bareEdit sets what a form shows while Redis does not answer. It returns false if the form is to have what is there.
func (v *visit) bareEdit(of edited) bool {
	e := of.edit()
	e.Text, e.Revision = v.text(), v.revisionRead()
	if e.Revision > 0 {
		e.Ref = task.Ref{Namespace: v.param("namespace"), ID: v.param("id")}
	}
	if v.form != nil {
		return true
	}
	return v.param("id") == "" && of.begin(v) == nil
}

// answerWrong gives the page of a text that is wrong another status.
func (e *textEdit) answerWrong(v *visit) {
	if len(e.Faults) > 0 || e.Wrong != "" {
		v.status = http.StatusUnprocessableEntity
	}
}

// checkText reads the text, and finds out what putting it would do. What is wrong with it is no error: the page says
// it.
func (v *visit) checkText(ctx context.Context, of edited) error {
	e := of.edit()
	defer e.answerWrong(v)
	e.Meantime = v.revisionRead() != e.Revision
	e.Changed = v.form.Get("do") == doPut && v.form.Get("checked") != e.Checked()
	entry, err := v.readText(of)
	if entry == nil || err != nil {
		return err
	}
	dry := e.options
	dry.DryRun = true
	if e.Outcome, e.refusal = of.put(ctx, v, dry); e.refusal != nil {
		return e.refuse(entry, e.refusal)
	}
	e.Valid, e.Same = true, !e.Outcome.Changed && !e.Outcome.Switched
	return of.tell(v)
}

// readText reads the text. It returns no entry if something is wrong with it.
func (v *visit) readText(of edited) (*manifest.Entry, error) {
	e := of.edit()
	fallback := cmp.Or(v.param("namespace"), task.DefaultNamespace)
	m, err := manifest.Read([]manifest.Source{{Text: []byte(e.Text)}}, nil, manifest.Namespaces{Fallback: fallback})
	if errors.As(err, &e.Faults) {
		return nil, nil //nolint:nilnil // the page says what is wrong
	}
	entries, others := m.Schedules, m.Workflows
	only := v.T("The text must have one schedule, and nothing else. Put several one after another, " +
		"or in a shell: dtsctl apply -f FILE.")
	if e.Kind == manifest.KindWorkflow {
		entries, others = m.Workflows, m.Schedules
		only = v.T("The text must have one workflow, and nothing else. Put several one after another, " +
			"or in a shell: dtsctl apply -f FILE.")
	}
	if err != nil || len(entries) != 1 || len(others)+len(m.Tasks) > 0 {
		e.Wrong = string(only)
		return nil, nil //nolint:nilerr,nilnil // the page says it
	}
	entry := &entries[0]
	e.named = task.Ref{Namespace: entry.Namespace, ID: entry.ID}
	if e.Revision > 0 && e.named != e.Ref {
		stays := v.T("must stay %s in the namespace %s: a copy is a new schedule", e.Ref.ID, e.Ref.Namespace)
		if e.Kind == manifest.KindWorkflow {
			stays = v.T("must stay %s in the namespace %s: a copy is a new workflow", e.Ref.ID, e.Ref.Namespace)
		}
		e.Faults = manifest.Faults{entry.Fault("id", string(stays))}
		return nil, nil //nolint:nilnil // the page says what is wrong
	}
	e.options = control.PutOptions{IfMatch: e.Revision, IfAbsent: e.Revision == 0}
	if err := of.read(entry); err != nil {
		return nil, e.refuse(entry, err)
	}
	return entry, nil
}

// refuse notes why a text cannot be put, with the places of the fields that are invalid. It returns the error if that
// is no refusal.
func (e *textEdit) refuse(entry *manifest.Entry, err error) error {
	invalid := refusalOf(err)
	switch {
	case invalid == nil:
		return err
	case invalid.Code != task.CodeInvalid:
		e.Wrong, e.Exists = invalid.Error(), isChanged(invalid) && e.options.IfAbsent
		return nil
	}
	for _, one := range append([]*task.Error{invalid}, invalid.Others...) {
		e.Faults = append(e.Faults, entry.Fault(one.Field, one.Message))
	}
	e.Faults = e.Faults.InOrder()
	return nil
}

// putText is what the forms do on which texts are written. The form is shown again if the text was only to be checked
// or is not what was checked, if something is wrong with it, or if somebody has put another revision that the reader
// has not seen.
func (v *visit) putText(ctx context.Context, of edited) (result, error) {
	if v.form.Get("do") != doPut {
		return result{}, nil
	}
	if err := v.open(ctx, of); err != nil {
		return result{}, err
	}
	e := of.edit()
	put, err := e.Outcome, e.refusal
	switch {
	case err != nil:
	case !e.Valid || (e.Meantime || e.Changed) && !e.Same:
		return result{}, nil
	default:
		put, err = of.put(ctx, v, e.options)
	}
	if isChanged(err) { // by this form, if it was sent to two nodes
		put, err = of.put(ctx, v, control.PutOptions{DryRun: true})
		if put.Created || put.Changed {
			return result{}, err
		}
	}
	if refusalOf(err) != nil {
		return result{}, nil //nolint:nilerr // the page that is shown again says it
	}
	path := v.Path(e.List(), e.named.Namespace, e.named.ID)
	return result{path: string(path), said: put.said, n: put.Revision}, err
}

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
