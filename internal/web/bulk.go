package web

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// offer is a bulk action that the list of tasks offers.
type offer struct {
	Path  string
	Label template.HTML
	Red   bool
}

// offers are the bulk actions that have something to do with tasks of a filter, given how many there are by state.
func (v *visit) offers(counts map[task.State]control.TaskCount) (all []offer) {
	chosen := task.State(v.query.Get("state"))
	number := func(states ...task.State) string {
		n, more := 0, false
		for _, s := range states {
			if chosen == "" || chosen == s {
				n, more = n+counts[s].Tasks, more || counts[s].About
			}
		}
		switch {
		case n == 0:
			return ""
		case more:
			return v.Num(n) + "+"
		}
		return v.Num(n)
	}
	query := v.With("said", "")
	add := func(n, do string, label func(n string) template.HTML) {
		if n != "" {
			all = append(all, offer{"/bulk/new/" + do + query, label(n), do == "forget" || do == "cancel"})
		}
	}
	again := []task.State{cmp.Or(chosen, task.Failed)}
	if !again[0].Final() {
		again = nil
	}
	add(number(again...), "retry", func(n string) template.HTML { return v.T("Retry %s…", n) })
	waiting := []task.State{task.Scheduled, task.Queued}
	add(number(waiting...), "requeue", func(n string) template.HTML { return v.T("Move %s…", n) })
	if chosen == task.Running {
		waiting = []task.State{task.Running}
	}
	add(number(waiting...), "cancel", func(n string) template.HTML { return v.T("Cancel %s…", n) })
	if chosen.Final() {
		add(number(chosen), "forget", func(n string) template.HTML { return v.T("Forget %s…", n) })
	}
	return all
}

// NoOffers says why a list of tasks offers no other bulk actions than it does.
func (v *visit) NoOffers(l taskList) template.HTML {
	switch chosen := task.State(v.query.Get("state")); {
	case len(l.Offers) == 0 && len(l.Tasks) > 0 && chosen == "":
		return v.T("To retry or forget these tasks, choose a state in which they have ended.")
	case len(l.Offers) == 0:
		return v.T("No task here can be retried, moved or cancelled.")
	case chosen == task.Running:
		return v.T("Tasks that run can only be cancelled.")
	case !chosen.Final():
		return v.T("To forget tasks, choose a state in which they have ended.")
	}
	return ""
}

// bulkAsk is what the page shows that asks before it changes many tasks.
type bulkAsk struct {
	Do       string
	Title    template.HTML
	Sentence template.HTML
	Button   template.HTML // "" if there is nothing to do
	Red      bool
	Missing  string
	Query    template.URL  // of the address
	Filter   []hiddenField // the same without what is asked for besides
	AsOf     string
	ToQueue  string
	Spread   string
	Examples []task.Task
}

// Can reports whether there is something to do, for which the page has its only form.
func (a bulkAsk) Can(string) bool { return a.Button != "" }

// bulkRequest is what the address asks for, with what a form adds. Error: CodeInvalid, with the field.
func (v *visit) bulkRequest() (control.BulkRequest, error) {
	get := func(name string) string { return strings.TrimSpace(cmp.Or(v.form.Get(name), v.query.Get(name))) }
	r := control.BulkRequest{Action: control.BulkAction(v.param("do")), ToQueue: get("to_queue"), Note: get("note")}
	if text := v.form.Get("as_of"); v.form != nil { // what was so long ago at the preview is meant
		var err error
		if r.AsOf, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return r, task.Invalid("as_of", "must be the time of the preview")
		}
		v.now = r.AsOf
	}
	var err error
	if r.Filter, err = v.taskFilter(); err != nil {
		return r, err
	}
	r.Spread, err = v.durationOf("spread", get("spread"))
	return r, err
}

func readBulkAsk(ctx context.Context, v *visit) (any, string, error) {
	do := control.BulkAction(v.param("do"))
	known := []control.BulkAction{control.BulkRetry, control.BulkCancel, control.BulkRequeue, control.BulkForget}
	if !slices.Contains(known, do) {
		return nil, "", echo.ErrNotFound
	}
	a := bulkAsk{
		Do: string(do), Title: v.bulkTitle(do), Red: do == control.BulkForget || do == control.BulkCancel,
		ToQueue: v.query.Get("to_queue"), Spread: v.query.Get("spread"),
		Query: template.URL(v.query.Encode()), //nolint:gosec // it is encoded
	}
	for _, name := range slices.Sorted(maps.Keys(v.query)) {
		if name != "to_queue" && name != "spread" && v.query.Get(name) != "" {
			a.Filter = append(a.Filter, hiddenField{name, v.query.Get(name)})
		}
	}
	v.label("to_queue", v.T("To queue"))
	v.label("spread", v.T("Spread over"))
	v.label("filter.state", v.T("State"))
	v.filterFields() // for their labels
	r, err := v.bulkRequest()
	if do == control.BulkRequeue && err == nil && r.ToQueue == "" {
		a.Sentence = v.T("Say to which queue they move.")
		return a, string(a.Title), nil
	}
	r.Note = ""                                    // of the form that was refused for it
	r.Filter.Brief, r.Filter.LastEnds = true, true // of the examples, as lists have them
	var p control.BulkPreview
	if err == nil {
		p, err = v.site.Control.PreviewBulk(ctx, v.who, r)
	}
	if refusal := refusalOf(err); refusal != nil && refusal.Code == task.CodeInvalid {
		v.mark(refusal)
		return a, string(a.Title), nil
	}
	if err != nil {
		return nil, "", err
	}
	a.Missing, a.Examples, a.AsOf = p.Missing, p.Examples, p.AsOf.Format(time.RFC3339Nano)
	a.Sentence, a.Button = v.bulkSentence(do, p)
	return a, string(a.Title), nil
}

