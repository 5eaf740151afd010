package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// etl is the workflow of these tests.
const etl = `{"description": "loads what the shops sold", "max_runs": 1,
	"params": {
		"day": {"type": "string", "required": true, "pattern": "[0-9-]+"}, "size": {"type": "integer", "default": 5},
		"shops": {"type": "list", "default": []}},
	"steps": [
		{"id": "list", "task": {"type": "http", "payload": {"url": "http://x/${{ params.day }}"}}},
		{"id": "load", "needs": ["list"], "task": {"type": "http"}},
		{"id": "count", "needs": ["list"], "task": {"type": "http"}},
		{"id": "report", "needs": ["load", "count"], "when": "params.size > 3", "task": {"type": "http"}},
		{"id": "done", "needs": ["report", "list"], "task": {"type": "http"}}],
	"on_failure": [{"id": "alert", "task": {"type": "http"}}],
	"finally": [{"id": "tidy", "task": {"type": "http"}}],
	"deadline": "2h"}`

// knowRuns lets all nodes know runs of workflows.
func (w *world) knowRuns() {
	w.t.Helper()
	nobody := func(context.Context) ([]cluster.Node, error) { return nil, nil }
	testkit.Must(w.t, w.store.Advance(w.ctx, nobody))
}

// putFlow puts a workflow.
func (w *world) putFlow(id, definition string) {
	w.t.Helper()
	w.knowRuns()
	_, err := w.control.PutWorkflow(w.ctx, me, id, json.RawMessage(definition), control.PutOptions{})
	testkit.Must(w.t, err)
}

// startWorkflow starts a run of a workflow that was put, and lets it begin.
func (w *world) startWorkflow(id, of, params string) task.Ref {
	w.t.Helper()
	ref := w.submit(id, func(d *task.Definition) {
		d.Type, d.Payload = task.WorkflowType, []byte(`{"workflow": "`+of+`", "params": `+params+`}`)
		d.Labels = map[string]string{"team": "data"}
	})
	w.claim(1000)
	w.plan(ref, true)
	return ref
}

// plan does what the leader of a run does once: it carries the run on from what its tasks are. begin says that the run
// begins, after its claim.
func (w *world) plan(ref task.Ref, begin bool) {
	w.t.Helper()
	leader := w.store.Partitions.At(w.store.PartitionOf(ref)).Lead(fence)
	reads, err := leader.ReadRuns(w.ctx, partition.ReadRun{Ref: ref})
	testkit.Must(w.t, err)
	read := reads[0]
	start, err := text.ParseStart(ref.Namespace, read.Task.Payload)
	testkit.Must(w.t, err)
	d, revision := start.Definition, 0
	switch {
	case read.Plan != "":
		d, revision, err = text.ParsePlan(ref.Namespace, read.Plan)
	case start.Workflow != "":
		var stored workflow.Stored
		stored, err = w.store.Workflows.Get(w.ctx, task.Ref{Namespace: ref.Namespace, ID: start.Workflow})
		d, revision = stored.Definition, stored.Revision
	}
	testkit.Must(w.t, err)
	flow, err := workflow.Compile(d)
	testkit.Must(w.t, err)
	run := workflow.NewRun(flow)
	if read.Text != "" {
		run, err = workflow.DecodeRun(read.Text, flow.Len())
		testkit.Must(w.t, err)
	}
	params, err := d.Bind(start.Params)
	testkit.Must(w.t, err)
	in := workflow.Input{
		Now: clock.Now().Truncate(time.Millisecond), Room: workflow.StepsLimit,
		About: workflow.About{Ref: ref, Created: read.Task.CreatedAt, Params: params},
	}
	if begin {
		in.Begin = read.Task.Attempt
	}
	for line := range strings.Lines(read.Asks) {
		ask, _ := flow.ParseAsk(strings.TrimSpace(line))
		in.Asks = append(in.Asks, ask)
	}
	if !read.Task.CancelRequested.IsZero() {
		in.Asks = append(in.Asks, workflow.Ask{Do: workflow.DoCancel})
	}
	var steps []task.Ref
	for i := range flow.Len() {
		steps = append(steps, ref.Step(flow.StepID(i)))
	}
	found, err := leader.ReadSteps(w.ctx, steps)
	testkit.Must(w.t, err)
	var seen []partition.Seen
	for i := range steps {
		t := found[i].Task
		seen = append(seen, found[i].Seen)
		in.Tasks = append(in.Tasks, workflow.Task{
			Step: i, State: t.State, Attempt: t.Attempt, Result: t.Result, Error: t.Error,
		})
	}
	plan := workflow.Next(flow, run, in)
	write := partition.RunWrite{Run: read, Begin: begin, Saw: seen, Text: plan.Run.Encode(), Look: in.Now.Add(time.Hour)}
	write.Plan, err = text.EncodePlan(d, revision)
	testkit.Must(w.t, err)
	for _, released := range plan.Release {
		write.Release = append(write.Release, partition.Release{Task: released.Task, Again: released.Again, Attempts: 1})
	}
	if plan.End != nil {
		write.End = &partition.RunEnd{
			State: plan.End.State, Error: plan.End.Error, Result: plan.End.Result, Kept: in.Now.Add(time.Hour),
		}
	}
	written, err := leader.Advance(w.ctx, []partition.RunWrite{write})
	testkit.Must(w.t, err)
	if !written[0] {
		w.t.Fatalf("the plan of %s was not written", ref)
	}
}

