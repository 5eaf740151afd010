package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// lateServer gives a lock to whoever asks. Its first answers are as late as it says.
type lateServer struct {
	late   []time.Duration
	asked  int
	calls  []string // what was asked for, and "got" when a lock was given
	waited time.Duration
}

func (l *lateServer) RoundTrip(r *http.Request) (*http.Response, error) {
	call := path.Base(r.URL.Path)
	l.calls = append(l.calls, call)
	body := `{"released":true}`
	if call == "acquire" {
		l.asked++
		body = fmt.Sprintf(`{"name":"deploy","namespace":"default","holder":"h","fence":%d,"waited":%q}`, l.asked, l.waited)
		if l.asked <= len(l.late) {
			if err := clock.Sleep(r.Context(), l.late[l.asked-1]); err != nil {
				return nil, err
			}
		}
		l.calls = append(l.calls, "got")
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewBufferString(body)),
	}, nil
}

// TestLock_IsNotGivenAfterItsExpiry has the answer come when another one may have the lock already, as where the server stood still.
func TestLock_IsNotGivenAfterItsExpiry(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		late   []time.Duration
		waited time.Duration
		wait   *time.Duration
		fence  int64 // of the lock that is had; 0: none
	}{
		"in time":             {late: []time.Duration{2800 * time.Millisecond}, fence: 1},
		"too late":            {late: []time.Duration{9 * time.Second}, fence: 2},
		"too late twice":      {late: []time.Duration{2900 * time.Millisecond, 4 * time.Second}, fence: 3},
		"after a long wait":   {late: []time.Duration{9 * time.Second}, waited: 7 * time.Second, fence: 1},
		"when nobody waits":   {late: []time.Duration{9 * time.Second}, wait: new(time.Duration(0))},
		"within the wait":     {late: []time.Duration{9 * time.Second}, wait: new(10 * time.Second), fence: 2},
		"late to the end":     {late: []time.Duration{9 * time.Second, 9 * time.Second}, wait: new(10 * time.Second)},
		"wait, but not again": {late: []time.Duration{5 * time.Second}, wait: new(5 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &lateServer{late: x.late, waited: x.waited}
				c, err := New(Options{Address: DefaultAddress, Transport: server})
				testkit.Must(t, err)
				lease, err := c.Lock(t.Context(), LockRequest{Name: "deploy", TTL: 3 * time.Second, Wait: x.wait})
				switch {
				case x.fence == 0:
					if !errors.Is(err, errLate) || server.calls[len(server.calls)-1] != "release" {
						t.Errorf("the error is %v after %q", err, server.calls)
					}
				case err != nil:
					t.Error(err)
				default:
					if lease.Fence() != x.fence || lease.Context().Err() != nil {
						t.Errorf("got the fence %d, want %d; its context: %v", lease.Fence(), x.fence, lease.Context().Err())
					}
					testkit.Must(t, lease.Release(t.Context()))
				}
			})
		})
	}
}

// A request that is under way when its caller gives up ends before the lock is given back.
func TestLock_OfARequestUnderWayIsGivenBackAfterIt(t *testing.T) {
	t.Parallel()
	for late, want := range map[time.Duration]string{
		500 * time.Millisecond: "[acquire got release]",
		9 * time.Second:        "[acquire release]", // nobody waits so long
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &lateServer{late: []time.Duration{late}}
			c, err := New(Options{Address: DefaultAddress, Transport: server})
			testkit.Must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := clock.Now()
			_, err = c.Lock(ctx, LockRequest{Name: "deploy", TTL: time.Minute})
			if !errors.Is(err, context.DeadlineExceeded) || clock.Since(began) > 100*time.Millisecond+lockAbandonTime {
				t.Errorf("it ended after %s with %v", clock.Since(began), err)
			}
			if got := fmt.Sprint(server.calls); got != want {
				t.Errorf("an answer after %s: %s, want %s", late, got, want)
			}
		})
	}
}
