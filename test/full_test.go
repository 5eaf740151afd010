package test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// While Redis is full, what runs ends, what waits runs, nodes start, workers by HTTP take, people can stop things, and nothing new is accepted;
// history makes room for it. When Redis has room again, everything goes on.
func TestFullRedis_StopsNothingThatWasAccepted(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	const running, waiting, history = 100, 60, 2000
	srv := redistest.Start(t, redistest.With("--maxmemory", "32mb"))
	db := srv.DB(t)
	a := startNode(t, srv.URL(), "--concurrency", strconv.Itoa(running/2))
	b := startNode(t, srv.URL(), "--concurrency", strconv.Itoa(running/2))

	quick := make([]wire.Submission, history)
	for i := range quick {
		quick[i] = wire.Submission{Type: "noop"}
	}
	a.submit(quick...)
	await(t, time.Minute, "there is a history", func() bool { return len(a.all(wire.StateSucceeded)) == history })

	began, ended := make(chan struct{}, running+waiting), make(chan struct{})
	release := sync.OnceFunc(func() { close(ended) })
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-ended:
		case <-r.Context().Done(): // the attempt was stopped
		}
	}))
	t.Cleanup(service.Close)
	t.Cleanup(release)
	var long []wire.Submission
	for i := range running + waiting {
		long = append(long, wire.Submission{
			ID: ptr("long-" + strconv.Itoa(i)), Type: "http", Payload: []byte(`{"url": "` + service.URL + `"}`), Timeout: ptr("5m"),
			Retry: &wire.Retry{MaxAttempts: ptr(1)},
		})
	}
	a.submit(long...)
	a.submit(wire.Submission{ID: ptr("later"), Type: "noop", Delay: ptr("1h")}, wire.Submission{ID: ptr("remote"), Type: "count", Queue: ptr("remote")})
	for range running {
		testkit.Receive(t, began, "an attempt")
	}
	for _, id := range []string{"every-second", "unwanted"} {
		put, err := a.PutScheduleWithResponse(t.Context(), id, nil, wire.ScheduleDefinition{
			Every: ptr("1s"), Overlap: ptr(wire.OverlapAllow), Task: wire.TaskTemplate{Type: "noop"},
		})
		testkit.Must(t, err)
		if put.JSON201 == nil {
			t.Fatalf("%s: %s", id, put.Body)
		}
	}

	big := wire.Submission{
		Type: "http", Payload: []byte(`{"url": "` + service.URL + `", "body": "` + strings.Repeat("x", 128<<10) + `"}`), Delay: ptr("1h"),
	}
	await(t, time.Minute, "new work is refused", func() bool {
		for range 20 {
			if a.refuses(big) {
				return true
			}
		}
		return false
	})
	fill(t, db)
	full, err := db.Time(t.Context()).Result()
	testkit.Must(t, err)
	noop := wire.Submission{Type: "noop"}
	await(t, 30*time.Second, "both nodes refuse new work", func() bool { return a.refuses(noop) && b.refuses(noop) })
	// By then, nodes whose heartbeats were refused would be dead, and runs whose leases were not extended would have been stopped.
	await(t, time.Minute, "both nodes live on", func() bool {
		fill(t, db)
		return a.beatAfter(full.Add(10*time.Second), a.id, b.id)
	})
	if n := len(a.all(wire.StateRunning)); n != running {
		t.Errorf("%d attempts run, want %d", n, running)
	}
	c := startNode(t, srv.URL()) // which waits until it is ready
	took := must(c.TakeAttemptsWithResponse(t.Context(), "py-1", wire.TakeRequest{
		Types: []string{"count"}, Queues: []string{"remote"}, Wait: ptr("10s"), Request: ptr("1"),
	}))
	if took.JSON200 == nil || len(took.JSON200.Attempts) != 1 {
		t.Errorf("a worker by HTTP takes: %s", took.Body)
	} else if end := must(c.FinishAttemptWithResponse(t.Context(), "remote", 1, nil, wire.AttemptEnd{Token: took.JSON200.Attempts[0].Token, Outcome: wire.EndSucceeded})); end.StatusCode()/100 != 2 {
		t.Errorf("it reports the end: %s", end.Body)
	}
	for what, status := range map[string]int{
		"pause of a queue": must(a.PauseQueueWithResponse(t.Context(), "remote", wire.QueuePause{})).StatusCode(),
		"cancel":           must(a.CancelTaskWithResponse(t.Context(), "later", nil)).StatusCode(),
		"pause":            must(a.PauseScheduleWithResponse(t.Context(), "unwanted", nil, client.PauseScheduleJSONRequestBody{})).StatusCode(),
		"delete":           must(a.DeleteScheduleWithResponse(t.Context(), "unwanted", nil)).StatusCode(),
	} {
		if status/100 != 2 {
			t.Errorf("%s: %d", what, status)
		}
	}
	release()
	for range waiting {
		testkit.Receive(t, began, "an attempt of a task that waited")
	}
	await(t, time.Minute, "all have succeeded", func() bool {
		fill(t, db)
		return a.succeeded("http")+b.succeeded("http")+c.succeeded("http") == running+waiting
	})
	await(t, time.Minute, "nothing is left to do", func() bool { return len(a.all(wire.StateQueued, wire.StateRunning)) == 0 })
	await(t, time.Minute, "history makes room", func() bool { return len(a.all(wire.StateSucceeded)) < history/2 })
	if failed := a.all(wire.StateFailed); len(failed) != 0 {
		t.Errorf("%d attempts failed, the first one is %+v", len(failed), failed[0])
	}

	held := a.ticks("every-second")
	testkit.Must(t, db.ConfigSet(t.Context(), "maxmemory", "64mb").Err())
	await(t, time.Minute, "ticks fire again", func() bool { return a.ticks("every-second") > held })
	await(t, time.Minute, "new work is accepted", func() bool { return !a.refuses(noop) && !b.refuses(noop) })
	report := must(a.AuditScheduleWithResponse(t.Context(), "every-second", nil))
	if report.JSON200 == nil || !report.JSON200.Proved {
		t.Errorf("the audit says %s", report.Body)
	}
}

