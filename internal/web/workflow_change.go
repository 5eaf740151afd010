package web

import (
	"context"
	"html/template"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// workflowChange is what the page shows that asks before it changes a workflow.
type workflowChange struct {
	task.Ref
	Do       string // the last part of the path
	Title    template.HTML
	Follows  []template.HTML // in sentences
	Warnings []string        // beside what follows
	Wrong    string          // why it cannot be done now; "" if it can
	Button   template.HTML   // "" if there is nothing to do
	Red      bool            // it destroys something
	Hidden   []hiddenField
	Note     bool // it takes a note
	Changes  []manifest.Change
	Cut      bool // there are more of these
}

// Can reports whether it can be done now. Only then has the page its form.
func (c workflowChange) Can(string) bool { return c.Button != "" }

// askingWorkflow is how a change of a workflow is asked for, by the last part of its path.
var askingWorkflow = map[string]func(context.Context, *visit, workflow.Stored) (workflowChange, error){
	"pause": askPauseWorkflow, "resume": askResumeWorkflow, "delete": askDeleteWorkflow, "rollback": askRollbackWorkflow,
}

func readWorkflowChange(ctx context.Context, v *visit) (any, string, error) {
	ask, known := askingWorkflow[v.param("do")]
	if !known {
		return nil, "", echo.ErrNotFound
	}
	v.who = v.ofPath()
	s, err := v.site.Control.GetWorkflow(ctx, v.who, v.param("id"))
	if err != nil {
		return nil, "", err
	}
	c, err := ask(ctx, v, s)
	if refusal := refusalOf(err); refusal != nil {
		c.Button, c.Wrong, err = "", refusal.Error(), nil
	}
	c.Ref, c.Do = s.Ref, v.param("do")
	return c, string(c.Title) + " · " + s.ID, err
}

func askPauseWorkflow(_ context.Context, v *visit, s workflow.Stored) (workflowChange, error) {
	c := workflowChange{Title: v.T("Pause"), Button: v.T("Pause"), Note: true}
	if !s.PausedAt.IsZero() {
		c.Button, c.Wrong = "", string(v.T("It is paused already."))
		return c, nil
	}
	c.Hidden = []hiddenField{{seenField, seenUnpaused}}
	c.Follows = []template.HTML{v.T("No run of it begins until somebody resumes it. Runs that have begun go on.")}
	return c, nil
}

func askResumeWorkflow(_ context.Context, v *visit, s workflow.Stored) (workflowChange, error) {
	c := workflowChange{Title: v.T("Resume"), Button: v.T("Resume")}
	if s.PausedAt.IsZero() {
		c.Button, c.Wrong = "", string(v.T("It is not paused."))
		return c, nil
	}
	c.Hidden = []hiddenField{{seenField, ms(s.PausedAt)}}
	c.Follows = []template.HTML{v.T("Runs that wait begin, in the order in which they became due.")}
	return c, nil
}

func askDeleteWorkflow(ctx context.Context, v *visit, s workflow.Stored) (workflowChange, error) {
	c := workflowChange{Title: v.T("Delete"), Red: true, Button: v.T("Delete the workflow")}
	c.Hidden = []hiddenField{{seenField, workflowSeen(s.CreatedAt, s.Revision)}, {"if_match", itoa(s.Revision)}}
	c.Follows = []template.HTML{
		v.T("Its %d revisions go with it.", s.Revision),
		v.T("Runs that have begun go on. Those that have not begun fail, and so do those that schedules start."),
	}
	users, err := v.site.Control.PreviewDeleteWorkflow(ctx, v.who, s.ID, s.Revision)
	if len(users.Schedules) > 0 {
		c.Follows = append(c.Follows, v.T("These schedules start it: %s", v.List(users.Schedules)))
	}
	if users.More {
		c.Follows = append(c.Follows, v.T("More schedules may start it: not all were looked at."))
	}
	return c, err
}

func askRollbackWorkflow(ctx context.Context, v *visit, s workflow.Stored) (workflowChange, error) {
	revision, _ := strconv.Atoi(v.first("revision"))
	text := v.T("Roll back to revision %d", revision)
	c := workflowChange{Title: text, Button: text}
	c.Hidden = []hiddenField{{"revision", itoa(revision)}, {"if_match", itoa(s.Revision)}}
	o := control.PutOptions{IfMatch: s.Revision, DryRun: true}
	put, err := v.site.Control.RollbackWorkflow(ctx, v.who, s.ID, revision, o)
	if err != nil {
		return c, err
	}
	if !put.Changed {
		c.Button, c.Wrong = "", string(v.T("Revision %d says the same as the present one.", revision))
		return c, nil
	}
	c.Follows = []template.HTML{
		v.T("Its definition becomes revision %d.", s.Revision+1),
		v.T("Runs that have begun keep the revision that they have."),
	}
	c.Warnings = put.Warnings
	changes, err := workflowChanges(s.Definition, put.Workflow.Definition)
	c.Changes, c.Cut, _ = cutChanges(changes, shownDefinition)
	return c, err
}

// deleteWorkflow also succeeds for a workflow that is gone, as for a form that is sent twice.
func deleteWorkflow(ctx context.Context, v *visit, form url.Values) (result, error) {
	s, err := v.site.Control.GetWorkflow(ctx, v.ofPath(), v.param("id"))
	if err == nil { // else it is gone, or nobody can read it
		if err = v.changedSince(workflow.CodeChanged, form, workflowSeen(s.CreatedAt, s.Revision)); err != nil {
			return result{}, err
		}
	}
	match, _ := strconv.Atoi(form.Get("if_match"))
	_, err = v.site.Control.DeleteWorkflow(ctx, v.ofPath(), v.param("id"), match)
	if edge.CodeOf(err) == workflow.CodeNotFound {
		return result{path: "/workflows", said: "workflow-gone"}, nil
	}
	return result{path: "/workflows", said: "workflow-deleted"}, err
}

func rollBackWorkflow(ctx context.Context, v *visit, form url.Values) (result, error) {
	revision, _ := strconv.Atoi(form.Get("revision"))
	match, _ := strconv.Atoi(form.Get("if_match"))
	who, id := v.ofPath(), v.param("id")
	_, err := v.site.Control.RollbackWorkflow(ctx, who, id, revision, control.PutOptions{IfMatch: match})
	if edge.CodeOf(err) == workflow.CodeChanged { // by this form, if it is sent twice
		put, failed := v.site.Control.RollbackWorkflow(ctx, who, id, revision, control.PutOptions{DryRun: true})
		if failed == nil && !put.Changed {
			err = nil
		}
	}
	return v.ofWorkflow("workflow-rolledback", revision), err
}