// step runs the task of a step of a run to its end, and has the leader look at it.
func (w *world) step(run task.Ref, id string, end task.State, reason string) {
	w.t.Helper()
	w.run(run.Step(id), 1200*time.Millisecond, end, `{"rows": 3}`, reason)
	w.plan(run, false)
}

// seenForm is a form of a page with all that it says its reader has seen, and with some fields filled in.
func (w *world) seenForm(page string, fields ...string) url.Values {
	w.t.Helper()
	form := w.typed(page, fields...)
	all := regexp.MustCompile(`type="hidden" name="(seen|revision|if_match|ended)" value="([^"]*)"`)
	for _, field := range all.FindAllStringSubmatch(w.get(page).text, -1) {
		form.Set(field[1], field[2])
	}
	return form
}

// flows are a workflow with runs of each kind.
func (w *world) flows() {
	w.t.Helper()
	w.putFlow("etl", etl)
	w.startWorkflow("flow", "etl", `{"day": "2026-11-25"}`)
	w.step(task.Ref{Namespace: "default", ID: "flow"}, "list", task.Succeeded, "")
}

func TestGolden_Runs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page("runs-empty", "/runs", http.StatusOK)
		w.flows()
		failed := w.startWorkflow("failed", "etl", `{"day": "2026-11-24", "size": 7}`)
		w.step(failed, "list", task.Succeeded, "")
		w.step(failed, "load", task.Failed, "HTTP 503: the shop is closed")
		w.step(failed, "count", task.Succeeded, "")
		w.step(failed, "alert", task.Succeeded, "")
		w.step(failed, "tidy", task.Succeeded, "")
		w.begin(task.Ref{Namespace: "default", ID: "flow"}.Step("load"))
		w.pass(70 * time.Second)
		w.pack()
		w.page("runs", "/runs", http.StatusOK)
		w.page("runs-filtered", "/runs?state=failed&workflow=etl&namespace=default", http.StatusOK)
		w.page("runs-wrong", "/runs?since=yesterday", http.StatusOK)
		w.page("run-runs", "/runs/default/flow", http.StatusOK)
		w.page("run-failed", "/runs/default/failed", http.StatusOK)
		w.page("run-not-found", "/runs/default/nobody", http.StatusNotFound)
		w.get("/prefer/language/zh")
		w.page("runs-zh", "/runs", http.StatusOK)
		w.page("run-failed-zh", "/runs/default/failed", http.StatusOK)
	})
}

