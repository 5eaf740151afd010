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
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// damages are what somebody, or a loss of keys, can have left of the task broken, and what its damage says.
var damages = []struct {
	name, damage string
	command      []any
	state        wire.State
	cancels      bool
}{
	{"a lost payload", "its payload is lost", []any{
		"HDEL", "dts:{0}:payloads", "default:broken",
	}, wire.StateScheduled, true},
	{"a payload that is not JSON", `its payload "{" is not JSON`, []any{
		"HSET", "dts:{0}:defs", "default:broken", `1767366245120{"type":"http"}` + "\n{",
	}, wire.StateScheduled, true},
	{"a definition of one word", `its definition "17" cannot be read`, []any{
		"HSET", "dts:{0}:defs", "default:broken", "17",
	}, wire.StateScheduled, true},
	{"a definition that is not JSON", "its definition cannot be read", []any{
		"HSET", "dts:{0}:defs", "default:broken", "1767366245120{\"type\n{}",
	}, wire.StateScheduled, true},
	{"a definition without a type", "its definition has no type", []any{
		"HSET", "dts:{0}:defs", "default:broken", "1767366245120{}\n{}",
	}, wire.StateScheduled, true},
	{"no time of its creation", "its definition", []any{
		"HSET", "dts:{0}:defs", "default:broken", "xxxxxxxxxxxxx{\"type\":\"http\"}\n{}",
	}, wire.StateScheduled, true},
	{"a state of one word", `its state "lost" cannot be read`, []any{
		"HSET", "dts:{0}:states", "default:broken", "lost",
	}, wire.StateUnreadable, false},
	{"an unknown state", `its state "asleep 1" cannot be read`, []any{
		"HSET", "dts:{0}:states", "default:broken", "asleep 1",
	}, wire.StateUnreadable, false},
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
			narrow := client.ListTasksParams{State: []wire.State{wire.StateScheduled}, Type: new("http")}
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
			if shown != nil && (shown.Type == "") != (shown.Timeout == "") {
				t.Errorf("the timeout of a task of type %q is %q", shown.Type, shown.Timeout)
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
				codes := []wire.ProblemCode{wire.ProblemCode(task.CodeUnreadable), wire.ProblemCode(task.CodeNotFinished)}
				if p := try.problem(t); !slices.Contains(codes, p.Code) {
					t.Errorf("answered %d %s", try.status, try.body)
				}
			}
			cancelled := r.call("DELETE", "/v1/tasks/broken", "")
			if c.cancels {
				if cancelled.status != http.StatusOK || !strings.Contains(string(cancelled.body), `"cancelled"`) {
					t.Errorf("cancelling: %d %s", cancelled.status, cancelled.body)
				}
			} else if p := cancelled.problem(t); p.Code != wire.ProblemCode(task.CodeUnreadable) {
				t.Errorf("cancelling: %d %s", cancelled.status, cancelled.body)
			}
		})
	}
}

