package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// damages are what somebody, or a loss of keys, can have left of the task broken, and what its damage says.
var damages = []struct {
	name, damage string
	command      []any
	state        client.State
	cancels      bool
}{
	{"a lost payload", "its payload is lost", []any{
		"HDEL", "dts:{0}:payloads", "default:broken",
	}, client.StateScheduled, true},
	{"a payload that is not JSON", `its payload "{" is not JSON`, []any{
		"HSET", "dts:{0}:defs", "default:broken", `1767366245120{"type":"http"}` + "\n{",
	}, client.StateScheduled, true},
	{"a definition of one word", `its definition "17" cannot be read`, []any{
		"HSET", "dts:{0}:defs", "default:broken", "17",
	}, client.StateScheduled, true},
	{"a definition that is not JSON", "its definition cannot be read", []any{
		"HSET", "dts:{0}:defs", "default:broken", "1767366245120{\"type\n{}",
	}, client.StateScheduled, true},
	{"a definition without a type", "its definition has no type", []any{
		"HSET", "dts:{0}:defs", "default:broken", "1767366245120{}\n{}",
	}, client.StateScheduled, true},
	{"no time of its creation", "its definition", []any{
		"HSET", "dts:{0}:defs", "default:broken", "xxxxxxxxxxxxx{\"type\":\"http\"}\n{}",
	}, client.StateScheduled, true},
	{"a state of one word", `its state "lost" cannot be read`, []any{
		"HSET", "dts:{0}:states", "default:broken", "lost",
	}, client.StateUnreadable, false},
	{"an unknown state", `its state "asleep 1" cannot be read`, []any{
		"HSET", "dts:{0}:states", "default:broken", "asleep 1",
	}, client.StateUnreadable, false},
}

// startDamaged is a rig with the tasks broken and whole, the first of them with that damage.
func startDamaged(t *testing.T, command []any) *rig {
	t.Helper()
	r := startRig(t)
	long := `"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`
	for _, id := range []string{"broken", "whole"} {
		got := r.call("POST", "/v1/tasks", `{"id":"`+id+`","type":"http","delay":"1h","payload":`+long+`}`)
		if got.status != http.StatusCreated {
			t.Fatalf("submitting %s: %d %s", id, got.status, got.body)
		}
	}
	testkit.Must(t, r.db.Do(t.Context(), command...).Err())
	return r
}

func TestTasks_ShowWhatCannotBeReadAlone(t *testing.T) {
	t.Parallel()
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startDamaged(t, c.command)
			narrow := client.ListTasksParams{State: []client.State{client.StateScheduled}, Type: new("http")}
			for _, params := range []client.ListTasksParams{{}, narrow} {
				list, err := r.ListTasksWithResponse(t.Context(), &params)
				testkit.Must(t, err)
				if list.JSON200 == nil || len(list.JSON200.Tasks) != 2 {
					t.Fatalf("list: %d %s", list.StatusCode(), list.Body)
				}
				for _, shown := range list.JSON200.Tasks {
					if (shown.ID == "broken") != (shown.Damage != nil) || shown.ID == "whole" && shown.Type != "http" {
						t.Errorf("listed: %+v", shown)
					}
				}
			}
			got, err := r.GetTaskWithResponse(t.Context(), "broken", nil)
			testkit.Must(t, err)
			shown := got.JSON200
			if shown == nil || shown.Damage == nil || !strings.HasPrefix(*shown.Damage, c.damage) || shown.State != c.state {
				t.Errorf("task: %d %s, want the damage %q and the state %s", got.StatusCode(), got.Body, c.damage, c.state)
			}
		})
	}
}

func TestTasks_ChangeNothingThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startDamaged(t, c.command)
			changed := r.call("PATCH", "/v1/tasks/broken", `{"queue":"other"}`)
			retried := r.call("POST", "/v1/tasks/broken/retry", "")
			for _, try := range []answer{changed, retried} {
				codes := []ProblemCode{ProblemCode(task.CodeUnreadable), ProblemCode(task.CodeNotFinished)}
				if p := try.problem(t); !slices.Contains(codes, p.Code) {
					t.Errorf("answered %d %s", try.status, try.body)
				}
			}
			cancelled := r.call("DELETE", "/v1/tasks/broken", "")
			if c.cancels {
				if cancelled.status != http.StatusOK || !strings.Contains(string(cancelled.body), `"cancelled"`) {
					t.Errorf("cancelling: %d %s", cancelled.status, cancelled.body)
				}
			} else if p := cancelled.problem(t); p.Code != ProblemCode(task.CodeUnreadable) {
				t.Errorf("cancelling: %d %s", cancelled.status, cancelled.body)
			}
		})
	}
}