func TestRun_IsSteered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.flows()
		ref := task.Ref{Namespace: "default", ID: "flow"}
		const page = "/runs/default/flow"
		w.expectDone(page+"/pause", w.form(page), page+"?said=run-paused")
		w.expect(page, "Its leader has not done yet what was asked of it last.")
		w.plan(ref, false)
		w.expect(page, "Paused: no further step begins. 1 of 7 steps have ended", page+`/resume"`)
		w.expectNot(page, page+`/pause"`)
		w.expectDone(page+"/resume", w.form(page), page+"?said=run-resumed")
		w.plan(ref, false)
		w.expect(page, "Runs: 1 of 7 steps have ended")
		w.expectRefused(page+"/cancel", w.typed(page, "note", "two\nlines"), `aria-invalid="true"`, "write one line of text")
		w.expectDone(page+"/cancel", w.typed(page, "note", "wrong day"), page+"?said=run-cancelled")
		w.plan(ref, false)
		for _, id := range []string{"load", "count"} {
			run := w.begin(ref.Step(id))
			testkit.Must(w.t, run.Finish(w.ctx, task.Cancelled, task.OutcomeCancelled, "", ""))
		}
		w.plan(ref, false)
		w.step(ref, "tidy", task.Succeeded, "")
		w.expect(page, ": wrong day", "Run what failed again")
		w.expectRefused(page+"/rerun", w.typed(page, "from", "nothing"), `value="nothing"`, "the run has no step")
		form := w.seenForm(page, "from", "load")
		w.expectDone(page+"/rerun", form, page+"?said=run-again")
		form.Set("key", w.form(page).Get("key")) // as of another tab that shows the same end
		w.expectDone(page+"/rerun", form, page+"?said=run-again")
		w.expect(page, "Is due, and has not begun")
		w.expectNot(page, "Tries again")
		if r, err := w.control.GetRun(w.ctx, me, "flow"); err != nil || r.Task.State.Final() {
			t.Errorf("it does not run again: %v, %+v", err, r.Task)
		}
	})
}

// What is no run has another page, and a step is not retried by itself.
func TestRun_IsLinkedWithTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.flows()
		w.submit("plain", nil)
		if got := w.get("/runs/default/plain"); got.status != http.StatusSeeOther || got.leadsTo() != "/tasks/default/plain" {
			t.Errorf("a task that is no run: %d to %q", got.status, got.leadsTo())
		}
		w.expect("/tasks/default/flow", `href="/runs/default/flow"`)
		w.expectNot("/tasks/default/flow", "To another queue")
		w.expect("/tasks/default/flow@.list", `href="/runs/default/flow"`, "its run decides")
		w.expectNot("/tasks/default/flow@.list", "/retry\"")
		w.expect("/runs/default/flow", `href="/tasks/default/flow@.list"`)
	})
}

// A run with as many steps as there may be has a page of bounded size, whatever its graph.
func TestRun_WithManySteps(t *testing.T) {
	step := func(id string, needs ...string) string {
		list, _ := json.Marshal(slices.Concat([]string{}, needs))
		return fmt.Sprintf(`{"id": %q, "needs": %s, "task": {"type": "http"}}`, id, list)
	}
	long, short := strings.Repeat("x", 56), "s"
	id := func(prefix string, i int) string { return fmt.Sprintf("%s%04d", prefix, i) }
	fan, tangle := []string{step(id(long, 0))}, []string{step(id(short, 0))}
	for i := 1; i < workflow.StepsLimit; i++ {
		fan = append(fan, step(id(long, i), id(long, 0)))
		var needs []string
		for _, back := range []int{1, 2, 3, 5, 8, 13, 21, 34} {
			if back <= i {
				needs = append(needs, id(short, i-back))
			}
		}
		tangle = append(tangle, step(id(short, i), needs...))
	}
	for name, c := range map[string]struct {
		steps []string
		alike string
		want  []string
	}{
		"fan": {fan, id(long, 1), []string{"+998 ", "1 to 40 of 999"}},
		"tangle": {tangle, id(short, 1), []string{
			"950 of 1,000 steps are not drawn", "Not all lines", "Steps that need the same as s0001.",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.putFlow("large", `{"steps": [`+strings.Join(c.steps, ",")+`]}`)
				w.startWorkflow("flow", "large", "{}")
				for _, path := range []string{"/runs/default/flow", "/workflows/default/large"} {
					got := w.get(path)
					if t.Logf("%s has %d bytes", path, len(got.text)); got.status != http.StatusOK || len(got.text) > sizeLimit {
						t.Errorf("%s: status %d, %d bytes", path, got.status, len(got.text))
					}
				}
				w.expect("/runs/default/flow", "1 to 40 of 1,000")
				w.expect("/runs/default/flow?cursor=960", "961 to 1,000 of 1,000", "0999</span>")
				w.expect("/runs/default/flow?like="+c.alike, c.want...)
			})
		})
	}
}

