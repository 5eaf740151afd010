package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmitTasks_AnswersEveryTaskInOrder(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"old","type":"http"}`)
	r.call("POST", "/v1/tasks", `{"id":"other","type":"http"}`)
	got := r.call("POST", "/v1/tasks/batch?namespace=default", `{"tasks":[
		{"id":"new","type":"http"},
		{"id":"old","type":"http"},
		{"id":"other","type":"shell"},
		{"type":"http","namespace":"elsewhere"},
		{"type":"http","delay":"1us"},
		{"type":"http","timeout":"99999999h"},
		{"type":"http","dealy":"1s"},
		{"type":1},
		{"type":"http","type":"http"},
		{"type":"http","payload":"\udc00"},
		null,
		{},
		{"type":"http"}]}`)
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var answer wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(got.body, &answer))
	want := []struct {
		status int
		field  string
	}{{201, ""}, {200, ""}, {409, ""}, {400, "namespace"}, {400, "delay"}, {400, "timeout"}, {400, "dealy"}, {400, "type"}, {400, "type"}, {400, "payload"}, {400, ""}, {400, "type"}, {201, ""}}
	if len(answer.Results) != len(want) {
		t.Fatalf("%d results, want %d", len(answer.Results), len(want))
	}
	for i, w := range want {
		got := answer.Results[i]
		if got.Status != w.status || wire.Value(wire.Value(got.Error).Field) != w.field || (got.Status < 300) != (got.Task != nil) || (got.Status < 300) == (got.Error != nil) {
			t.Errorf("result %d is %+v, want status %d, field %q", i, got, w.status, w.field)
		}
	}
}

func TestSubmitTasks_NamesTheFieldThatMayHaveBeenMeant(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	const want = "dealy: is not a field of this request; did you mean delay?"
	if p := r.call("POST", "/v1/tasks", `{"type":"http","dealy":"1s"}`).problem(t); p.Detail != want {
		t.Errorf("%q, want %q", p.Detail, want)
	}
	var answer wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(r.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"http","dealy":"1s"}]}`).body, &answer))
	if got := answer.Results[0].Error.Detail; got != want {
		t.Errorf("in a batch: %q, want %q", got, want)
	}
	if p := r.call("POST", "/v1/tasks", `{"type":"http","retry":{"max_atempts":1}}`).problem(t); wire.Value(p.Field) != "retry.max_atempts" || !strings.HasSuffix(p.Detail, "did you mean max_attempts?") {
		t.Errorf("got %+v", p)
	}
	if p := r.call("POST", "/v1/tasks", `{"type":"http","entirely":1}`).problem(t); strings.Contains(p.Detail, "did you mean") {
		t.Errorf("got %+v", p)
	}
}

func TestSubmitTasks_AnswersABatchWithoutAnyValidTask(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"http","run_at":"2026-02-30T00:00:00Z"}]}`)
	var answer wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(got.body, &answer))
	if len(answer.Results) != 1 || wire.Value(answer.Results[0].Error.Field) != "run_at" {
		t.Errorf("got %s", got.body)
	}
}

func TestSubmitTasks_SaysWhichTasksRedisDidNotTake(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.faults.set(nil, errors.New("no connection"))
	got := r.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"http"}]}`)
	var answer wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(got.body, &answer))
	if len(answer.Results) != 1 || answer.Results[0].Status != http.StatusServiceUnavailable || answer.Results[0].Error.Code != "unavailable" {
		t.Errorf("got %s", got.body)
	}
}

func TestSubmitTasks_LimitsNumberAndBytes(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r := startRig(t)
	many := func(n int) string {
		return `{"tasks":[` + strings.TrimSuffix(strings.Repeat(`{"type":"http"},`, n), ",") + `]}`
	}
	if got := r.call("POST", "/v1/tasks/batch", many(1000)); got.status != http.StatusOK {
		t.Errorf("1,000 tasks: status %d, %s", got.status, got.body)
	}
	for n, field := range map[int]string{0: "tasks", 1001: "tasks"} {
		if p := r.call("POST", "/v1/tasks/batch", many(n)).problem(t); p.Code != "invalid" || wire.Value(p.Field) != field {
			t.Errorf("%d tasks: %+v", n, p)
		}
	}
	big := `{"tasks":[{"type":"http","payload":"` + strings.Repeat("x", 5<<20) + `"}]}`
	if got := r.call("POST", "/v1/tasks/batch", big); got.status != http.StatusOK { // the task is refused, not the batch
		t.Errorf("5 MiB: status %d", got.status)
	}
	tooBig := `{"tasks":[{"type":"http","payload":"` + strings.Repeat("x", 9<<20) + `"}]}`
	if p := r.call("POST", "/v1/tasks/batch", tooBig).problem(t); p.Code != "body_too_large" {
		t.Errorf("9 MiB: %+v", p)
	}
}
