package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Only what creates work is refused, before it is read.
func TestServer_RefusesSubmissionsAtOnceWhileAsManyWaitAsMay(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	b, useCases := startBackend(t, func(o *control.Options) { o.MaxSubmissions = 1 })
	r := startRigOn(t, b, useCases, func(o *rigOptions) { o.Refused = func(string) { refused.Add(1) } })
	r.openQueue("busy")
	arrived, release := make(chan struct{}), make(chan struct{})
	once, finish := sync.OnceFunc(func() { close(arrived) }), sync.OnceFunc(func() { close(release) })
	defer finish()
	r.faults.set(func(context.Context) { once(); <-release }, nil)
	first := make(chan answer, 1)
	go func() { first <- r.call("POST", "/v1/tasks", `{"type":"http"}`) }()
	testkit.Receive(t, arrived, "the first submission at Redis")
	for path, method := range map[string]string{
		"/v1/tasks": "POST", "/v1/tasks/batch": "POST", "/v1/schedules/a": "PUT", "/v1/schedules/a/trigger": "POST", "/v1/schedules/a/backfill": "POST",
	} {
		got := r.call(method, path, "what nobody reads")
		p := got.problem(t)
		if p.Code != "overloaded" || p.Status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != strconv.Itoa(wire.Value(p.RetryAfter)) || wire.Value(p.RetryAfter) != 1 {
			t.Errorf("%s %s: %+v, Retry-After %q", method, path, p, got.header.Get("Retry-After"))
		}
	}
	if n := refused.Load(); n != 5 {
		t.Errorf("%d refusals were counted", n)
	}
	r.faults.set(nil, nil) // for whoever comes now
	for path, method := range map[string]string{"/healthz": "GET", "/readyz": "GET", "/v1/tasks": "GET", "/v1/queues/busy/pause": "POST", "/v1/tasks/a": "DELETE"} {
		if got := r.call(method, path, ""); got.status == http.StatusServiceUnavailable {
			t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
		}
	}
	finish()
	if got := testkit.Receive(t, first, "its answer"); got.status != http.StatusCreated {
		t.Errorf("the first one: %d %s", got.status, got.body)
	}
	if got := r.call("POST", "/v1/tasks", `{"type":"http"}`); got.status != http.StatusCreated {
		t.Errorf("another one: %d %s", got.status, got.body)
	}
}

// Of a batch that is read, each refused task counts; what creates no work does not.
func TestServer_CountsTheWorkThatItRefuses(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	r := startRig(t, func(o *rigOptions) {
		o.Refused = func(code string) {
			if code == "unavailable" {
				refused.Add(1)
			}
		}
	})
	r.openQueue("busy")
	r.redis.RefuseWrites()
	for _, call := range []struct {
		path, body string
		counts     int64
	}{
		{"/v1/tasks", `{"type":"http"}`, 1},
		{"/v1/tasks/batch", `{"tasks":[{"type":"http"},{"type":"http"},{}]}`, 2},
		{"/v1/queues/busy/pause", "", 0},
	} {
		before := refused.Load()
		got := r.call("POST", call.path, call.body)
		if n := refused.Load() - before; n != call.counts {
			t.Errorf("%s counts %d, want %d: %s", call.path, n, call.counts, got.body)
		}
	}
}

// A body that finds no room is work that is refused, too.
func TestServer_CountsBodiesWithoutRoom(t *testing.T) {
	t.Parallel()
	refused := make(chan string, 1)
	r := startRig(t, func(o *rigOptions) { o.TransferMemory, o.Refused = 64<<10, func(code string) { refused <- code } })
	large := `{"type":"http","payload":"` + strings.Repeat("x", 200<<10) + `"}`
	p := r.call("POST", "/v1/tasks", large).problem(t)
	if code := testkit.Receive(t, refused, "a refusal"); p.Code != "overloaded" || code != "overloaded" {
		t.Errorf("%s was counted: %+v", code, p)
	}
}