func TestChangeTask_ReplacesALostPayload(t *testing.T) {
	t.Parallel()
	for _, c := range damages[:2] {
		r := startDamaged(t, c.command)
		got := r.call("PATCH", "/v1/tasks/broken", `{"payload":{"url":"http://127.0.0.1:9"}}`)
		body, payload := string(got.body), `{"url":"http://127.0.0.1:9"}`
		if got.status != http.StatusOK || strings.Contains(body, "damage") || !strings.Contains(body, payload) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
}

func TestGetTask_LeavesOutACheckpointThatIsNotJSON(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http"}`)
	r.begin("a")
	testkit.Must(t, r.db.HSet(t.Context(), "dts:{0}:checkpoints", "default:a", "{").Err())
	got := r.call("GET", "/v1/tasks/a", "")
	if got.status != http.StatusOK || !strings.Contains(string(got.body), "its checkpoint is not JSON") {
		t.Errorf("answered %d %s", got.status, got.body)
	}
}

func TestLists_GoPastAKeyOfTheWrongType(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for _, c := range []struct {
		path, key string
		rows      []string // that are shown all the same
	}{
		{"/v1/tasks", "dts:{0}:wheel", []string{`"id":"running"`, `"id":"ended"`, `"id":"queued"`}},
		{"/v1/tasks?state=scheduled", "dts:{0}:wheel", nil},
		{"/v1/tasks", "dts:{0}:state:default:failed", []string{`"id":"waiting"`, `"id":"ended"`}},
		{"/v1/tasks?type=http", "dts:{0}:errors", []string{`"id":"waiting"`, `"id":"ended"`}},
		{"/v1/tasks", "dts:{0}:states", []string{`"id":"waiting"`, `"state":"unreadable"`}},
		{"/v1/tasks", "dts:{0}:backlog", []string{`"id":"waiting"`}},
		{"/v1/tasks/ended/attempts", "dts:{0}:errors", []string{`"number":1`}},
		{"/v1/tasks/twice/attempts", "dts:{0}:attempts:default:twice", []string{`"number":2`}},
		{"/v1/tasks/ended/logs", "dts:{0}:log:default:ended", nil},
		{"/v1/schedules", "dts:{0}:live:default:nightly", []string{`"id":"nightly"`}},
		{"/v1/schedules", "dts:{0}:schedules", nil},
		{"/v1/schedules/nightly/ledger", "dts:{0}:ledger:default:nightly", nil},
		{"/v1/schedules/nightly/history", "dts:{0}:history:default:nightly", []string{`"revision":2`}},
		{"/v1/forecast", "dts:{0}:schedules", nil},
		{"/v1/locks", "dts:{0}:lock:default:door", nil},
		{"/v1/namespaces", "dts:namespaces", nil},
		{"/v1/nodes", "dts:nodes", nil},
		{"/v1/queues", "dts:limits", []string{`"name":"default"`}},
		{"/v1/queues", "asynq:queues", []string{`"name":"default"`}},
	} {
		r.whileDamaged(c.key, wrongType, func() {
			got := r.call("GET", c.path, "")
			for _, want := range append(c.rows, `"warnings":["the key `+c.key, "has the wrong type", "dtsctl doctor") {
				if got.status != http.StatusOK || !strings.Contains(string(got.body), want) {
					t.Errorf("%s, as %s has the wrong type: no %s in %d %s", c.path, c.key, want, got.status, got.body)
				}
			}
		})
	}
}

func TestLists_LeaveOutWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for path, command := range map[string][]any{
		"/v1/schedules":                {"HSET", "dts:{0}:schedule:default:nightly", "def", "{"},
		"/v1/schedules/nightly/ledger": {"ZADD", "dts:{0}:ledger:default:nightly", 1, "{"},
		"/v1/schedules/nightly/audit":  {"ZADD", "dts:{0}:ledger:default:nightly", 1, "{"},
		"/v1/forecast":                 {"HSET", "dts:{0}:schedule:default:nightly", "revision", "x"},
		"/v1/tasks/twice/attempts":     {"LPUSH", "dts:{0}:attempts:default:twice", `{"number":0}`},
		"/v1/tasks/ended/logs":         {"XADD", "dts:{0}:log:default:ended", "9999999999-1", "text", "x"},
		"/v1/locks":                    {"HSET", "dts:{0}:lock:default:door", "fence", "0"},
		"/v1/nodes":                    {"HSET", "dts:nodes", "n2", "17 {}"},
		"/v1/namespaces":               {"ZADD", "dts:namespaces", 1, "a b"},
		"/v1/queues":                   {"HSET", "dts:limits", "low", "many"},
		"/v1/queues?":                  {"SADD", "asynq:queues", "a b"},
	} {
		entry := damage{do: func(ctx context.Context, _ redis.Cmdable, _ string) error {
			return r.db.Do(ctx, command...).Err()
		}}
		r.whileDamaged(command[1].(string), entry, func() {
			got := r.call("GET", path, "")
			if got.status != http.StatusOK || !strings.Contains(string(got.body), `"warnings":["`) {
				t.Errorf("%s answered %d %s", path, got.status, got.body)
			}
		})
	}
}

