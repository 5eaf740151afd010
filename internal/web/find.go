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

// foundRows is how many tasks, how many schedules and how many workflows the page has that looks for an id.
const foundRows = 20

// find is what the page "Go to" shows, which redirects if only one thing matches.
type find struct {
	Sentence  template.HTML
	Text      string // that was looked for
	Tasks     control.FoundTasks
	Schedules control.FoundNames
	Workflows control.FoundNames
	None      bool // nothing was found
	Notes     []template.HTML
}

// readFind looks for the task that has an id, and for schedules and workflows whose ids begin with it, in all
// namespaces. If there is one, the page leads there.
func readFind(ctx context.Context, v *visit) (any, string, error) {
	title, text := string(v.T("Go to")), task.Cut(strings.TrimSpace(v.query.Get("q")), 2*task.IDLimit)
	if text == "" {
		ask := v.T("Give the id of a task, or the beginning of the id of a schedule or a workflow.")
		return find{Sentence: ask}, title, nil
	}
	f, c := find{Text: text}, v.site.Control
	schedule, _, isTick := strings.Cut(text, "@") // of a tick whose task is gone, the ledger of its schedule tells
	err := calls.Try(
		func() (err error) {
			f.Tasks, err = c.FindTasks(ctx, v.who, text, foundRows)
			if edge.CodeOf(err) == task.CodeInvalid { // what is no id, no task has
				return nil
			}
			return err
		},
		func() (err error) {
			if schedule != "" {
				f.Schedules, err = c.FindSchedules(ctx, v.who, schedule, foundRows)
			}
			return err
		},
		func() (err error) {
			if !isTick {
				f.Workflows, err = c.FindWorkflows(ctx, v.who, text, foundRows)
			}
			return err
		},
	)
	if err != nil {
		return nil, "", err
	}
	if path, only := v.onlyFound(f, isTick); only {
		return elsewhere(path), title, nil
	}
	f.Sentence, f.None = v.findSentence(f, isTick)
	f.Notes = v.findNotes(f)
	return f, title, nil
}

// onlyFound is where the only thing is that was found. A tick has a schedule beside its task.
func (v *visit) onlyFound(f find, isTick bool) (path template.URL, only bool) {
	var paths []template.URL
	for _, t := range f.Tasks.Tasks {
		list := "tasks"
		if t.Type == task.WorkflowType {
			list = "runs"
		}
		paths = append(paths, v.Path(list, t.Ref.Namespace, t.Ref.ID))
	}
	partly := f.Tasks.Partly
	if !isTick {
		for _, s := range f.Schedules.Refs {
			paths = append(paths, v.Path("schedules", s.Namespace, s.ID))
		}
		for _, w := range f.Workflows.Refs {
			paths = append(paths, v.Path("workflows", w.Namespace, w.ID))
		}
	}
	if len(f.Tasks.Tasks) == 0 {
		partly = f.Schedules.Partly || f.Workflows.Partly
	}
	if len(paths) != 1 || partly {
		return "", false
	}
	return paths[0], true
}

// findSentence says what was found. none: nothing matches.
func (v *visit) findSentence(f find, isTick bool) (_ template.HTML, none bool) {
	text := code(f.Text)
	count := func(found control.FoundNames) string {
		if found.More {
			return v.Num(len(found.Refs)) + "+"
		}
		return v.Num(len(found.Refs))
	}
	tasks, names := len(f.Tasks.Tasks)+f.Tasks.More, len(f.Schedules.Refs)+len(f.Workflows.Refs)
	switch {
	case tasks > 0 || names > 0 && !isTick:
		return v.T("Tasks with the id %s: %d. Schedules whose ids begin with it: %s. Workflows: %s.", text, tasks,
			count(f.Schedules), count(f.Workflows)), false
	case isTick:
		return v.T("No task has the id %s.", text), true
	}
	return v.T("No task has the id %s, and no schedule and no workflow has an id that begins with it.", text), true
}

// findNotes say what may be there though it was not found.
func (v *visit) findNotes(f find) (notes []template.HTML) {
	if f.Tasks.Partly {
		notes = append(notes, v.T("Tasks were looked for in the namespaces that were used last. There are others."))
	}
	if f.Schedules.Partly || f.Workflows.Partly {
		notes = append(notes,
			v.T("Schedules and workflows were looked for in the namespaces that were used last. There are others."))
	}
	if f.None {
		notes = append(notes, v.T("The id of a task must be whole. Tasks are forgotten some time after their end."),
			v.T("The ledger of a schedule keeps its ticks for longer."))
	}
	return notes
}