// It would fail at once again.
func TestRetryTask_RefusesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	r.call("DELETE", "/v1/tasks/waiting", "")
	testkit.Must(t, r.db.HSet(t.Context(), "dts:{0}:defs", "default:waiting", "17").Err())
	got := r.call("POST", "/v1/tasks/waiting/retry", "")
	if p := got.problem(t); p.Code != wire.ProblemCode(task.CodeUnreadable) {
		t.Errorf("answered %d %s", got.status, got.body)
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
	testkit.Must(t, r.db.SAdd(t.Context(), "dts:{0}:backlog", "default").Err()) // as if tasks waited there
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
		{"/v1/schedules/nightly", "dts:{0}:live:default:nightly", []string{`"id":"nightly"`}},
		{"/v1/schedules/nightly", "dts:{0}:waiting:default:nightly", []string{`"id":"nightly"`}},
		{"/v1/schedules", "dts:{0}:schedules", nil},
		{"/v1/schedules/nightly/ledger", "dts:{0}:ledger:default:nightly", nil},
		{"/v1/schedules/nightly/history", "dts:{0}:history:default:nightly", []string{`"revision":2`}},
		{"/v1/forecast", "dts:{0}:schedules", nil},
		{"/v1/forecast/next", "dts:{0}:ticks", nil},
		{"/v1/locks", "dts:{0}:lock:default:door", nil},
		{"/v1/namespaces", "dts:namespaces", nil},
		{"/v1/nodes", "dts:nodes", nil},
		{"/v1/queues", "dts:limits", []string{`"name":"default"`}},
		{"/v1/queues", "dts:{0}:backlog", []string{`"name":"default"`}},
		{"/v1/queues", "asynq:queues", []string{`"name":"default"`}},
		{"/v1/queues", "dts:{0}:ready:default", []string{`"name":"default"`}},
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
	r.call("PUT", "/v1/schedules/other", hourly)
	r.call("POST", "/v1/locks/other/acquire", `{"holder":"me","ttl":"1h"}`)
	for _, c := range []struct {
		path, key string
		commands  []string // without the key
		row       string   // that is shown all the same
	}{
		{"/v1/schedules", "dts:{0}:schedule:default:nightly", []string{"HSET def {"}, `"id":"other"`},
		{"/v1/schedules", "dts:{0}:schedule:default:nightly", []string{"DEL"}, `"id":"other"`},
		{"/v1/schedules/nightly/audit", "dts:{0}:history:default:nightly", []string{"LSET 0 {"}, `"proved"`},
		{"/v1/schedules/nightly/audit", "dts:{0}:ledger:default:nightly", []string{"ZADD 1 {"}, `"proved"`},
		{"/v1/schedules/nightly/ledger", "dts:{0}:ledger:default:nightly", []string{"ZADD 9e12 {"}, `"outcome":"triggered"`},
		{"/v1/schedules/nightly/ledger", "dts:{0}:ledger:default:nightly", []string{
			"ZADD 9e12 20260102T150405Z|exploded|0|0|1|1|",
		}, `"outcome":"triggered"`},
		{"/v1/schedules/nightly/history", "dts:{0}:history:default:nightly", []string{"LPUSH {"}, `"revision":1`},
		{"/v1/forecast", "dts:{0}:schedule:default:nightly", []string{"HSET revision x"}, `"per_minute"`},
		{"/v1/tasks/twice/attempts", "dts:{0}:attempts:default:twice", []string{`LPUSH {"number":0}`}, `"number":1`},
		{"/v1/tasks/twice/attempts", "dts:{0}:attempts:default:twice", []string{"LPUSH {"}, `"number":1`},
		{"/v1/tasks/ended/logs", "dts:{0}:log:default:ended", []string{
			"XADD 1-8 text x", "XADD 1-9 at 1767366245120 stream stdout text after",
		}, `"text":"after"`},
		{"/v1/tasks/ended/logs", "dts:{0}:log:default:ended", []string{"XADD 9999999999-1 text x"}, `"text":"three"`},
		{"/v1/locks", "dts:{0}:lock:default:door", []string{"HSET fence 0"}, `"name":"other"`},
		{"/v1/nodes", "dts:nodes", []string{"HSET n0 garbage"}, `"id":"n1"`},
		{"/v1/nodes", "dts:nodes", []string{"HSET n0 17|{}"}, `"id":"n1"`},
		{"/v1/namespaces", "dts:namespaces", []string{"ZADD 1 a|b"}, `"name":"default"`},
		{"/v1/queues", "dts:limits", []string{"HSET default2 many"}, `"name":"default"`},
		{"/v1/queues", "asynq:queues", []string{"SADD a|b"}, `"name":"default"`},
	} {
		entry := damage{do: func(ctx context.Context, _ redis.Cmdable, key string) error {
			for _, command := range c.commands {
				words := strings.Fields(command)
				args := []any{words[0], key}
				for _, word := range words[1:] {
					args = append(args, strings.ReplaceAll(word, "|", " "))
				}
				if err := r.db.Do(ctx, args...).Err(); err != nil {
					return err
				}
			}
			return nil
		}}
		r.whileDamaged(c.key, entry, func() {
			got := r.call("GET", c.path, "")
			for _, want := range []string{`"warnings":["`, c.row} {
				if got.status != http.StatusOK || !strings.Contains(string(got.body), want) {
					t.Errorf("%s, with %q: no %s in %d %s", c.path, c.commands, want, got.status, got.body)
				}
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
		for _, want := range []string{`"name":"default"`, `"paused":true`, "of queue default are not counted"} {
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
			if p := got.problem(t); p.Code != wire.DataUnreadable || !strings.Contains(p.Detail, "wrong type") ||
				strings.Contains(p.Detail, "may have been made") {
				t.Errorf("%s answered %d %s", path, got.status, got.body)
			}
		})
	}
}

// A definition that is JSON and no rule is damage too, and no fault of whoever asks. Only repair makes way for another
// one.
func TestSchedules_TellADefinitionThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for _, c := range []struct{ def, method, path, body, want string }{
		{`{"every":"x"}`, "GET", "/v1/schedules/nightly/next", "", "schedule default:nightly cannot be used"},
		{`{"every":"x"}`, "GET", "/v1/schedules/nightly/audit", "", "schedule default:nightly cannot be used"},
		{"{", "PUT", "/v1/schedules/nightly", hourly, "dtsctl doctor --repair puts it aside"},
		{"{", "POST", "/v1/schedules/nightly/rollback", `{"revision":1}`, "dtsctl doctor --repair puts it aside"},
	} {
		entry := damage{do: func(ctx context.Context, db redis.Cmdable, key string) error {
			return r.db.HSet(ctx, key, "def", c.def).Err()
		}}
		r.whileDamaged("dts:{0}:schedule:default:nightly", entry, func() {
			got := r.call(c.method, c.path, c.body)
			if p := got.problem(t); p.Code != wire.ProblemCode(task.CodeUnreadable) || !strings.Contains(p.Detail, c.want) {
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

// What was done to a schedule is answered, though what belongs to it cannot be counted.
func TestChangeSchedule_SaysWhatCannotBeCounted(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	r.whileDamaged("dts:{0}:live:default:nightly", wrongType, func() {
		for _, call := range [][3]string{
			{"POST", "/v1/schedules/nightly/pause", ""}, {"POST", "/v1/schedules/nightly/resume", ""},
			{"PUT", "/v1/schedules/nightly", hourly}, {"POST", "/v1/schedules/nightly/rollback", `{"revision":1}`},
		} {
			got := r.call(call[0], call[1], call[2])
			const warning = `"warnings":["the key dts:{0}:live:default:nightly`
			if got.status != http.StatusOK || !strings.Contains(string(got.body), warning) {
				t.Errorf("%s: %d %s", call[1], got.status, got.body)
			}
		}
	})
}

func TestRollback_RefusesARevisionThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	r.call("PUT", "/v1/schedules/nightly", hourly) // revision 3
	testkit.Must(t, r.db.LSet(t.Context(), "dts:{0}:history:default:nightly", 1, "garbage").Err())
	for revision, code := range map[int]task.Code{1: task.CodeUnreadable, 2: "", 9: schedule.CodeRevisionNotFound} {
		got := r.call("POST", "/v1/schedules/nightly/rollback", fmt.Sprintf(`{"revision":%d}`, revision))
		if code == "" && got.status == http.StatusOK {
			continue
		}
		if p := got.problem(t); p.Code != wire.ProblemCode(code) {
			t.Errorf("revision %d: %d %s", revision, got.status, got.body)
		}
	}
}

func TestChangeTask_IgnoresABadCheckpoint(t *testing.T) {
	t.Parallel()
	for _, command := range [][]any{
		{"HSET", "dts:{0}:checkpoints", "default:broken", "{"},
		{"SET", "dts:{0}:checkpoints", "garbage"},
	} {
		r := startDamaged(t, command)
		second := "scheduled 1 0 1767366245120 1867366245120" // it waits for its second attempt
		testkit.Must(t, r.db.HSet(t.Context(), "dts:{0}:states", "default:broken", second).Err())
		if got := r.call("PATCH", "/v1/tasks/broken", `{"queue":"low"}`); got.status != http.StatusOK {
			t.Errorf("%v: %d %s", command, got.status, got.body)
		}
	}
}

func TestFollowLogs_GoesPastAnUnreadableLine(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	for i, id := range []string{"0-1", "9-9"} { // before all lines, and after them
		line := &redis.XAddArgs{Stream: "dts:{0}:log:default:ended", ID: id, Values: []string{"text", "x"}}
		if i == 0 {
			testkit.Must(t, r.db.Rename(t.Context(), line.Stream, "kept").Err())
		}
		testkit.Must(t, r.db.XAdd(t.Context(), line).Err())
		if i == 0 {
			kept, err := r.db.XRange(t.Context(), "kept", "-", "+").Result()
			testkit.Must(t, err)
			for _, m := range kept {
				testkit.Must(t, r.db.XAdd(t.Context(), &redis.XAddArgs{Stream: line.Stream, ID: m.ID, Values: m.Values}).Err())
			}
		}
	}
	l := r.listen("/v1/tasks/ended/logs?follow=true")
	var names []string
	for m := l.next(); m.Name != "end"; m = l.next() {
		names = append(names, m.Name)
		if m.Name == "dropped" && !strings.Contains(string(m.Data), `"reason":"unreadable"`) {
			t.Errorf("dropped: %s", m.Data)
		}
	}
	slices.Sort(names)
	if logs := slices.Index(names, "log"); logs < 1 || len(names)-logs != 3 { // lines of the same text are told once
		t.Errorf("got %q", names)
	}
	l.wantEnd()
}

// What a stream does not name is counted, and the count goes on.
func TestFollowLogs_CountsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	r, _ := startFull(t)
	lines := 0
	spoil := func(n int) {
		for range n {
			lines++
			line := &redis.XAddArgs{
				Stream: "dts:{0}:log:default:running", ID: fmt.Sprint("9-", lines), Values: []string{"text", "x"},
			}
			testkit.Must(t, r.db.XAdd(t.Context(), line).Err())
		}
	}
	spoil(22)
	l := r.listen("/v1/tasks/running/logs?follow=true")
	for _, want := range []string{"2 further things are left out", "5 further things are left out"} {
		for m := l.next(); !strings.Contains(string(m.Data), want); m = l.next() {
			if m.Name != "log" && m.Name != "dropped" {
				t.Fatalf("got %s %s, want %q", m.Name, m.Data, want)
			}
		}
		spoil(3)
		r.source.publish(event(logEvent, "running"))
	}
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
			} else if p := got.problem(t); p.Code != wire.ProblemCode(task.CodeInvalid) || wire.Value(p.Field) != "cursor" {
				t.Errorf("%s with a cursor of %s: %d %s", to, from, got.status, got.body)
			}
		}
	}
}

// startHurried is a rig whose store gives a page no time at all.
func startHurried(t *testing.T) *rig {
	t.Helper()
	server := redistest.Start(t)
	b, _ := startBackendOn(t, server)
	hurried := openStore(t, server.DB(t))
	hurried.PageTime = 0
	return startRigOn(t, b, control.New(control.Options{Store: hurried, Events: b.events}))
}

func TestListSchedules_SaysThatAPageIsIncomplete(t *testing.T) {
	t.Parallel()
	r := startHurried(t)
	for i := range layout.ReadChunk {
		r.call("PUT", fmt.Sprintf("/v1/schedules/s%02d", i), hourly)
	}
	r.call("PUT", "/v1/schedules/t", strings.Replace(hourly, "{", `{"owner":"one",`, 1))
	last, incomplete := r.call("GET", "/v1/schedules?owner=one", ""), 0
	for strings.Contains(string(last.body), `"incomplete":true`) && incomplete < layout.ReadChunk {
		var page wire.ScheduleList
		testkit.Must(t, json.Unmarshal(last.body, &page))
		last = r.call("GET", "/v1/schedules?owner=one&cursor="+wire.Value(page.NextCursor), "")
		incomplete++
	}
	if !strings.Contains(string(last.body), `"id":"t"`) || incomplete == 0 {
		t.Errorf("after %d pages: %s", incomplete, last.body)
	}
}

func TestListTasks_SaysThatAPageIsIncomplete(t *testing.T) {
	t.Parallel()
	r := startHurried(t)
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
