package web

import (
	"context"
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// How much of a schedule its page shows.
const (
	tapeTicks  = 60
	ledgerRows = 30
	nextTicks  = 6
)

// oneSchedule is what the page of a schedule shows.
type oneSchedule struct {
	schedule.Schedule
	State      scheduleState
	Verdict    template.HTML
	LastError  string // why its newest run failed, if it is failing, or has paused itself for that; "" if nobody knows
	Why        control.Why
	Tape       tape
	HasEnded   bool // a run of it, though perhaps none of those on the tape
	Legend     []legendItem
	Calendar   calendar
	Ledger     []ledgerRow
	LedgerNext string    // the cursor of older records; "" at the end
	KnownFrom  time.Time // the ledger has forgotten what was before; zero if nothing
	Coming     []comingTick
	Change     *clockChange // of the zone; nil for none
	Revisions  []revisionRow
	Audit      *schedule.Report // nil unless somebody asks for it
	AuditWrong string           // why there is none
	Text       string           // the definition, as a file
	Labels     []string
}

// ledgerRow is a record of the ledger, and what became of its task.
type ledgerRow struct {
	schedule.Entry
	Task   string // "" if none was created
	Run    *schedule.TickResult
	Mark   mark
	Result string
	Took   string
	Why    template.HTML
}

// revisionRow is a revision, and what it has changed.
type revisionRow struct {
	schedule.Revision
	Changes  []manifest.Change
	Compared bool // the revision before it is known
	InForce  bool
}

func readSchedule(ctx context.Context, v *visit) (any, string, error) {
	c, id := v.site.Control, v.param("id")
	v.who.Namespace = v.param("namespace")
	o := oneSchedule{}
	var ledger control.LedgerPage
	var ends map[string]control.LastEnd // of its tasks
	var next schedule.NextTicks
	var revisions control.RevisionPage
	reads := []func() error{
		func() (err error) { o.Schedule, err = c.GetSchedule(ctx, v.who, id); return err },
		func() (err error) { o.Why, err = c.WhySchedule(ctx, v.who, id); return err },
		func() (err error) {
			ledger, err = c.Ledger(ctx, v.who, id, v.ledgerFilter(), ledgerRows, v.query.Get("cursor"))
			if err == nil {
				ends, err = c.LastEnds(ctx, v.who, tasksIn(ledger, id))
			}
			return err
		},
		func() (err error) {
			next, err = c.Next(ctx, v.who, control.NextRequest{ID: id, Count: nextTicks})
			return err
		},
	}
	if !v.quiet { // they are no live parts
		reads = append(reads, func() (err error) { revisions, err = c.Revisions(ctx, v.who, id, ""); return err },
			func() error { return o.readAudit(ctx, v, id) })
	}
	if err := calls.Try(reads...); err != nil {
		return nil, "", err
	}
	known := func(r why.Reason) bool { return r.Code == why.NotDue } // the verdict has it
	o.Why.Reasons = slices.DeleteFunc(o.Why.Reasons, known)
	o.Coming, o.Change = comingOf(next) // of a schedule that is paused: those that it would have
	o.show(v, ends)
	if r := o.Why.Retry; !r.Outdated && o.State.Task == "" { // else the verdict has it, or the note
		o.Why.Reasons = append(o.Why.Reasons, o.Why.Beside...)
	}
	o.showLedger(v, ledger, ends)
	err := o.compare(revisions.Revisions)
	if err != nil {
		return nil, "", err
	}
	d, err := manifest.DocumentOf(o.Definition, !o.PausedAt.IsZero())
	if err != nil {
		return nil, "", err
	}
	o.Text, err = d.Text()
	return &o, id, err
}

// tasksIn are the ids of the tasks of a part of a ledger.
func tasksIn(page control.LedgerPage, id string) (ids []string) {
	for _, e := range page.Entries {
		if e.HasTask {
			ids = append(ids, e.TaskID(id))
		}
	}
	return ids
}

// lastError is why the newest of the runs failed that did, given how tasks ended.
func (o *oneSchedule) lastError(ends map[string]control.LastEnd) string {
	for _, r := range slices.Backward(o.Recent) {
		if r.Result == schedule.ResultFailed {
			return ends[o.ID+"@"+r.Name].Error
		}
	}
	return ""
}

// show puts the schedule into words and drawings.
func (o *oneSchedule) show(v *visit, ends map[string]control.LastEnd) {
	s := o.Schedule
	o.State, o.Labels = v.scheduleState(s), labelsOf(s.Labels)
	o.Verdict = v.scheduleVerdict(s, o.State.Task != "")
	if s.PausedItself() || s.PausedAt.IsZero() && s.Has(schedule.Failing, v.now, 0) {
		o.LastError = v.Reason(o.lastError(ends))
	}
	o.Tape, o.Calendar = v.tapeOf(s.Recent, tapeTicks), v.calendarOf(s.Track.Days, v.now)
	_, o.HasEnded = s.Track.LastEnd()
	o.Legend = v.legendOf(s.Recent[max(0, len(s.Recent)-tapeTicks):])
}

// scheduleVerdict says in a sentence how a schedule is, and whether a task of it is tried again.
func (v *visit) scheduleVerdict(s schedule.Schedule, again bool) template.HTML {
	switch {
	case s.PausedItself():
		return v.T("Paused itself: %d tasks in a row failed", s.Failures)
	case !s.PausedAt.IsZero() && s.PauseNote != "":
		return v.T("Paused: %s", s.PauseNote)
	case !s.PausedAt.IsZero():
		return v.T("Paused")
	case !s.EndedAt.IsZero():
		return v.T("Has ended after %d runs", s.Runs)
	case s.Has(schedule.Failing, v.now, 0) && s.PauseOnFailure > s.Failures:
		return v.T("Failing: %d tasks in a row failed. After %d it pauses itself", s.Failures, s.PauseOnFailure)
	case s.Has(schedule.Failing, v.now, 0):
		return v.T("Failing: %d tasks in a row failed", s.Failures)
	case again:
		return v.retryVerdict(s)
	case !s.Overlooked.Tick.IsZero():
		return v.T("Missed the tick of %s", v.Stamp(s.Overlooked.Tick))
	case s.Has(schedule.Stale, v.now, schedule.StaleAfter):
		return v.T("Has not succeeded for 24 h, though ticks were due")
	case s.Live > 0:
		return v.T("Runs: %d tasks have not ended", s.Live)
	}
	return v.quietVerdict(s)
}

// retryVerdict says when a task of a schedule is tried again, and why. The reason leads to the task.
func (v *visit) retryVerdict(s schedule.Schedule) template.HTML {
	r := s.Retry
	link := linkTo(v.Path("tasks", s.Namespace, r.Task), escaped(v.Reason(r.Error)))
	if r.DueAt.IsZero() {
		return v.T("Tries again now: %s (%s)", link, v.T("%d attempts so far", r.Attempts))
	}
	return v.T("Tries again %s: %s (%s)", v.Time(r.DueAt), link, v.T("%d attempts so far", r.Attempts))
}

// Renew is how the task of a schedule that is tried again gives way to one with the present definition.
func (v *visit) Renew(o *oneSchedule) template.HTML {
	return v.T("%s, then %s.", linkTo(v.Path("tasks", o.Namespace, o.Why.Retry.Task), v.T("Cancel the task")),
		linkTo(v.Path("schedules", o.Namespace, o.ID, "trigger"), v.T("trigger the schedule")))
}

// quietVerdict is that of a schedule with which nothing is wrong, and none of whose tasks runs or waits.
func (v *visit) quietVerdict(s schedule.Schedule) template.HTML {
	last, ran := s.Track.LastEnd()
	next, comes := s.NextTick()
	switch {
	case !comes:
		return v.T("Has no tick to come")
	case next.Before(v.now):
		return v.T("A tick is due, and is not decided yet. It was due %s.", v.Time(next))
	case ran && last.State == task.Succeeded:
		return v.T("Well: the last run succeeded. Next tick: %s", v.Time(next))
	case ran:
		return v.T("The last run was cancelled. Next tick: %s", v.Time(next))
	}
	return v.T("Has not run yet. The first tick comes %s.", v.Time(next))
}

// ledgerFilter is the part of the ledger that the address asks for.
func (v *visit) ledgerFilter() control.LedgerFilter {
	f := control.LedgerFilter{Gaps: v.query.Get("gaps") != ""}
	if day, err := time.Parse(time.DateOnly, v.query.Get("day")); err == nil {
		f.Since, f.Until = day, day.Add(24*time.Hour-time.Millisecond)
	}
	return f
}

// showLedger joins records with what became of their tasks.
func (o *oneSchedule) showLedger(v *visit, page control.LedgerPage, ends map[string]control.LastEnd) {
	o.LedgerNext, o.KnownFrom = page.NextCursor, page.ForgottenUntil
	runs := make(map[string]*schedule.TickResult, len(o.Recent))
	for i := range o.Recent {
		runs[o.Recent[i].Name] = &o.Recent[i]
	}
	for _, e := range page.Entries {
		o.Ledger = append(o.Ledger, v.ledgerRow(e, o.ID, runs[e.Name], ends))
	}
}

// ledgerRow joins a record with what became of its task; run is nil if that is long ago.
func (v *visit) ledgerRow(
	e schedule.Entry, id string, run *schedule.TickResult, ends map[string]control.LastEnd,
) ledgerRow {
	r := ledgerRow{Entry: e, Task: e.TaskID(id), Run: run, Why: escaped(e.Reason)}
	if run == nil {
		return r
	}
	r.Mark, r.Result = resultMark(run.Result), v.ResultName(run.Result)
	end := ends[r.Task]
	if end.Outcome != "" && run.Result == schedule.ResultWaiting {
		again := task.Task{State: task.Scheduled, Attempt: 1, Outcome: end.Outcome}
		r.Mark, r.Result = stateMark(again), v.StateName(again)
	}
	why := template.HTML("")
	switch run.Result {
	case schedule.ResultFailed, schedule.ResultWaiting:
		why = escaped(v.Reason(end.Error))
	case schedule.ResultCancelled:
		why = v.Why(task.Task{State: task.Cancelled, Error: end.Error})
	}
	if r.Why != "" && why != "" {
		r.Why += "; "
	}
	r.Why += why
	if took, known := run.Took(); known {
		r.Took = v.Took(took)
	}
	return r
}

// compare compares each of the newest revisions with the one before.
func (o *oneSchedule) compare(revisions []schedule.Revision) (err error) {
	for i, r := range revisions {
		row := revisionRow{Revision: r, InForce: i == 0}
		if i+1 < len(revisions) && revisions[i+1].Number == r.Number-1 {
			row.Compared = true
			if row.Changes, err = manifest.Differences(revisions[i+1].Definition, r.Definition); err != nil {
				return err
			}
		}
		o.Revisions = append(o.Revisions, row)
	}
	return nil
}

// readAudit compares all ticks with the ledger, if somebody asks for it.
func (o *oneSchedule) readAudit(ctx context.Context, v *visit, id string) error {
	if !v.page.costly {
		return nil
	}
	report, err := v.site.Control.AuditSchedule(ctx, v.who, id, time.Time{}, time.Time{})
	if edge.CodeOf(err) == task.CodeInvalid {
		o.AuditWrong = err.Error()
		return nil
	}
	if err == nil {
		o.Audit = &report
	}
	return err
}

// Counts are the records of an audit, by outcome, in words.
func (v *visit) Counts(r *schedule.Report) string {
	var parts []string
	for _, o := range schedule.Outcomes {
		if n := r.Outcomes[o]; n > 0 {
			parts = append(parts, v.Num(n)+" "+v.OutcomeName(o))
		}
	}
	return v.List(parts)
}

// Can says what can be done with a schedule now.
func (o *oneSchedule) Can(what string) bool {
	switch what {
	case "trigger":
		return o.EffectiveOverlap() != schedule.OverlapSkip || o.Live == 0
	case "pause":
		return o.PausedAt.IsZero() && o.EndedAt.IsZero()
	case "resume":
		return !o.PausedAt.IsZero()
	}
	return false
}

// NoTrigger says why a schedule cannot be triggered now.
func (v *visit) NoTrigger(o *oneSchedule) template.HTML {
	tasks := "/tasks?" + url.Values{"namespace": {o.Namespace}, "schedule": {o.ID}}.Encode()
	link := `<a href="` + escaped(tasks) + `">` + v.T("%d of its tasks have not ended", o.Live) + "</a>"
	return v.T("It cannot be triggered now: %s, and its overlap policy is %s.", link, o.EffectiveOverlap())
}

// IfMissed is what becomes of ticks that were missed.
func (v *visit) IfMissed(o *oneSchedule) template.HTML {
	switch m := o.Misfire.WithDefaults(); m.Policy {
	case schedule.MisfireSkip:
		return v.T("skip: none of them runs")
	case schedule.MisfireAll:
		return v.T("all: each of them runs, at most %d", m.Max)
	}
	return v.T("once: one run makes up for all of them")
}

// Workflow is the workflow that the schedule starts; "" if it starts none that was put.
func (o *oneSchedule) Workflow() string {
	var start struct {
		Workflow string `json:"workflow"`
	}
	if o.Task.Type != task.WorkflowType || json.Unmarshal(o.Task.Payload, &start) != nil {
		return ""
	}
	return start.Workflow
}

// Times are the rules of the schedule, as its definition writes them, and in words.
func (o *oneSchedule) Times() (times []timesInWords) {
	words := o.InWords()
	for i, rule := range rulesOf(o.Spec) {
		times = append(times, timesInWords{rule, strings.TrimPrefix(words[i], rule+", ")})
	}
	return times
}

// timesInWords is a rule, and when it ticks.
type timesInWords struct{ Rule, Words string }
