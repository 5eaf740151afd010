package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func lockRequest(holder string) LockRequest {
	return LockRequest{Name: "deploy", Holder: holder, TTL: time.Minute}
}

func (w *world) acquireLock(r LockRequest) AcquiredLock {
	w.t.Helper()
	got, err := w.AcquireLock(w.ctx, me, r)
	testkit.Must(w.t, err)
	return got
}

func (w *world) releaseLock(l AcquiredLock) {
	w.t.Helper()
	_, err := w.ReleaseLock(w.ctx, me, l.Ref.ID, l.Holder, l.Fence)
	testkit.Must(w.t, err)
}

// waitFor has a request wait for a lock that somebody else holds, and returns its answer to come.
func (w *world) waitFor(ctx context.Context, c *Control, r LockRequest) <-chan answeredLock {
	answers := make(chan answeredLock, 1)
	go func() {
		got, err := c.AcquireLock(ctx, me, r)
		answers <- answeredLock{got, err, clock.Now()}
	}()
	channel := string(w.store.Keys.Unlocked())
	testkit.Eventually(w.t, "the request waits", func() bool { return w.db.PubSubNumSub(w.ctx, channel).Val()[channel] == 1 })
	return answers
}

type answeredLock struct {
	AcquiredLock
	err error
	at  time.Time
}

func TestAcquireLock_WaitsAreEndedByARelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := w.open(w.server.DB(t)) // another node
	watch := testkit.StartStopwatch(t)
	for range 5 {
		first := w.acquireLock(lockRequest("a"))
		r := lockRequest("b")
		r.Wait = LockWaitLimit
		called := clock.Now()
		answers := w.waitFor(w.ctx, elsewhere, r)
		released := watch.Elapsed()
		w.releaseLock(first)
		second := testkit.Receive(t, answers, "the lock")
		testkit.Must(t, second.err)
		if took := watch.Elapsed() - released; took > 200*time.Millisecond {
			t.Errorf("the waiting one was woken after %s", took)
		}
		if second.Fence <= first.Fence {
			t.Errorf("fence %d after %d", second.Fence, first.Fence)
		}
		if second.Waited <= 0 || second.Waited > second.at.Sub(called) {
			t.Errorf("waited %s", second.Waited)
		}
		w.releaseLock(second.AcquiredLock)
	}
}

func TestAcquireLock_WaitsAreEndedByAnExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := lockRequest("dies")
	r.TTL = time.Second
	died := w.acquireLock(r)
	r = lockRequest("b")
	r.Wait = LockWaitLimit
	got := w.acquireLock(r)
	if got.Since.Before(died.Expires) || got.Since.Sub(died.Expires) > 500*time.Millisecond {
		t.Errorf("taken at %s, the other one expired at %s", got.Since, died.Expires)
	}
	if _, err := w.RenewLock(w.ctx, me, "deploy", "dies", died.Fence, nil); task.CodeOf(err) != locks.CodeLost {
		t.Errorf("the late renewal: %v", err)
	}
}

func TestAcquireLock_GivesUpWhenTheWaitIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.acquireLock(lockRequest("a"))
	held := func(name string, err error) {
		t.Helper()
		if task.CodeOf(err) != locks.CodeHeld || !strings.Contains(err.Error(), `held by "a"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := w.AcquireLock(w.ctx, me, lockRequest("b"))
	held("without a wait", err)
	short := lockRequest("b")
	short.Wait = 50 * time.Millisecond
	began := clock.Now()
	_, err = w.AcquireLock(w.ctx, me, short)
	held("after the wait", err)
	if took := clock.Since(began); took < short.Wait {
		t.Errorf("waited only %s", took)
	}
	stop := make(chan struct{})
	stopped := lockRequest("b")
	stopped.Wait, stopped.Stop = LockWaitLimit, stop
	answers := w.waitFor(w.ctx, w.Control, stopped)
	close(stop)
	held("at a stop", testkit.Receive(t, answers, "the answer").err)

	ctx, cancel := context.WithCancel(w.ctx)
	stopped.Stop = nil
	answers = w.waitFor(ctx, w.Control, stopped)
	cancel()
	if got := testkit.Receive(t, answers, "the answer"); got.err != context.Canceled { //nolint:errorlint // as it is
		t.Errorf("after the caller went: %v", got.err)
	}
}

func TestAcquireLock_NamesTheInvalidField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for field, change := range map[string]func(*LockRequest){
		"name":   func(r *LockRequest) { r.Name = "a/b" },
		"holder": func(r *LockRequest) { r.Holder = "" },
		"ttl":    func(r *LockRequest) { r.TTL = time.Second - time.Millisecond },
		"wait":   func(r *LockRequest) { r.Wait = LockWaitLimit + 1 },
		"note":   func(r *LockRequest) { r.Note = strings.Repeat("x", LockNoteLimit+1) },
	} {
		r := lockRequest("a")
		change(&r)
		_, err := w.AcquireLock(w.ctx, me, r)
		if e, ok := err.(*task.Error); !ok || e.Code != task.CodeInvalid || e.Field != field { //nolint:errorlint // as it is
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := w.RenewLock(w.ctx, me, "deploy", "a", 1, new(25*time.Hour)); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("renewing for a day and an hour: %v", err)
	}
}
