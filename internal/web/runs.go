package web

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// runList is what the list of runs of workflows shows.
type runList struct {
	Sentence template.HTML
	Fields   []filterField
	States   []stateTab
	Rows     []runRow
	Next     string // the cursor of the next page; "" at the end
	First    bool   // it is the first page
	Lacks    string // what the list may lack; "" for nothing
	Wrong    string // what is wrong with the filter; "" if nothing is
	Empty    bool   // there is no run at all
}

// runRow is a run in the list.
type runRow struct {
	Task     task.Task
	Workflow string // "": its definition is part of it
	Mark     mark
	Word     string
	Progress workflow.Progress
	Begun    bool // the progress is known
}

// runFields are the fields of the filter, in the order of the form.
func (v *visit) runFields() []filterField {
	fields := []filterField{
		{"workflow", v.T("Workflow"), "", ""}, {"label", v.T("Label"), "", "team=finance"},
		{"owner", v.T("Owner"), "", ""}, {"since", v.T("Since"), "", "2h"}, {"until", v.T("Until"), "", "1h"},
	}
	for i := range fields {
		fields[i].Value = v.query.Get(fields[i].Name)
		v.label(fields[i].Name, fields[i].Label)
	}
	return fields
}

func readRuns(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Runs"))
	l := runList{First: v.query.Get("cursor") == "", Fields: v.runFields()}
	filter, err := v.taskFilter()
	if err != nil {
		l.Wrong = v.wrongIn(err)
		return l, title, nil
	}
	if name := strings.TrimSpace(v.query.Get("workflow")); name != "" {
		filter.Labels = maps.Clone(filter.Labels)
		if filter.Labels == nil {
			filter.Labels = map[string]string{}
		}
		filter.Labels[control.WorkflowLabel] = name
	}
	filter.Brief, filter.LastEnds = true, true
	found, err := v.site.Control.ListAndCountRuns(ctx, v.who, filter, pageRows, v.query.Get("cursor"))
	if edge.CodeOf(err) == task.CodeInvalid {
		l.Wrong = err.Error()
		return l, title, nil
	}
	if err != nil {
		return nil, "", err
	}
	l.Next, l.Lacks = found.NextCursor, cmp.Or(found.Missing, countTheShown(found.Counts, found.Tasks))
	l.States = v.stateTabs(found.Counts)
	for _, t := range found.Tasks {
		l.Rows = append(l.Rows, v.runRow(t, found.Progress))
	}
	l.Empty = l.States[0].Count == 0 && !l.States[0].More && v.unfiltered(l.Fields)
	l.Sentence = v.runsSentence(l)
	return l, title, nil
}

// runRow is what a list shows of a run.
func (v *visit) runRow(t task.Task, progress map[task.Ref]workflow.Progress) runRow {
	row := runRow{Task: t, Workflow: t.Labels[control.WorkflowLabel]}
	row.Progress, row.Begun = progress[t.Ref]
	row.Mark, row.Word = v.runState(t, row.Progress.Paused && t.State == task.Running)
	return row
}

// runsSentence says how many runs match, and how they are.
func (v *visit) runsSentence(l runList) template.HTML {
	i := max(slices.IndexFunc(l.States, func(t stateTab) bool { return t.Present }), 0)
	chosen := l.States[i]
	switch {
	case l.Empty:
		return v.T("There are no runs of workflows yet.")
	case chosen.Count == 0:
		return v.T("No run matches.")
	case i > 0:
		return v.T("%[2]s runs match: %[3]s.", chosen.Count, v.matching(chosen), v.runClause(chosen))
	}
	var clauses []string
	for _, t := range l.States[1:] {
		if t.Count > 0 {
			clauses = append(clauses, string(v.runClause(t)))
		}
	}
	list := template.HTML(v.List(clauses)) //nolint:gosec // made by T
	return v.T("%[2]s runs match: %[3]s.", chosen.Count, v.matching(chosen), list)
}

// runClause is stateClause for a list of runs.
func (v *visit) runClause(t stateTab) template.HTML {
	if t.Name == string(task.Running) {
		return v.T("%[2]s are running", t.Count, v.matching(t))
	}
	return v.stateClause(t)
}

// StepsOf says how many steps of a run have ended, and how many have failed.
func (v *visit) StepsOf(r runRow) template.HTML {
	if !r.Begun {
		return "–"
	}
	said := v.T("%d of %d steps", r.Progress.Ended(), r.Progress.Steps)
	if n := r.Progress.States[workflow.State(workflow.Failed)]; n > 0 {
		said += v.T(", ") + v.T("%s failed", v.Num(n))
	}
	if n := r.Progress.States[workflow.Waiting]; n > 0 {
		said += v.T(", ") + v.T("%s waiting", v.Num(n))
	}
	return said
}
