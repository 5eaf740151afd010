package web

import (
	"context"
	"html/template"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

// How much of a schedule the list shows.
const (
	scheduleRows = 40  // a row with its strip has up to 2 KB
	listedTicks  = 30  // in its strip
	listedText   = 160 // bytes of its description
)

// scheduleList is what the list of schedules shows.
type scheduleList struct {
	Sentence template.HTML
	Reasons  []status.Reason // why schedules need somebody, the worst first
	Counts   []troubleCount
	Fields   []filterField
	Tabs     []scheduleTab
	Rows     []scheduleRow
	Legend   []legendItem
	Next     string // the cursor of the next page; "" at the end
	First    bool   // it is the first page
	Partly   bool   // only some of the schedules were looked through for the filter
	Wrong    string // what is wrong with the filter; "" if nothing is
}

// troubleCount is how many schedules need somebody for the same reason.
type troubleCount struct {
	Text  template.HTML
	Count int
}

// scheduleTab is a filter by what is so with schedules.
type scheduleTab struct {
	Name    string // the value of the parameter "is"; "" for all
	Label   template.HTML
	Mark    mark
	Present bool
}

// scheduleRow is a schedule in the list.
type scheduleRow struct {
	schedule.Schedule
	Strip strip
	State scheduleState
	Times []string // its rules
	Next  time.Time
}

// scheduleState is how a schedule is, or how its newest run ended: in a word, with what belongs to it.
type scheduleState struct {
	Mark mark
	Word template.HTML
	More template.HTML // "" for nothing
	Text string        // a text of somebody; "" for none
	At   time.Time
	Task string // the task that Text tells about; "" for none
}

func readSchedules(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Schedules"))
	l := scheduleList{First: v.query.Get("cursor") == "", Fields: v.scheduleFields(), Tabs: v.scheduleTabs()}
	l.judge(v, v.Status.Reasons)
	l.Sentence = v.troubleSentence(l)
	filter, err := v.scheduleFilter()
	if err != nil {
		l.Wrong = v.wrongIn(err)
		return l, title, nil
	}
	page, err := v.site.Control.ListSchedules(ctx, v.who, filter, scheduleRows, v.query.Get("cursor"))
	if edge.CodeOf(err) == task.CodeInvalid {
		l.Wrong = err.Error()
		return l, title, nil
	}
	if err != nil {
		return nil, "", err
	}
	l.Next, l.Partly = page.NextCursor, page.NextCursor != "" && len(page.Schedules) < scheduleRows
	var all [][]schedule.TickResult
	for _, s := range page.Schedules {
		l.Rows = append(l.Rows, v.scheduleRow(s))
		all = append(all, s.Recent)
	}
	l.Legend = v.legendOf(all...)
	if l.First && !l.Filtered() {
		l.Sentence = v.schedulesSentence(l)
	}
	return l, title, nil
}

// judge takes the reasons that are about schedules of the chosen namespace, and counts them.
func (l *scheduleList) judge(v *visit, reasons []status.Reason) {
	counts := make(map[status.Code]int)
	for _, r := range reasons {
		if r.Kind != "schedule" || v.Namespace != control.EveryNamespace && v.Namespace != r.Namespace {
			continue
		}
		counts[r.Code]++
		if v.Namespace == control.EveryNamespace { // else nobody knows of which namespace the others are
			counts[r.Code] += r.More
		}
		l.Reasons = append(l.Reasons, r)
	}
	for _, code := range []status.Code{status.PausedItself, status.TicksHeldBack, status.Failing, status.TicksMissed} {
		if n := counts[code]; n > 0 {
			l.Counts = append(l.Counts, troubleCount{v.troubleText(code, n), n})
		}
	}
}

// troubleText says how many schedules need somebody for a reason.
func (v *visit) troubleText(code status.Code, n int) template.HTML {
	switch code {
	case status.PausedItself:
		return v.T("%d paused themselves", n)
	case status.TicksHeldBack:
		return v.T("%d have an undecided tick", n)
	case status.Failing:
		return v.T("%d are failing", n)
	}
	return v.T("%d have missed ticks", n)
}

// schedulesSentence says how many schedules there are, and what is wrong with them, given the first page of all.
func (v *visit) schedulesSentence(l scheduleList) template.HTML {
	n := l.InTrouble()
	count, needs := v.T("%d schedules", len(l.Rows)), v.T("none needs somebody")
	switch {
	case len(l.Rows) == 0 && l.Next == "" && n == 0:
		return v.T("There are no schedules yet.")
	case l.Next != "":
		count = v.T("More than %d schedules", len(l.Rows))
	}
	if n > 0 {
		needs = v.T("%d need somebody", n) + v.causes(l)
	}
	return v.T("%s; %s", count, needs)
}

// troubleSentence says what is wrong with schedules, while it is not known how many there are.
func (v *visit) troubleSentence(l scheduleList) template.HTML {
	if n := l.InTrouble(); n > 0 {
		return v.T("%d schedules need somebody", n) + v.causes(l)
	}
	return v.T("No schedule needs somebody")
}

// causes says for which reasons schedules need somebody.
func (v *visit) causes(l scheduleList) template.HTML {
	clauses := make([]string, len(l.Counts))
	for i, c := range l.Counts {
		clauses[i] = string(c.Text)
	}
	return v.T(": ") + template.HTML(v.List(clauses)) //nolint:gosec // made by T
}

// InTrouble is how many schedules need somebody. One that does for two reasons counts twice.
func (l scheduleList) InTrouble() (n int) {
	for _, c := range l.Counts {
		n += c.Count
	}
	return n
}

// StripTicks is how many ticks the strip of a row has room for.
func (scheduleList) StripTicks() int { return listedTicks }

// Filtered says that the list has a filter.
func (l scheduleList) Filtered() bool {
	for _, f := range l.Fields {
		if f.Value != "" {
			return true
		}
	}
	return !l.Tabs[0].Present
}

// scheduleFields are the fields of the filter, in the order of the form.
func (v *visit) scheduleFields() []filterField {
	fields := []filterField{
		{"prefix", v.T("Id begins with"), "", ""}, {"label", v.T("Label"), "", "team=finance"},
		{"owner", v.T("Owner"), "", ""},
	}
	for i := range fields {
		fields[i].Value = strings.TrimSpace(v.query.Get(fields[i].Name))
		v.label(fields[i].Name, fields[i].Label)
	}
	return fields
}

// scheduleTabs are all values of the parameter "is".
func (v *visit) scheduleTabs() []scheduleTab {
	tabs := []scheduleTab{
		{Label: v.T("All")}, {Name: "failing", Label: v.T("Failing"), Mark: mark{"fail", "t-bad"}},
		{Name: "missed", Label: v.T("Missed ticks"), Mark: mark{"missed", "t-bad"}},
		{Name: "stale", Label: v.T("No success for 24 h"), Mark: mark{"timeout", "t-warn"}},
		{Name: "paused", Label: v.T("Paused"), Mark: mark{"pause", "t-warn"}},
		{Name: "running", Label: v.T("Not paused"), Mark: mark{"sched", "t-ink"}},
	}
	for i := range tabs {
		tabs[i].Present = tabs[i].Name == v.query.Get("is")
	}
	return tabs
}

// scheduleFilter is the filter that the address asks for. Error: CodeInvalid, with the field.
func (v *visit) scheduleFilter() (control.ScheduleFilter, error) {
	get := func(name string) string { return strings.TrimSpace(v.query.Get(name)) }
	f := control.ScheduleFilter{Prefix: get("prefix"), Owner: get("owner")}
	switch is := get("is"); is {
	case "":
	case "failing", "missed", "stale":
		f.Condition = schedule.Condition(is)
	case "paused", "running":
		f.Paused = new(is == "paused")
	default:
		return f, v.invalid("is", v.T("%s must be failing, missed, stale, paused or running", quoted(is)))
	}
	var err error
	f.Labels, err = v.labelOf(get("label"))
	return f, err
}

// scheduleRow is what the list shows of a schedule.
func (v *visit) scheduleRow(s schedule.Schedule) scheduleRow {
	next, _ := s.NextTick()
	s.Description = task.Cut(s.Description, listedText)
	return scheduleRow{s, v.stripOf(s.Recent, listedTicks), v.scheduleState(s), rulesOf(s.Spec), next}
}

// scheduleState says how a schedule is: what is wrong with it, or else how its newest run ended.
func (v *visit) scheduleState(s schedule.Schedule) scheduleState {
	last, ran := s.Track.LastEnd()
	switch {
	case s.PausedItself():
		inARow := v.T("%d failed in a row", s.Failures)
		return scheduleState{Mark: mark{"pause", "t-bad"}, Word: v.T("paused itself"), More: inARow, At: s.PausedAt}
	case !s.PausedAt.IsZero():
		return scheduleState{Mark: mark{"pause", "t-warn"}, Word: v.T("paused"), Text: s.PauseNote, At: s.PausedAt}
	case !s.EndedAt.IsZero():
		ran := v.T("ran %d times", s.Runs)
		return scheduleState{Mark: mark{"end", "t-off"}, Word: v.T("ended"), More: ran, At: s.EndedAt}
	case s.Has(schedule.Failing, v.now, 0):
		st := scheduleState{Mark: mark{"fail", "t-bad"}, Word: v.T("failing"), At: last.At}
		st.More = v.T("%d failed in a row", s.Failures)
		if s.PauseOnFailure > 0 {
			st.More += "; " + v.T("pauses after %d", s.PauseOnFailure)
		}
		return st
	case s.Retry.Task != "":
		st := scheduleState{Mark: mark{"retry", "t-warn"}, Word: v.T("tries again"), At: s.Retry.DueAt}
		st.More, st.Text = v.T("%d attempts so far", s.Retry.Attempts), v.Reason(s.Retry.Error)
		st.Task = s.Retry.Task
		return st
	case !s.Overlooked.Tick.IsZero():
		st := scheduleState{Mark: mark{"missed", "t-bad"}, Word: v.T("missed a tick"), At: s.Overlooked.Tick}
		st.Text = s.Overlooked.Reason
		return st
	case s.Has(schedule.Stale, v.now, schedule.StaleAfter):
		word := v.T("no success for 24 h")
		return scheduleState{Mark: mark{"timeout", "t-warn"}, Word: word, At: s.Track.SucceededAt}
	case s.Live > 0:
		return scheduleState{Mark: mark{"run", "t-run"}, Word: v.T("runs"), At: startOf(s)}
	case ran:
		st := scheduleState{Mark: stateMark(task.Task{State: last.State}), At: last.At}
		st.Word = escaped(v.stateName(last.State))
		if last.Ran {
			st.Word = escaped(v.Took(last.Took))
		}
		return st
	}
	return scheduleState{Mark: mark{"sched", "t-ink"}, Word: v.T("has not run yet")}
}

// startOf is when the newest of the runs began that have not ended; zero if none has begun.
func startOf(s schedule.Schedule) (at time.Time) {
	for _, r := range s.Recent {
		if r.Result == schedule.ResultRunning {
			at = r.StartedAt
		}
	}
	return at
}
