package web

import (
	"context"
	"html/template"
	"strings"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// foundRows is how many tasks, and how many schedules, the page has that looks for an id.
const foundRows = 20

// find is what the page "Go to" shows, which redirects if only one thing matches.
type find struct {
	Sentence  template.HTML
	Text      string // that was looked for
	Tasks     control.FoundTasks
	Schedules control.FoundSchedules
	None      bool // nothing was found
	Notes     []template.HTML
}

// readFind looks for the task that has an id, and for schedules whose ids begin with it, in all namespaces. If there is
// one, the page leads there.
func readFind(ctx context.Context, v *visit) (any, string, error) {
	title, text := string(v.T("Go to")), task.Cut(strings.TrimSpace(v.query.Get("q")), 2*task.IDLimit)
	if text == "" {
		return find{Sentence: v.T("Give the id of a task, or the beginning of the id of a schedule.")}, title, nil
	}
	f := find{Text: text}
	schedule, _, isTick := strings.Cut(text, "@") // of a tick whose task is gone, the ledger of its schedule tells
	err := calls.Try(
		func() (err error) {
			f.Tasks, err = v.site.Control.FindTasks(ctx, v.who, text, foundRows)
			if edge.CodeOf(err) == task.CodeInvalid { // what is no id, no task has
				return nil
			}
			return err
		},
		func() (err error) {
			if schedule != "" {
				f.Schedules, err = v.site.Control.FindSchedules(ctx, v.who, schedule, foundRows)
			}
			return err
		},
	)
	if err != nil {
		return nil, "", err
	}
	tasks, schedules := f.Tasks.Tasks, f.Schedules.Refs
	switch {
	case len(tasks) == 1 && !f.Tasks.Partly && (isTick || len(schedules) == 0):
		return elsewhere(v.Path("tasks", tasks[0].Ref.Namespace, tasks[0].Ref.ID)), title, nil
	case len(tasks) == 0 && len(schedules) == 1 && !isTick && !f.Schedules.Partly:
		return elsewhere(v.Path("schedules", schedules[0].Namespace, schedules[0].ID)), title, nil
	}
	f.Sentence, f.None = v.findSentence(f, isTick)
	f.Notes = v.findNotes(f)
	return f, title, nil
}

// findSentence says what was found. none: nothing matches.
func (v *visit) findSentence(f find, isTick bool) (_ template.HTML, none bool) {
	text, schedules := code(f.Text), v.Num(len(f.Schedules.Refs))
	if f.Schedules.More {
		schedules += "+"
	}
	tasks := len(f.Tasks.Tasks) + f.Tasks.More
	switch {
	case tasks > 0 || len(f.Schedules.Refs) > 0 && !isTick:
		return v.T("Tasks with the id %s: %d. Schedules whose ids begin with it: %s.", text, tasks, schedules), false
	case isTick:
		return v.T("No task has the id %s.", text), true
	}
	return v.T("No task has the id %s, and no schedule has an id that begins with it.", text), true
}

// findNotes say what may be there though it was not found.
func (v *visit) findNotes(f find) (notes []template.HTML) {
	if f.Tasks.Partly {
		notes = append(notes, v.T("Tasks were looked for in the namespaces that were used last. There are others."))
	}
	if f.Schedules.Partly {
		notes = append(notes,
			v.T("Schedules were looked for in the namespaces that were used last. There are others."))
	}
	if f.None {
		notes = append(notes, v.T("The id of a task must be whole. Tasks are forgotten some time after their end."),
			v.T("The ledger of a schedule keeps its ticks for longer."))
	}
	return notes
}