func TestGolden_Workflows(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page("workflows-empty", "/workflows", http.StatusOK)
		w.flows()
		w.putFlow("etl", strings.Replace(etl, `"deadline": "2h"`, `"deadline": "3h"`, 1))
		w.putFlow("paused", `{"steps": [{"id": "only", "task": {"type": "http"}}]}`)
		_, err := w.control.PauseWorkflow(w.ctx, me, "paused", "month-end close")
		testkit.Must(t, err)
		w.pass(70 * time.Second)
		w.pack()
		w.page("workflows", "/workflows", http.StatusOK)
		w.page("workflow", "/workflows/default/etl", http.StatusOK)
		w.page("workflow-paused", "/workflows/default/paused", http.StatusOK)
		w.page("workflow-not-found", "/workflows/default/nobody", http.StatusNotFound)
		w.page("workflow_start", "/workflows/default/etl/run", http.StatusOK)
		for _, do := range []string{"pause", "delete", "rollback?revision=1"} {
			name, _, _ := strings.Cut(do, "?")
			w.page("workflow_change-"+name, "/workflows/default/etl/"+do, http.StatusOK)
		}
		w.page("workflow_change-resume", "/workflows/default/paused/resume", http.StatusOK)
		w.page("workflow_change-wrong", "/workflows/default/etl/resume", http.StatusOK)
		w.get("/prefer/language/zh")
		w.page("workflows-zh", "/workflows", http.StatusOK)
		w.page("workflow-zh", "/workflows/default/etl", http.StatusOK)
		w.page("workflow_start-zh", "/workflows/default/etl/run", http.StatusOK)
	})
}

func TestWorkflow_StartsRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.putFlow("etl", etl)
		const page = "/workflows/default/etl/run"
		wrong := w.typed(page, paramPrefix+"size", "many", paramPrefix+"day", "<today>", paramPrefix+"shops", "[1,")
		w.expectRefused(page, wrong, `name="payload.params.size" value="many"`, `value="&lt;today&gt;"`, "[1,</textarea>",
			"is not of type integer", "does not match the pattern", "is not of type list")
		w.expectRefused(page, w.typed(page, "due", "soon"), `value="soon"`, "give a duration")
		form := w.typed(page, paramPrefix+"day", "2026-11-25", paramPrefix+"shops", `["a"]`, "id", "etl-1", "due", "1h")
		w.expectDone(page, form, "/runs/default/etl-1?said=run-started")
		r, err := w.control.GetRun(w.ctx, me, "etl-1")
		testkit.Must(t, err)
		if day, shops, size := string(r.Params["day"]), string(r.Params["shops"]), r.Params["size"]; day != `"2026-11-25"` ||
			shops != `["a"]` || size != nil {
			t.Errorf("it has the params %s, %s, %s", day, shops, size)
		}
		w.expect("/runs/default/etl-1", "Waits until it is due in 60 min", "2026-11-25")
		w.pass(time.Second)
		others := make([]task.Definition, latestLooked)
		for i := range others {
			others[i] = task.Definition{Type: task.WorkflowType, Payload: []byte(`{"workflow": "other"}`), Delay: time.Hour}
			others[i].Ref = task.Ref{Namespace: "default", ID: fmt.Sprintf("other-%d", i)}
			others[i] = others[i].Normalize()
		}
		w.expectNot("/workflows", "none of the newest")
		for _, made := range w.store.Tasks.Create(w.ctx, others) {
			testkit.Must(t, made.Err)
		}
		w.expect("/workflows", "none of the newest 100")
		if got := w.send(http.MethodPost, "/workflows/default/nobody/run", w.form(page)); got.status != http.StatusNotFound {
			t.Errorf("a workflow that is not there: status %d", got.status)
		}
	})
}

