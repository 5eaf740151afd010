package dts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// TestSubmit_OfOpenEndsWithItsContext has a Redis that does not answer. A submission that does not end with its context fails with
// CodeUnavailable when Redis is given up.
func TestSubmit_OfOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	defer func() { testkit.Must(t, c.Close()) }()
	_, err = c.Submit(t.Context(), dts.Submission{Type: "noop", Delay: time.Hour})
	testkit.Must(t, err)
	redis.Pause()

	patient := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), dts.Submission{ID: "patient", Type: "noop", Delay: time.Hour})
		for dts.CodeOf(err) == dts.CodeUnavailable { // where this test was held up for seconds
			_, err = c.Submit(t.Context(), dts.Submission{ID: "patient", Type: "noop", Delay: time.Hour})
		}
		patient <- err
	}()
	own := errors.New("the test's own reason")
	const n = 5
	ends := make(chan error, 4*n)
	for i := range n {
		deadline, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, own)
		defer cancel()
		cancelled, end := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { end(own) })
		for ctx, want := range map[context.Context]error{deadline: context.DeadlineExceeded, cancelled: context.Canceled} {
			go func() {
				s := dts.Submission{
					ID: fmt.Sprint("hasty-", i), Type: "noop", Delay: time.Hour, Payload: json.RawMessage(`{"sleep":"1ms"}`), Labels: map[string]string{"a": "b"},
					Retry: dts.Retry{Delays: []time.Duration{time.Second}},
				}
				_, err := c.Submit(ctx, s)
				s.Payload.(json.RawMessage)[0], s.Labels["a"], s.Retry.Delays[0] = 'x', "c", 0 // which is the caller's again
				ends <- mustBe(err, want, own)
			}()
			go func() {
				results, err := c.SubmitMany(ctx, []dts.Submission{{Type: "noop", Delay: time.Hour}, {Type: ""}, {Type: "noop", Delay: time.Hour}})
				ends <- errors.Join(mustBe(err, want, own), mustBe(results[0].Err, want, own), mustBe(results[2].Err, want, own))
			}()
		}
	}
	for range 4 * n {
		testkit.Must(t, testkit.Receive(t, ends, "a submission to return"))
	}
	redis.Continue()
	testkit.Must(t, testkit.Receive(t, patient, "the submission that waits"))
	for i := range n {
		if _, err := c.Get(t.Context(), fmt.Sprint("hasty-", i)); err != nil && dts.CodeOf(err) != dts.CodeTaskNotFound {
			t.Errorf("whether a submission that was given up is there: %v", err)
		}
	}
}

// mustBe returns nil if err is what is wanted, and no *Error.
func mustBe(err error, want ...error) error {
	for _, each := range want {
		if !errors.Is(err, each) || dts.CodeOf(err) != "" {
			return fmt.Errorf("got %v (%s), want %v", err, dts.CodeOf(err), want)
		}
	}
	return nil
}