// fill writes until Redis is full to the brim.
func fill(t *testing.T, db *redisx.DB) {
	t.Helper()
	for {
		err := db.Append(t.Context(), "filler", strings.Repeat("x", 16<<10)).Err()
		if redis.HasErrorPrefix(err, "OOM") {
			return
		}
		testkit.Must(t, err)
	}
}

// succeeded is how many attempts of tasks of a type have succeeded on a node.
func (n *node) succeeded(typ string) int {
	n.t.Helper()
	answer, err := http.Get(n.url + "/metrics")
	testkit.Must(n.t, err)
	defer func() { _ = answer.Body.Close() }()
	metrics, err := io.ReadAll(answer.Body)
	testkit.Must(n.t, err)
	_, value, _ := strings.Cut(string(metrics), `dts_attempts_total{outcome="succeeded",type="`+typ+`"} `)
	count, _ := strconv.Atoi(strings.SplitN(value, "\n", 2)[0]) // none has succeeded yet
	return count
}

// refuses reports whether a node refuses a submission because Redis is full.
func (n *node) refuses(s wire.Submission) bool {
	n.t.Helper()
	answer, err := n.SubmitTaskWithResponse(n.t.Context(), nil, s)
	testkit.Must(n.t, err)
	if status := answer.StatusCode(); status != http.StatusCreated && status != http.StatusServiceUnavailable {
		n.t.Fatalf("submitting: %s", answer.Body)
	}
	return answer.StatusCode() == http.StatusServiceUnavailable
}

// beatAfter reports whether nodes are alive and have sent a heartbeat after that time of Redis.
func (n *node) beatAfter(at time.Time, ids ...string) bool {
	n.t.Helper()
	answer, err := n.ListNodesWithResponse(n.t.Context(), nil)
	if err != nil || answer.JSON200 == nil {
		return false
	}
	count := 0
	for _, other := range answer.JSON200.Nodes {
		for _, id := range ids {
			if other.ID == id && other.State == wire.Alive && other.LastBeat.After(at) {
				count++
			}
		}
	}
	return count == len(ids)
}

// ticks is the number of ticks that the ledger of a schedule has.
func (n *node) ticks(id string) int { return len(n.ledger(id)) }

// ledger is what the ledger of a schedule says of its newest 500 ticks, the newest first.
func (n *node) ledger(id string) []wire.LedgerEntry { return n.newestTicks(id, 500) }

// newestTicks is what the ledger of a schedule says of its newest ticks, at most limit, the newest first.
func (n *node) newestTicks(id string, limit int) []wire.LedgerEntry {
	n.t.Helper()
	page, err := n.ReadLedgerWithResponse(n.t.Context(), id, &client.ReadLedgerParams{Limit: &limit})
	testkit.Must(n.t, err)
	return page.JSON200.Entries
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
