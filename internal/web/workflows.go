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
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/graph"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// How much of a workflow its page shows.
const (
	shownRevisions  = 20
	shownChanges    = 12 << 10 // bytes of what revisions have changed
	shownDefinition = 16 << 10 // bytes of a definition
	latestRuns      = 5
)

// latestLooked is how many runs the list of workflows looks through for the newest one of each.
const latestLooked = 100

// workflowList is what the list of workflows shows.
type workflowList struct {
	Prefix string
	Rows   []workflowRow
	Next   string // the cursor of the next page; "" at the end
	First  bool   // it is the first page
	Wrong  string // what is wrong with the address; "" if nothing is
	Partly bool   // there are more runs than those that were looked through
}

// Looked is how many runs were looked through.
func (workflowList) Looked() int { return latestLooked }

// workflowRow is a workflow in the list.
type workflowRow struct {
	workflow.Stored
	Err   string // why it cannot be read; "" if it can
	Count int    // steps, with those of on_failure and finally
	Run   runRow // its newest run; of no task if it is not among those that were looked through
}

func readWorkflows(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Workflows"))
	l := workflowList{First: v.query.Get("cursor") == "", Prefix: strings.TrimSpace(v.query.Get("prefix"))}
	var page control.WorkflowPage
	var runs control.RunList
	err := calls.Try(
		func() (err error) {
			page, err = v.site.Control.ListWorkflows(ctx, v.who, l.Prefix, pageRows, v.query.Get("cursor"))
			return err
		},
		func() (err error) {
			runs, err = v.site.Control.ListRuns(ctx, v.who, control.TaskFilter{Brief: true}, latestLooked, "")
			return err
		},
	)
	if edge.CodeOf(err) == task.CodeInvalid {
		l.Wrong = err.Error()
		return l, title, nil
	}
	if err != nil {
		return nil, "", err
	}
	l.Next, l.Partly = page.NextCursor, runs.NextCursor != ""
	latest := map[task.Ref]task.Task{}
	for _, t := range slices.Backward(runs.Tasks) { // the newest ones come first
		latest[task.Ref{Namespace: t.Namespace, ID: t.Labels[control.WorkflowLabel]}] = t
	}
	for _, found := range page.Workflows {
		row := workflowRow{Stored: found.Stored, Count: stepCount(found.Definition)}
		if t, is := latest[found.Ref]; is {
			row.Run = v.runRow(t, runs.Progress)
		}
		if found.Err != nil {
			row.Err = v.Reason(found.Err.Error())
		}
		row.Description = task.Cut(row.Description, listedText)
		l.Rows = append(l.Rows, row)
	}
	return l, title, nil
}

// stepCount is how many steps a workflow has, with those of on_failure and finally.
func stepCount(d workflow.Definition) int { return len(d.Steps) + len(d.OnFailure) + len(d.Finally) }

// oneWorkflow is what the page of a workflow shows.
type oneWorkflow struct {
	workflow.Stored
	Count     int
	Graph     []drawing
	Revisions []workflowRevision
	Forgotten bool // there were revisions before these, or they are not shown
	Text      string
	Labels    []string
	Runs      []runRow // the newest ones
}

// workflowRevision is a revision, and what it has changed.
type workflowRevision struct {
	workflow.Revision
	Changes  []manifest.Change
	Compared bool // what it has changed is known
	Cut      bool // there are more changes than the page shows
	InForce  bool
}

func readWorkflow(ctx context.Context, v *visit) (any, string, error) {
	c, id := v.site.Control, v.param("id")
	v.who.Namespace = v.param("namespace")
	var o oneWorkflow
	var history []workflow.Revision
	err := calls.Try(
		func() (err error) { o.Stored, err = c.GetWorkflow(ctx, v.who, id); return err },
		func() (err error) { history, err = c.ListWorkflowRevisions(ctx, v.who, id); return err },
		func() error {
			filter := control.TaskFilter{Labels: map[string]string{control.WorkflowLabel: id}, Brief: true, LastEnds: true}
			found, err := c.ListAndCountRuns(ctx, v.who, filter, latestRuns, "")
			for _, t := range found.Tasks {
				o.Runs = append(o.Runs, v.runRow(t, found.Progress))
			}
			return err
		},
	)
	if err != nil {
		return nil, "", err
	}
	o.Count, o.Labels = stepCount(o.Definition), labelsOf(o.Definition.Labels)
	o.Graph = v.plannedGraph(o.Definition, "#definition")
	if err := o.compare(history); err != nil {
		return nil, "", err
	}
	raw, err := text.Encode(o.Definition)
	if err != nil {
		return nil, "", err
	}
	file, err := manifest.WorkflowText(json.RawMessage(raw))
	o.Text = cutHTML(strings.TrimPrefix(file, "---\n"), shownDefinition)
	return &o, id, err
}

