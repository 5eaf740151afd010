package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Package migration says how the data was made, and tests what becomes of it in Redis. The answers differ only where the API
// has new fields: next_cursor of logs, which was not written down, and after_pause, conditions, recent and retry of
// schedules.
func TestOlder_IsAnsweredAsBefore(t *testing.T) {
	t.Parallel()
	data := storetest.ReadOlder(t, "../store/migration/testdata/layout-1.json")
	server := redistest.Start(t)
	data.Restore(t, server.DB(t))
	backend, useCases := startBackendOn(t, server)
	r := startRigOn(t, backend, useCases, func(o *rigOptions) {
		o.Types = task.Types{"http": {Timeout: 30 * time.Second}, "shell": {Timeout: 10 * time.Minute}}
	})
	if len(data.Answers.Tasks) < 50 || len(data.Answers.Schedules) < 10 {
		t.Fatalf("%d tasks, %d schedules", len(data.Answers.Tasks), len(data.Answers.Schedules))
	}
	for _, a := range data.Answers.Tasks {
		path, query := pathOf("tasks", a.Task)
		r.compare(t, path+query, a.Task)
		r.compare(t, path+"/attempts"+query, map[string]any{"attempts": a.Attempts})
		r.compare(t, path+"/logs"+query+"&limit=500", map[string]any{"lines": a.Log}, "next_cursor")
	}
	for _, a := range data.Answers.Schedules {
		path, query := pathOf("schedules", a.Schedule)
		r.compare(t, path+query, a.Schedule, "after_pause", "conditions", "recent", "retry")
		r.compare(t, path+"/ledger"+query+"&limit=500", map[string]any{"entries": a.Ledger})
		r.compare(t, path+"/history"+query, map[string]any{"revisions": a.History})
	}
}

func pathOf(kind string, o map[string]any) (path, query string) {
	return "/v1/" + kind + "/" + url.PathEscape(o["id"].(string)), "?namespace=" + o["namespace"].(string)
}

// compare gets an answer and compares it, but for the fields ignored.
func (r *rig) compare(t *testing.T, path string, want map[string]any, ignored ...string) {
	t.Helper()
	a := r.call(http.MethodGet, path, "")
	var got map[string]any
	testkit.Must(t, json.Unmarshal(a.body, &got))
	for _, field := range ignored {
		delete(got, field)
		delete(want, field)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-before +after):\n%s", path, diff)
	}
}