func TestSetQueueCapacity_RefusesSubmissionsBeyondIt(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("PUT", "/v1/queues/small/capacity", `{"capacity":1}`); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const submission = `{"type":"http","queue":"small"}`
	if got := r.call("POST", "/v1/tasks", submission); got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := r.call("POST", "/v1/tasks", submission)
	if p := got.problem(t); p.Code != "queue_full" || p.Status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "5" || wire.Value(p.RetryAfter) != 5 {
		t.Errorf("%+v, Retry-After %q", p, got.header.Get("Retry-After"))
	}
	batch, err := r.SubmitTasksWithBodyWithResponse(t.Context(), nil, "application/json", strings.NewReader(`{"tasks":[`+submission+`,{"type":"http"}]}`))
	testkit.Must(t, err)
	if all := batch.JSON200.Results; all[0].Status != http.StatusTooManyRequests || *all[0].Error.RetryAfter != 5 || all[1].Status != http.StatusCreated {
		t.Errorf("batch: %s", batch.Body)
	}
	list, err := r.ListQueuesWithResponse(t.Context())
	testkit.Must(t, err)
	if q := list.JSON200.Queues; len(q) != 1 || q[0].Name != "small" || *q[0].Capacity != 1 || *q[0].Limit != 1 {
		t.Errorf("queues: %s", list.Body)
	}
}

// Each path takes the new name of the field and the old one.
func TestSetQueueCapacity_TakesTheOldNames(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	paths := []string{"/v1/queues/small/capacity", "/v1/queues/small/limit"}
	for i, good := range []string{`{"capacity":%d}`, `{"limit":%d}`, `{"capacity":%[1]d,"limit":%[1]d}`} {
		for j, path := range paths {
			want := 10*i + j // the first lifts it
			if got := r.call("PUT", path, fmt.Sprintf(good, want)); got.status != http.StatusNoContent {
				t.Fatalf("%s %s: %d %s", path, good, got.status, got.body)
			}
			list, err := r.ListQueuesWithResponse(t.Context())
			testkit.Must(t, err)
			got := map[string]int{}
			for _, q := range list.JSON200.Queues {
				got[q.Name] = wire.Value(q.Capacity)
			}
			if got["small"] != want {
				t.Errorf("%s %s: %s", path, good, list.Body)
			}
		}
	}
	for bad, field := range map[string]string{
		`{}`: "capacity", `{"capacity":-1}`: "capacity", `{"limit":-1}`: "limit", `{"limit":100000001}`: "limit",
		`{"capacity":3,"more":2}`: "more", `{"capacity":0,"limit":2}`: "capacity",
	} {
		for _, path := range paths {
			p := r.call("PUT", path, bad).problem(t)
			if p.Code != wire.Invalid || wire.Value(p.Field) != field {
				t.Errorf("%s %s: %+v, want field %s", path, bad, p, field)
			}
			if strings.Contains(bad, "1") != strings.HasSuffix(p.Detail, "must be 0 to 100000000; 0 for any number of tasks") {
				t.Errorf("%s %s: %s", path, bad, p.Detail)
			}
		}
	}
}

// What its leader does while the queue is full is done by hand.
func TestGetSchedule_WarnsOfTicksHeldBack(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("PUT", "/v1/queues/small/capacity", `{"capacity":1}`); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const definition = `{"every":"1h","task":{"type":"http","queue":"small"}}`
	if got := r.call("PUT", "/v1/schedules/late", definition); got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	ref := task.Ref{Namespace: "default", ID: "late"}
	keys, now := r.store.KeysOf(ref), time.Now()
	age := map[string]any{}
	for _, field := range []string{"created", "from", "cursor"} {
		age[field] = now.Add(-90 * time.Minute).UnixMilli()
	}
	testkit.Must(t, r.db.HSet(t.Context(), string(keys.Schedule(ref)), age).Err())
	look := redis.Z{Score: float64(now.UnixMilli()), Member: ref.String()}
	testkit.Must(t, r.db.ZAdd(t.Context(), string(keys.Ticks()), look).Err())
	got, err := r.GetScheduleWithResponse(t.Context(), ref.ID, nil)
	testkit.Must(t, err)
	first := now.Add(-30 * time.Minute).UTC().Format(time.RFC3339)
	if w := got.JSON200.Warnings; len(w) != 1 || !strings.Contains(w[0], `"small" is at its capacity of waiting tasks (1)`) || !strings.Contains(w[0], first) {
		t.Errorf("%s", got.Body)
	}
}