func TestListQueues_SaysWhatIsNotCounted(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	r.call("POST", "/v1/queues/default/pause", "")
	r.whileDamaged("asynq:{default}:active", wrongType, func() {
		got := r.call("GET", "/v1/queues", "")
		for _, want := range []string{`"name":"default","paused":true`, "the deliveries of queue default are not counted"} {
			if got.status != http.StatusOK || !strings.Contains(string(got.body), want) {
				t.Errorf("no %s in %d %s", want, got.status, got.body)
			}
		}
	})
}

// Nobody can tell whether such a thing exists.
func TestGets_RefuseWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for path, key := range map[string]string{
		"/v1/tasks/ended":             "dts:{0}:defs",
		"/v1/schedules/nightly":       "dts:{0}:schedule:default:nightly",
		"/v1/schedules/nightly/audit": "dts:{0}:history:default:nightly",
		"/v1/locks/door":              "dts:{0}:lock:default:door",
	} {
		r.whileDamaged(key, wrongType, func() {
			got := r.call("GET", path, "")
			if p := got.problem(t); p.Code != ProblemCode(task.CodeUnreadable) || !strings.Contains(p.Detail, "wrong type") ||
				strings.Contains(p.Detail, "may have been made") {
				t.Errorf("%s answered %d %s", path, got.status, got.body)
			}
		})
	}
}

// A definition that is JSON and no rule is damage too, and no fault of whoever asks. Only repair makes way for another one.
func TestSchedules_TellADefinitionThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for _, c := range []struct{ def, method, path, body, want string }{
		{`{"every":"x"}`, "GET", "/v1/schedules/nightly/next", "", "the definition of schedule default:nightly cannot be used"},
		{`{"every":"x"}`, "GET", "/v1/schedules/nightly/audit", "", "the definition of schedule default:nightly cannot be used"},
		{"{", "PUT", "/v1/schedules/nightly", hourly, "dtsctl doctor --repair puts it aside"},
		{"{", "POST", "/v1/schedules/nightly/rollback", `{"revision":1}`, "dtsctl doctor --repair puts it aside"},
	} {
		entry := damage{do: func(ctx context.Context, db redis.Cmdable, key string) error {
			return r.db.HSet(ctx, key, "def", c.def).Err()
		}}
		r.whileDamaged("dts:{0}:schedule:default:nightly", entry, func() {
			got := r.call(c.method, c.path, c.body)
			if p := got.problem(t); p.Code != ProblemCode(task.CodeUnreadable) || !strings.Contains(p.Detail, c.want) {
				t.Errorf("%s %s answered %d %s", c.method, c.path, got.status, got.body)
			}
		})
	}
}

