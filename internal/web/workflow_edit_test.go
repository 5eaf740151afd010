package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// workflowText is the text of a workflow etl with some lines.
func workflowText(lines ...string) string {
	return "namespace: default\nworkflows:\n  - id: etl\n    " + strings.Join(lines, "\n    ") + "\n"
}

const editEtl = "/workflows/default/etl/edit"

func TestGolden_WorkflowEdit(t *testing.T) {
	inWorld(t, func(w *world) {
		w.putFlow("etl", strings.Replace(etl, `"deadline"`, `"description": "</textarea><script>", "deadline"`, 1))
		w.page("workflow_edit-new", newWorkflowPath+"?namespace=payments", http.StatusOK)
		w.page("workflow_edit", editEtl, http.StatusOK)
		changed := workflowText("deadline: 3h", "steps:", "  - {id: a, task: {type: noop}}",
			"  - {id: b, needs: [a], task: {type: noop}}", "finally:", "  - {id: tidy, task: {type: noop}}")
		w.compare("workflow_edit-checked", w.write(editEtl, "check", changed))
		wrong := workflowText("steps:", "  - {id: a, needs: [c], task: {type: noop}}",
			"  - {id: b, needs: [b], task: {type: noop}}")
		w.compare("workflow_edit-wrong", w.write(newWorkflowPath, "check", wrong))
		w.get("/prefer/language/zh")
		w.compare("workflow_edit-zh", w.write(editEtl, "check", changed))
	})
}

func TestWorkflowEdit_SaysWhatIsWrong(t *testing.T) {
	const one = "The text must have one workflow"
	at := func(place, fault string) string { return place + `:</b> <span dir="auto">` + fault }
	step := "steps: [{id: a, task: {type: noop}}]"
	inWorld(t, func(w *world) {
		w.putFlow("etl", etl)
		for name, c := range map[string]struct{ path, text, want string }{
			"no YAML": {editEtl, "a: [", "Line 1"},
			"unknown field": {
				editEtl, workflowText(step, "stepz: []"), at("Line 5, column 5", "workflows[0].stepz: is not a field"),
			},
			"wrong type": {
				editEtl, workflowText("steps:", "  - {id: a, needs: b}"),
				at("Line 5, column 24", "workflows[0].steps[0].needs: must be a list"),
			},
			"a schedule": {newWorkflowPath, definitionOf("every: 1h"), one},
			"nothing":    {newWorkflowPath, "", one},
			"cycle": {
				editEtl, workflowText("steps:", "  - {id: a, needs: [a], task: {type: noop}}"),
				at("Line 5, column 25", "workflows[0].steps[0].needs[0]: "),
			},
			"shell": {
				editEtl, workflowText("params: {x: {type: string}}", "steps:", "  - id: a",
					`    task: {type: shell, payload: {command: [sh, -c, "${{ params.x }}"]}}`),
				at("Line 7, column 57", "workflows[0].steps[0].task.payload.command[2]: takes no expressions"),
			},
			"there already": {
				newWorkflowPath, workflowText(step), `exists, at revision 1. <a href="` + editEtl + `">Edit it</a>`,
			},
			"another id": {
				editEtl, strings.Replace(workflowText(step), "etl", "other", 1),
				at("Line 3, column 9", "workflows[0].id: must stay etl"),
			},
		} {
			got := w.write(c.path, "put", c.text)
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, c.want) {
				t.Errorf("%s: %d: the page does not say %q:\n%s", name, got.status, c.want, got.text)
			}
			if strings.Contains(got.text, `value="put"`) {
				t.Errorf("%s: the page offers to put it", name)
			}
		}
		if s := w.workflow("etl"); s.Revision != 1 {
			t.Errorf("revision %d was put", s.Revision)
		}
	})
}

// workflow is what is stored of a workflow.
func (w *world) workflow(id string) workflow.Stored {
	w.t.Helper()
	s, err := w.control.GetWorkflow(w.ctx, me, id)
	testkit.Must(w.t, err)
	return s
}

// What was checked is put, once, and over no revision that its writer has not seen.
func TestWorkflowEdit_PutsWhatWasChecked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.knowRuns()
		first := w.get(newWorkflowPath).text
		got := w.send(http.MethodPost, newWorkflowPath, w.shownAgain(first, keyOf(first)))
		if !strings.Contains(got.text, "It is valid.") || !strings.Contains(got.text, "Put revision 1") {
			t.Errorf("what a new one begins with: %d\n%s", got.status, got.text)
		}
		form := w.fill(newWorkflowPath, "text", workflowText("steps: [{id: a, task: {type: noop}}]"), "do", "check")
		form = w.checked(newWorkflowPath, form)
		form.Set("do", doPut)
		for _, said := range []string{"put", "put-before"} { // the second time, another node gets it
			w.expectDone(newWorkflowPath, form, "/workflows/default/etl?n=1&said="+said)
			w.serve()
		}
		mine := workflowText("steps: [{id: a, task: {type: noop}}, {id: b, task: {type: noop}}]")
		old := w.checked(editEtl, w.fill(editEtl, "text", mine, "do", "check"))
		w.putFlow("etl", `{"deadline": "3h", "steps": [{"id": "a", "task": {"type": "noop"}}]}`)
		old.Set("do", doPut)
		got = w.send(http.MethodPost, editEtl, old)
		if got.status != http.StatusOK || !strings.Contains(got.text, "Somebody has put revision 2 meanwhile.") ||
			!strings.Contains(got.text, "<del>deadline: <bdi>3h") {
			t.Errorf("over another revision: %d\n%s", got.status, got.text)
		}
		if s := w.workflow("etl"); s.Revision != 2 || len(s.Steps) != 1 {
			t.Errorf("revision %d has %d steps", s.Revision, len(s.Steps))
		}
		if to := w.write(editEtl, "put", mine).leadsTo(); to != "/workflows/default/etl?n=3&said=put" {
			t.Errorf("put again, it leads to %q", to)
		}
		if s := w.workflow("etl"); s.Revision != 3 || len(s.Steps) != 2 || s.Deadline != 0 {
			t.Errorf("revision %d has %d steps", s.Revision, len(s.Steps))
		}
	})
}

func TestWorkflowEdit_WarnsOfSchedulesWhoseParamsDoNotFit(t *testing.T) {
	inWorld(t, func(w *world) {
		step := "steps: [{id: a, task: {type: noop}}]"
		w.putFlow("etl", `{"params": {"day": {"required": true, "type": "string"}},
			"steps": [{"id": "a", "task": {"type": "noop"}}]}`)
		w.putFlow("etl", `{"steps": [{"id": "a", "task": {"type": "noop"}}]}`)
		w.put("nightly", func(d *schedule.Definition) {
			d.Task = task.Definition{Type: task.WorkflowType, Payload: []byte(`{"workflow": "etl"}`)}
		})
		const want = `<div dir="auto">schedule nightly: its runs will fail: params.day: ` +
			`is missing: a run needs it</div>`
		changed := workflowText("params: {day: {type: string, required: true}}", step)
		for from, text := range map[string]string{
			"check":    w.write(editEtl, "check", changed).text,
			"rollback": w.get("/workflows/default/etl/rollback?revision=1").text,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page does not warn:\n%s", from, text)
			}
		}
	})
}