func (v *visit) bulkTitle(do control.BulkAction) template.HTML {
	switch do {
	case control.BulkRetry:
		return v.T("Retry tasks")
	case control.BulkCancel:
		return v.T("Cancel tasks")
	case control.BulkRequeue:
		return v.T("Move tasks to another queue")
	case control.BulkForget:
		return v.T("Forget tasks")
	}
	return ""
}

// bulkSentence says what an action would do, and returns the text of its button.
func (v *visit) bulkSentence(do control.BulkAction, p control.BulkPreview) (sentence, button template.HTML) {
	if p.Total == 0 {
		return v.T("No task matches: there is nothing to do."), ""
	}
	n := p.Total
	switch do {
	case control.BulkRetry:
		sentence, button = v.T("%d tasks run again, as if they were new.", n), v.T("Retry %d tasks", n)
	case control.BulkCancel:
		sentence = v.T("%d tasks are cancelled. Workers are asked to stop those that run.", n)
		button = v.T("Cancel %d tasks", n)
	case control.BulkRequeue:
		sentence, button = v.T("%d tasks move. They keep their times.", n), v.T("Move %d tasks", n)
	case control.BulkForget:
		sentence = v.T("%d tasks are deleted, with their results and logs. Nobody can see them afterwards.", n)
		button = v.T("Forget %d tasks", n)
	}
	if p.About {
		sentence += " " + v.T("The number is an estimate.")
	}
	return sentence, button
}

func startBulk(ctx context.Context, v *visit, _ url.Values) (result, error) {
	r, err := v.bulkRequest()
	if err != nil {
		return result{}, err
	}
	b, err := v.site.Control.StartBulk(ctx, v.who, r)
	return result{path: string(v.Path("bulk", b.ID)), said: "bulk-started"}, err
}

func stopBulk(ctx context.Context, v *visit, _ url.Values) (result, error) {
	_, err := v.site.Control.StopBulk(ctx, v.who, v.param("id"))
	return result{path: v.parent(), said: "bulk-stopped"}, err
}

// oneBulk is what the page of a bulk action shows.
type oneBulk struct {
	control.Bulk
	Title    template.HTML
	Sentence template.HTML
	Meter    []segment
	By       string
	Ended    bool
}

func readBulk(ctx context.Context, v *visit) (any, string, error) {
	b, err := v.site.Control.GetBulk(ctx, v.who, v.param("id"))
	if err != nil {
		return nil, "", err
	}
	o := v.bulkOf(b)
	return o, string(o.Title), nil
}

// Can reports whether the bulk action can be stopped, which is its only form.
func (o oneBulk) Can(string) bool { return !o.Ended }

// Offers are the actions that the page of a bulk action offers.
func (o oneBulk) Offers() string {
	if o.Can("stop") {
		return "stop"
	}
	return ""
}

func (v *visit) bulkOf(b control.Bulk) oneBulk {
	o := oneBulk{Bulk: b, Title: v.bulkTitle(control.BulkAction(b.Action)), Ended: b.State.Ended()}
	o.By = control.Caller{Name: b.Name, Verified: b.Verified, Address: b.Address}.By()
	done := b.Changed + b.Skipped + b.Failed
	o.Meter = meterOf(max(b.Total, done), amount{"f-ok", b.Changed},
		amount{"f-off", b.Skipped}, amount{"f-bad", b.Failed})
	switch {
	case b.Error != "":
		o.Sentence = v.T("It has ended early: %s", b.Error)
	case o.Ended && done < b.Total:
		o.Sentence = v.T("It was stopped after %d of %d tasks.", done, b.Total)
	case o.Ended:
		o.Sentence = v.T("It is done: %d tasks were changed.", b.Changed)
	default:
		o.Sentence = v.T("%d of %d tasks are done.", done, b.Total)
	}
	return o
}

// shownBulks is how many bulk actions their list has.
const shownBulks = 50

// bulkList is what the list of bulk actions shows.
type bulkList struct {
	Sentence template.HTML
	Rows     []oneBulk
}

func readBulks(ctx context.Context, v *visit) (any, string, error) {
	all, err := v.site.Control.ListBulks(ctx, v.who)
	if err != nil {
		return nil, "", err
	}
	l, running := bulkList{Sentence: v.T("No bulk action runs.")}, 0
	for _, b := range all {
		if !b.State.Ended() {
			running++
		}
	}
	if running > 0 {
		l.Sentence = v.T("%d bulk actions run.", running)
	}
	for _, b := range all[:min(len(all), shownBulks)] {
		l.Rows = append(l.Rows, v.bulkOf(b))
	}
	return l, string(v.T("Bulk actions")), nil
}
