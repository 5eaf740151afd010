package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Workers of both releases decide about attempts of the same tasks while an upgrade goes on. The older one takes a
// snooze for attempts before a retry by hand, and so repeats each second what has 25 attempts by default (ADR 31).
func TestUpgrade_BothReleasesGoOnAfterASnooze(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis := redistest.Start(t)
	examineAtTheEnd(t, redis.URL())
	var status atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if now := int(status.Load()); now == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "3600")
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(target.Close)
	const id = "a"

	startRelease(t, previousRelease, redis.URL(), "--roles", "api") // else the layout would move
	status.Store(http.StatusTooManyRequests)
	newer := startRelease(t, thisRelease, redis.URL())
	payload := json.RawMessage(fmt.Sprintf(`{"url": %q}`, target.URL))
	newer.submit(wire.Submission{ID: ptr(id), Type: "http", Payload: payload})
	await(t, time.Minute, "it is snoozed", func() bool {
		task := newer.task(id)
		return task.State == wire.StateScheduled && task.Attempt == 1
	})
	if got := newer.task(id).MaxAttempts; got != 26 {
		t.Errorf("its last attempt is %d, want 26", got)
	}
	newer.stop()

	status.Store(http.StatusInternalServerError)
	older := startRelease(t, previousRelease, redis.URL())
	changed, err := older.ChangeTaskWithResponse(t.Context(), id, nil, wire.TaskChange{Delay: ptr("0s")})
	testkit.Must(t, err)
	if changed.JSON200 == nil {
		t.Fatalf("the older node does not change it: %s", changed.Body)
	}
	await(t, time.Minute, "the older worker repeats it", func() bool { return older.task(id).Attempt > 5 }) // of its 4
	if first := older.attempts(id)[0]; first.Outcome == nil || *first.Outcome != wire.OutcomeSnoozed {
		t.Errorf("the older node says of the first attempt %+v", first)
	}
	status.Store(http.StatusOK)
	await(t, time.Minute, "it succeeds at the older worker", older.is(id, wire.StateSucceeded))

	// One retry by hand is answered by the older node, and the next one by the newer node: each by its own default.
	retry := func(n *node, more int) {
		t.Helper()
		made := n.task(id).Attempt
		retried, err := n.RetryTaskWithResponse(t.Context(), id, nil)
		testkit.Must(t, err)
		if retried.JSON200 == nil || retried.JSON200.MaxAttempts != made+more {
			t.Errorf("retried after attempt %d: %s; want %d more", made, retried.Body, more)
		}
		await(t, time.Minute, "it succeeds again", func() bool {
			task := n.task(id)
			return task.State == wire.StateSucceeded && task.Attempt == made+1
		})
	}
	retry(older, 4)
	older.stop()
	retry(startRelease(t, thisRelease, redis.URL()), 25)
}