func TestWorkflow_IsSteered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.putFlow("etl", etl)
		w.putFlow("etl", strings.Replace(etl, `"deadline": "2h"`, `"deadline": "3h"`, 1))
		const page = "/workflows/default/etl"
		stored := func() workflow.Stored {
			s, err := w.control.GetWorkflow(w.ctx, me, "etl")
			testkit.Must(t, err)
			return s
		}
		old := w.seenForm(page+"/pause", "note", "too late")
		w.expectDone(page+"/pause", w.typed(page+"/pause", "note", "month-end close"), page+"?said=workflow-paused")
		if s := stored(); s.PauseNote != "month-end close" {
			t.Errorf("it is not paused: %+v", s)
		}
		if got := w.send(http.MethodPost, page+"/pause", old); got.status == http.StatusSeeOther ||
			!strings.Contains(got.text, "month-end close") || !strings.Contains(got.text, "too late") {
			t.Errorf("a pause of one that is paused: %d, %s", got.status, got.text)
		}
		w.expectDone(page+"/resume", w.form(page+"/resume"), page+"?said=workflow-resumed")
		w.put("nightly", func(d *schedule.Definition) {
			d.Task.Type, d.Task.Payload = task.WorkflowType, []byte(`{"workflow": "etl", "params": {"day": "2026-11-25"}}`)
		})
		w.expect(page+"/delete", "These schedules start it: nightly")
		late := w.seenForm(page + "/delete")
		w.expectDone(page+"/rollback", w.seenForm(page+"/rollback?revision=1"), page+"?n=1&said=workflow-rolledback")
		if s := stored(); s.Revision != 3 || s.Deadline != 2*time.Hour || !s.PausedAt.IsZero() {
			t.Errorf("it is not rolled back: %+v", s)
		}
		if got := w.send(http.MethodPost, page+"/delete", late); !strings.Contains(got.text, "It has changed since") {
			t.Errorf("it was deleted by an old page: %d", got.status)
		}
		w.expectDone(page+"/delete", w.seenForm(page+"/delete"), "/workflows?said=workflow-deleted")
		w.expect("/workflows", "There are no workflows yet.")
		if got := w.get(page); got.status != http.StatusNotFound {
			t.Errorf("it is there: status %d", got.status)
		}
	})
}

// A schedule that starts a workflow leads to it, and so does its run to the schedule.
func TestSchedule_LeadsToItsWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.putFlow("etl", etl)
		w.put("nightly", func(d *schedule.Definition) {
			d.Task.Type, d.Task.Payload = task.WorkflowType, []byte(`{"workflow": "etl", "params": {"day": "2026-11-25"}}`)
		})
		w.expect("/schedules/default/nightly", `href="/workflows/default/etl"`)
	})
}

func TestRun_MarksAFailureThatIsAllowed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.putFlow("etl", `{"steps": [
			{"id": "load", "allow_failure": true, "task": {"type": "http"}},
			{"id": "report", "needs": ["load"], "task": {"type": "http"}}]}`)
		run := w.startWorkflow("etl-1", "etl", "{}")
		w.expectNot("/runs/default/etl-1", ">allowed<")
		w.step(run, "load", task.Failed, "HTTP 503")
		w.expect("/runs/default/etl-1", ">allowed</span> HTTP 503")
	})
}
