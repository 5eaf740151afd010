package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
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
