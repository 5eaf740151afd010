package web

import (
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/graph"
)

// stepRows is how many steps of a run its page lists.
const stepRows = 40

// stepTab is a state of steps, with how many have it.
type stepTab struct {
	Name    string // "" for all
	Label   string
	Mark    mark
	Count   int
	Present bool
}

// stepRow is a step in the list of those of a run.
type stepRow struct {
	control.RunStep
	shownStep
	Since time.Time // it is active, or waits, since then
	Try   int       // attempts of its task
	Why   string
	Says  template.HTML // in place of Why: what it waits for, or how it was answered
}

// stepRows are all steps of a run.
func (v *visit) stepRows(r control.Run) []stepRow {
	rows := make([]stepRow, len(r.Steps))
	for i, s := range r.Steps {
		row := stepRow{RunStep: s, Why: s.Why}
		row.shownStep = v.shownStep(s)
		row.Href = "?step=" + url.QueryEscape(s.ID) + "#steps"
		if t := s.Task; t != nil && s.Released > 0 {
			row.Href, row.Try = string(v.Path("tasks", t.Namespace, t.ID)), v.Tries(*t)
			if row.Why == "" {
				row.Why = t.Error
			}
			if s.State == workflow.Active {
				row.Since = t.StartedAt
			}
		}
		row.Why, row.Says = v.Reason(row.Why), v.answerWords(s)
		if s.State == workflow.Waiting {
			row.Since, row.Says = s.StepRun.Since, v.waitWords(s)
		}
		rows[i] = row
	}
	return rows
}

// shownStep says how a step is shown.
func (v *visit) shownStep(s control.RunStep) shownStep {
	shown := shownStep{State: s.State, Mark: stepMark(s.State), Word: v.stepState(s.State)}
	if s.State == workflow.Waiting {
		shown.Took = v.waitKind(*s.Wait)
	}
	t := s.Task
	if t == nil || s.Released == 0 {
		return shown
	}
	if s.State == workflow.Active && !t.State.Final() {
		shown.Mark, shown.Word = stateMark(*t), v.StateName(*t)
	}
	if s.State.Final() {
		shown.Took = v.Ran(*t)
	}
	return shown
}

// stepMark is the icon and the colour of a state of a step.
func stepMark(s workflow.State) mark {
	switch s {
	case workflow.Active:
		return mark{"run", "t-run"}
	case workflow.Waiting:
		return mark{"ask", "t-ask"}
	case workflow.State(workflow.Succeeded):
		return mark{"ok", "t-ok"}
	case workflow.State(workflow.Failed):
		return mark{"fail", "t-bad"}
	case workflow.State(workflow.Cancelled):
		return mark{"cancel", "t-off"}
	case workflow.State(workflow.Skipped):
		return mark{"skip", "t-off"}
	case workflow.State(workflow.UpstreamFailed):
		return mark{"lost", "t-warn"}
	}
	return mark{"blocked", "t-ink"}
}

// stepStates are the states of steps, in the order of the tabs.
var stepStates = []workflow.State{
	workflow.State(workflow.Failed), workflow.Waiting, workflow.Active, workflow.Blocked,
	workflow.State(workflow.UpstreamFailed), workflow.State(workflow.Cancelled), workflow.State(workflow.Skipped),
	workflow.State(workflow.Succeeded),
}

// stepState is a state of a step in a word.
func (v *visit) stepState(s workflow.State) string {
	switch s {
	case workflow.Blocked:
		return string(v.T("blocked"))
	case workflow.Waiting:
		return string(v.T("waits"))
	case workflow.Active:
		return string(v.T("under way"))
	case workflow.State(workflow.Skipped):
		return string(v.T("skipped"))
	case workflow.State(workflow.UpstreamFailed):
		return string(v.T("upstream failed"))
	}
	return v.stateName(task.State(s))
}

// list chooses the steps that the page lists: those that the address asks for.
func (o *oneRun) list(v *visit, rows []stepRow, sections []graph.Section) {
	state, step := v.query.Get("state"), strings.TrimSpace(v.query.Get("step"))
	if alike := alikeOf(sections, v.query.Get("like")); alike != nil {
		o.Alike = v.query.Get("like")
		rows = slices.DeleteFunc(slices.Clone(rows), func(r stepRow) bool { return !alike[r.ID] })
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(r stepRow) bool { return !strings.HasPrefix(r.ID, step) })
	counts := map[workflow.State]int{}
	for _, r := range rows {
		counts[r.RunStep.State]++
	}
	o.Tabs = []stepTab{{Label: string(v.T("All")), Count: len(rows), Present: state == ""}}
	for _, s := range stepStates {
		tab := stepTab{string(s), v.stepState(s), stepMark(s), counts[s], state == string(s)}
		if tab.Count > 0 || tab.Present {
			o.Tabs = append(o.Tabs, tab)
		}
	}
	if state != "" {
		rows = slices.DeleteFunc(rows, func(r stepRow) bool { return string(r.RunStep.State) != state })
	}
	o.Match = len(rows)
	from := min(max(v.number("cursor"), 0), len(rows))
	o.Rows = rows[from:min(from+stepRows, len(rows))]
	o.From, o.To = from+min(1, len(o.Rows)), from+len(o.Rows)
	if o.To < len(rows) {
		o.Next = itoa(o.To)
	}
}

// alikeOf are the ids of the steps that the box of a step stands for; nil for an unknown step.
func alikeOf(sections []graph.Section, step string) map[string]bool {
	for _, s := range sections {
		_, groups := graph.Fold(s.Steps)
		for _, members := range groups {
			ids := map[string]bool{}
			for _, m := range members {
				ids[s.Steps[m].ID] = true
			}
			if ids[step] {
				return ids
			}
		}
	}
	return nil
}

// Paged reports whether the list shows only some of the steps that match.
func (o *oneRun) Paged() bool { return len(o.Rows) < o.Match }

// KnownSteps are the ids of some steps, which the form that reruns a run suggests.
func (o *oneRun) KnownSteps() []string {
	var ids []string
	for _, s := range o.Steps[:min(len(o.Steps), stepRows)] {
		if s.Section == "steps" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