func TestGetTask_ShowsATaskWithoutItsResult(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	r.whileDamaged("dts:{0}:errors", wrongType, func() {
		got := r.call("GET", "/v1/tasks/ended", "")
		const damage = `"damage":"the key dts:{0}:errors of partition 0 has the wrong type`
		for _, want := range []string{`"state":"succeeded"`, damage} {
			if !strings.Contains(string(got.body), want) {
				t.Errorf("no %s in %d %s", want, got.status, got.body)
			}
		}
	})
}

// A stream that has begun cannot answer another status any more.
func TestFollowLogs_EndsWithWhatWentWrong(t *testing.T) {
	t.Parallel()
	r, fails := startFull(t)
	l := r.listen("/v1/tasks/running/logs?follow=true")
	for range 2 {
		if m := l.next(); m.Name != "log" {
			t.Fatalf("got %s %s", m.Name, m.Data)
		}
	}
	fails.arm(1)
	r.source.publish(event(logEvent, "running"))
	if m := l.next(); m.Name != problemEvent || !strings.Contains(string(m.Data), `"code":"unavailable"`) {
		t.Errorf("got %s %s", m.Name, m.Data)
	}
	l.wantEnd()
}

func TestLists_RefuseACursorOfAnotherList(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for _, path := range []string{"/v1/schedules/other", "/v1/locks/other/acquire"} {
		method, body := "PUT", hourly
		if strings.HasSuffix(path, "acquire") {
			method, body = "POST", `{"holder":"me","ttl":"1h"}`
		}
		r.call(method, path, body)
	}
	r.call("POST", "/v1/schedules/nightly/trigger", "")
	lists := []string{"/v1/tasks", "/v1/schedules", "/v1/locks", "/v1/schedules/nightly/ledger"}
	for _, from := range lists {
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		got := r.call("GET", from+"?limit=1", "")
		testkit.Must(t, json.Unmarshal(got.body, &page))
		if page.NextCursor == "" {
			t.Fatalf("%s has no cursor: %s", from, got.body)
		}
		for _, to := range append(lists, "/v1/schedules/nightly/history") {
			got := r.call("GET", to+"?cursor="+page.NextCursor, "")
			if to == from {
				if got.status != http.StatusOK {
					t.Errorf("%s: %d %s", to, got.status, got.body)
				}
			} else if p := got.problem(t); p.Code != ProblemCode(task.CodeInvalid) || p.Field != "cursor" {
				t.Errorf("%s with a cursor of %s: %d %s", to, from, got.status, got.body)
			}
		}
	}
}

// The store of this server gives a page no time at all.
func TestListTasks_SaysThatAPageIsIncomplete(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b, _ := startBackendOn(t, server)
	hurried := openStore(t, server.DB(t))
	hurried.PageTime = 0
	r := startRigOn(t, b, control.New(control.Options{Store: hurried}))
	for i := range layout.ReadChunk + 1 {
		owner := "many"
		if i == 0 { // the one that is due first is on the last page
			owner = "one"
		}
		r.call("POST", "/v1/tasks", fmt.Sprintf(`{"type":"http","owner":%q,"delay":"%dh"}`, owner, i+1))
	}
	first, err := r.ListTasksWithResponse(t.Context(), &client.ListTasksParams{Owner: new("one")})
	testkit.Must(t, err)
	got := first.JSON200
	if got == nil || len(got.Tasks) != 0 || got.NextCursor == nil || got.Incomplete == nil || !*got.Incomplete {
		t.Fatalf("first page: %s", first.Body)
	}
	last, err := r.ListTasksWithResponse(t.Context(), &client.ListTasksParams{Owner: new("one"), Cursor: got.NextCursor})
	testkit.Must(t, err)
	if got := last.JSON200; got == nil || len(got.Tasks) != 1 || got.Incomplete != nil {
		t.Errorf("last page: %s", last.Body)
	}
	full, err := r.ListTasksWithResponse(t.Context(), &client.ListTasksParams{Owner: new("many"), Limit: new(3)})
	testkit.Must(t, err)
	if got := full.JSON200; got == nil || len(got.Tasks) != 3 || got.NextCursor == nil || got.Incomplete != nil {
		t.Errorf("a page that is full: %s", full.Body)
	}
}
