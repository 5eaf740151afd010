package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// accepting is a task of a service that answers 202 and passes on the header of each call.
func accepting(t *testing.T, id string, timeout string) (wire.Submission, <-chan http.Header) {
	t.Helper()
	calls := make(chan http.Header, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls <- r.Header
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(srv.Close)
	return wire.Submission{
		ID: &id, Type: "http", Payload: []byte(`{"url": "` + srv.URL + `", "accept": {}}`), Timeout: &timeout, Retry: &wire.Retry{MaxAttempts: ptr(1)},
	}, calls
}

// finish ends the first attempt of a task with the token of its call, through a node.
func (n *node) finish(id string, call http.Header, end wire.AttemptEnd) int {
	n.t.Helper()
	end.Token = call.Get("Dts-Token")
	answer, err := n.FinishAttemptWithResponse(n.t.Context(), id, 1, nil, end)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer.StatusCode()
}

// A service takes the work, and reports its end through another node than the one that waits for it.
func TestAccept_EndsByTheCallback(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	worker := startNode(t, redis.URL(), "--roles", "scheduler,worker", "--concurrency", "1")
	api := startNode(t, redis.URL(), "--roles", "api")

	done, calls := accepting(t, "done", "1m")
	api.submit(done)
	call := <-calls
	token := call.Get("Dts-Token")
	reported, err := api.ReportAttemptWithResponse(t.Context(), "done", 1, nil, wire.AttemptReport{Token: token, Progress: ptr(40), Note: ptr("row 5")})
	if err != nil || reported.StatusCode() != http.StatusNoContent {
		t.Fatalf("reporting: %v, %s", err, reported.Body)
	}
	if got := api.task("done"); got.State != wire.StateRunning || got.Progress != 40 || *got.ProgressNote != "row 5" {
		t.Errorf("while it waits it is %+v", got)
	}
	failed, failedCalls := accepting(t, "failed", "1m") // waits for the only slot
	api.submit(failed)
	if status := api.finish("done", call, wire.AttemptEnd{Outcome: wire.EndSucceeded, Result: ptr("42 rows")}); status != http.StatusNoContent {
		t.Fatalf("finish: %d", status)
	}
	if got := api.task("done"); got.State != wire.StateSucceeded || *got.Result != "42 rows" {
		t.Errorf("it is %+v", got)
	}
	call = testkit.Receive(t, failedCalls, "the call that waited for the slot")
	if status := api.finish("failed", call, wire.AttemptEnd{Outcome: wire.EndFailed, Error: ptr("no rows")}); status != http.StatusNoContent {
		t.Fatalf("finish: %d", status)
	}
	await(t, 20*time.Second, "asynq shows the dead letter, and nothing else", func() bool {
		archived := db.ZCard(t.Context(), "asynq:{default}:archived").Val()
		return archived == 1 && db.LLen(t.Context(), "asynq:{default}:active").Val() == 0
	})
	if worker.said("its report was refused") {
		t.Error("the node logs an end by callback as a problem")
	}
}

// What ends the wait otherwise is not changed by a report that comes late.
func TestAccept_EndsByACancelOrATimeout(t *testing.T) {
	t.Parallel()
	n := startNode(t, redistest.Start(t).URL())
	for id, c := range map[string]struct {
		timeout string
		state   wire.State
	}{"cancelled": {"1m", wire.StateCancelled}, "timeout": {"500ms", wire.StateFailed}} {
		s, calls := accepting(t, id, c.timeout)
		n.submit(s)
		call := <-calls
		if c.state == wire.StateCancelled {
			if answer, err := n.CancelTaskWithResponse(t.Context(), id, nil); err != nil || answer.StatusCode() != http.StatusOK {
				t.Fatalf("cancelling: %v, %s", err, answer.Body)
			}
		}
		await(t, 20*time.Second, fmt.Sprintf("%s is %s", id, c.state), n.is(id, c.state))
		if status := n.finish(id, call, wire.AttemptEnd{Outcome: wire.EndSucceeded}); status != http.StatusConflict {
			t.Errorf("%s: a late report is answered with %d", id, status)
		}
	}
}
