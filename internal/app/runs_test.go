package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// seenRun is what a test looks at of a run.
type seenRun struct {
	State, Result, Error string
	Attempt              int
	Paused               bool
	Steps                []struct {
		ID, State  string
		Generation int
	}
}

// states are the states of all steps, in the order of the definition.
func (r seenRun) states() string {
	var words []string
	for _, s := range r.Steps {
		words = append(words, s.ID+" "+s.State)
	}
	return strings.Join(words, ", ")
}

// awaitRun waits until the run etl is in a state.
func (r *running) awaitRun(state string) (run seenRun) {
	r.t.Helper()
	testkit.Eventually(r.t, "etl is "+state, func() bool {
		_, body := r.call(http.MethodGet, "/v1/runs/etl", "")
		run = seenRun{}
		return json.Unmarshal([]byte(body), &run) == nil && run.State == state
	})
	return run
}

// A run whose step fails is run again, and succeeds: over the API, by the leaders and workers of a node.
func TestApp_RunsWorkflows(t *testing.T) {
	t.Parallel()
	r := run(t, Options{Config: settings("")})
	file := t.TempDir() + "/there"
	submission := `{"id": "etl", "params": {"name": "sales"}, "definition": {
		"params": {"name": {"type": "string"}},
		"steps": [
			{"id": "list", "task": {"type": "shell", "payload": {"command": ["echo", "${{ params.name }}"]}}},
			{"id": "check", "needs": ["list"], "task": {
				"type": "shell", "payload": {"command": ["test", "-e", "` + file + `"]}, "retry": {"max_attempts": 1}}},
			{"id": "choose", "needs": ["check"], "decide": [
				{"when": "params.name == 'sales'", "then": ["sales"]}, {"then": ["others"]}]},
			{"id": "sales", "needs": ["choose"], "task": {"type": "noop"}},
			{"id": "others", "needs": ["choose"], "task": {"type": "noop"}}],
		"finally": [{"id": "tidy", "task": {"type": "shell", "payload": {"command": ["touch", "` + file + `"]}}}],
		"output": {"listed": "${{ steps.list.output }}"}}}`
	if status, body := r.call(http.MethodPost, "/v1/runs", submission); status != http.StatusCreated {
		t.Fatalf("submitting: %d %s", status, body)
	}
	failed := r.awaitRun("failed")
	const after = "list succeeded, check failed, choose upstream_failed, sales upstream_failed, others upstream_failed, " +
		"tidy succeeded"
	if got := failed.states(); got != after || !strings.Contains(failed.Error, "check") {
		t.Errorf("it failed as %q: %s", failed.Error, got)
	}
	if status, body := r.call(http.MethodPost, "/v1/runs/etl/rerun", ""); status != http.StatusOK {
		t.Fatalf("rerun: %d %s", status, body)
	}
	run := r.awaitRun("succeeded")
	const end = "list succeeded, check succeeded, choose succeeded, sales succeeded, others skipped, tidy succeeded"
	if got := run.states(); got != end || run.Attempt != 2 || run.Result != `{"listed":"sales"}` ||
		run.Steps[0].Generation != 1 || run.Steps[1].Generation != 2 {
		t.Errorf("after a rerun, it is %+v", run)
	}
	if _, body := r.call(http.MethodGet, "/v1/runs/etl/audit", ""); !strings.Contains(body, `"sound":true`) {
		t.Errorf("the audit says %s", body)
	}
}

func TestApp_PausesAndCancelsRuns(t *testing.T) {
	t.Parallel()
	r := run(t, Options{Config: settings("")})
	submission := `{"id": "etl", "definition": {"steps": [
		{"id": "wait", "task": {"type": "shell", "payload": {"command": ["sleep", "600"]}}},
		{"id": "load", "needs": ["wait"], "rule": "all_done", "task": {"type": "noop"}}],
		"finally": [{"id": "tidy", "task": {"type": "noop"}}]}}`
	if status, body := r.call(http.MethodPost, "/v1/runs", submission); status != http.StatusCreated {
		t.Fatalf("submitting: %d %s", status, body)
	}
	r.awaitRun("running")
	if status, body := r.call(http.MethodPost, "/v1/runs/etl/pause", ""); !strings.Contains(body, `"paused":true`) {
		t.Errorf("pause: %d %s", status, body)
	}
	if status, body := r.call(http.MethodPost, "/v1/runs/etl/resume", ""); !strings.Contains(body, `"paused":false`) {
		t.Errorf("resume: %d %s", status, body)
	}
	r.await("/v1/tasks/etl@.wait", `"state":"running"`)
	if status, body := r.call(http.MethodPost, "/v1/runs/etl/cancel?note=wrong", ""); status != http.StatusOK {
		t.Fatalf("cancel: %d %s", status, body)
	}
	run := r.awaitRun("cancelled")
	if got := run.states(); got != "wait cancelled, load cancelled, tidy succeeded" {
		t.Errorf("it is %q: %s", run.Error, got)
	}
}