// plannedGraph draws the steps of a definition: with what they are, instead of a state. They lead to the definition.
func (v *visit) plannedGraph(d workflow.Definition, href string) []drawing {
	shown := map[string]shownStep{}
	for _, s := range slices.Concat(d.Steps, d.OnFailure, d.Finally) {
		switch {
		case s.Task != nil:
			shown[s.ID] = shownStep{Took: s.Task.Type, Href: href}
		case s.Wait != nil:
			shown[s.ID] = shownStep{
				Mark: stepMark(workflow.Waiting), Word: v.stepState(workflow.Waiting), Took: v.waitKind(*s.Wait), Href: href,
			}
		default:
			shown[s.ID] = shownStep{Took: string(v.T("decides")), Href: href}
		}
	}
	drawn := func(s workflow.Step) graph.Step { return graph.Step{ID: s.ID, Needs: s.Needs} }
	all := drawings(graph.SectionsOf(d.Steps, d.OnFailure, d.Finally, drawn), shown)
	for i := range all {
		all[i].Planned = true
	}
	return all
}

// compare compares each of the newest revisions with the one before, as far as there is room.
func (o *oneWorkflow) compare(history []workflow.Revision) error {
	room := shownChanges
	for i, r := range history[:min(len(history), shownRevisions)] {
		row := workflowRevision{Revision: r, InForce: i == 0}
		if i+1 < len(history) && history[i+1].Number == r.Number-1 {
			changes, err := workflowChanges(history[i+1].Definition, r.Definition)
			if err != nil {
				return err
			}
			row.Compared = true
			row.Changes, row.Cut, room = cutChanges(changes, room)
		}
		o.Revisions = append(o.Revisions, row)
	}
	oldest := o.Revisions[len(o.Revisions)-1].Number
	o.Forgotten = oldest > 1
	return nil
}

// workflowChanges are the fields that differ between two definitions.
func workflowChanges(before, after workflow.Definition) ([]manifest.Change, error) {
	old, err := text.Encode(before)
	if err != nil {
		return nil, err
	}
	changed, err := text.Encode(after)
	if err != nil {
		return nil, err
	}
	return manifest.WorkflowChanges(json.RawMessage(old), json.RawMessage(changed))
}

// cutChanges is as many of some changes as there is room for, each as much as a row shows.
func cutChanges(changes []manifest.Change, room int) (shown []manifest.Change, cut bool, left int) {
	for _, c := range changes {
		c.Before, c.After = cutHTML(c.Before, shownReason), cutHTML(c.After, shownReason)
		if room -= 2*htmlBytes(c.Name) + htmlBytes(c.Before) + htmlBytes(c.After); room < 0 {
			return shown, true, 0
		}
		shown = append(shown, c)
	}
	return shown, false, room
}

// DeadlineOf is how long a run may take.
func (v *visit) DeadlineOf(d workflow.Definition) string { return v.Span(d.EffectiveDeadline()) }

// Can says what can be done with a workflow now.
func (o *oneWorkflow) Can(what string) bool { return (what == "pause") == o.PausedAt.IsZero() }

// ParamWords are what a definition says of a param, behind its type.
func (v *visit) ParamWords(p workflow.Param) template.HTML {
	switch {
	case p.Required:
		return v.T("needed")
	case p.Default != nil:
		return v.T("else %s", code(task.Cut(string(p.Default), 100)))
	}
	return v.T("may be left out")
}

// ofWorkflow is a result on the page of the workflow in the path.
func (v *visit) ofWorkflow(said string, n int) result {
	return result{path: string(v.Path("workflows", v.param("namespace"), v.param("id"))), said: said, n: n}
}

// pauseWorkflow pauses a workflow. If another caller has paused it since its page was read, it refuses: the name and
// the note of that caller stay.
func pauseWorkflow(ctx context.Context, v *visit, form url.Values) (result, error) {
	note := strings.TrimSpace(form.Get("note"))
	s, err := v.site.Control.GetWorkflow(ctx, v.ofPath(), v.param("id"))
	isOurs := s.PauseNote == note && s.PausedBy == v.who.By() // by this form, if it is sent again
	if err == nil && !s.PausedAt.IsZero() && form.Get(seenField) == seenUnpaused && !isOurs {
		return result{}, v.pausedBefore(workflow.CodeChanged, pause{s.PausedBy, s.PausedAt, s.PauseNote}, note)
	}
	_, err = v.site.Control.PauseWorkflow(ctx, v.ofPath(), v.param("id"), note)
	return v.ofWorkflow("workflow-paused", 0), err
}

// resumeWorkflow resumes a workflow, unless somebody has paused it anew.
func resumeWorkflow(ctx context.Context, v *visit, form url.Values) (result, error) {
	s, err := v.site.Control.GetWorkflow(ctx, v.ofPath(), v.param("id"))
	if err == nil && !s.PausedAt.IsZero() {
		if err = v.changedSince(workflow.CodeChanged, form, ms(s.PausedAt)); err != nil {
			return result{}, err
		}
	}
	_, err = v.site.Control.ResumeWorkflow(ctx, v.ofPath(), v.param("id"))
	return v.ofWorkflow("workflow-resumed", 0), err
}

// workflowSeen tells a workflow from another one that is created later with its id, and its revisions.
func workflowSeen(created time.Time, revision int) string { return ms(created) + " " + itoa(revision) }
