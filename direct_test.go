package dts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

func TestClose_OfOpenEndsWhatRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	redis.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Submit(ctx, dts.Submission{Type: "noop"})
	testkit.Must(t, mustBe(err, context.DeadlineExceeded))
	waiting := make(chan error, 1)
	begun := make(signalling)
	go func() { _, err := c.Submit(t.Context(), dts.Submission{Type: "noop", Payload: begun}); waiting <- err }()
	testkit.Receive(t, begun, "the submission's begin")
	testkit.Must(t, c.Close())
	if err := testkit.Receive(t, waiting, "the submission that waits"); !errors.Is(err, dts.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// signalling is a payload that is closed when it is encoded.
type signalling chan struct{}

func (s signalling) MarshalJSON() ([]byte, error) {
	close(s)
	return []byte("{}"), nil
}

// mustBe returns nil if err is what is wanted, and no *Error.
func mustBe(err error, want ...error) error {
	for _, each := range want {
		if !errors.Is(err, each) || dts.CodeOf(err) != "" {
			return fmt.Errorf("got %w (%s), want %v", err, dts.CodeOf(err), want)
		}
	}
	return nil
}

// TestClient_AcceptsAlikeOverBothWays has the same submission mean the same task, whichever way a client takes: otherwise it would conflict
// with itself.
func TestClient_AcceptsAlikeOverBothWays(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dial, err := dts.Dial(f.address)
	testkit.Must(t, err)
	open, err := dts.Open(f.redis)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, errors.Join(dial.Close(), open.Close())) }()
	later := time.Now().Add(1000*time.Hour + 123456).In(time.FixedZone("", 3600))
	for name, s := range map[string]dts.Submission{
		"plain":     {Type: "nobody", Delay: time.Hour},
		"empty":     {Type: "nobody", RunAt: later, Labels: map[string]string{}, Payload: json.RawMessage{}, Retry: dts.Retry{Delays: []time.Duration{}}},
		"an object": {Type: "nobody", RunAt: later, Payload: json.RawMessage(" { \"a\" : 1e2 , \"b\" : \"<é\\u00e9>\" } ")},
		"a struct":  {Type: "nobody", RunAt: later, Payload: struct{ A, B string }{"<&>", "\u2028"}},
		"null":      {Type: "nobody", RunAt: later, Payload: json.RawMessage("null")},
		"all": {
			Type: "nobody", Queue: "low", RunAt: later, Timeout: 1500 * time.Millisecond, Retention: 36 * time.Hour, Owner: "ada <é>", Labels: map[string]string{"k": "", "é": "<v>"},
			Retry: dts.Retry{MaxAttempts: 3, MaxElapsed: time.Hour, Backoff: dts.Backoff{Initial: time.Millisecond, Factor: 1.1, Max: time.Minute, Jitter: new(0.0)}},
		},
		"delays": {Type: "nobody", RunAt: later, Retry: dts.Retry{Delays: []time.Duration{0, time.Hour}}},
	} {
		for way, order := range map[string][2]*dts.Client{"over HTTP first": {dial, open}, "directly first": {open, dial}} {
			s.ID = strings.ReplaceAll(name+"-"+way, " ", "-")
			first, err := order[0].Submit(t.Context(), s)
			testkit.Must(t, err)
			second, err := order[1].Submit(t.Context(), s)
			if err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
				continue
			}
			if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, %s (-first +second):\n%s", name, way, diff)
			}
		}
	}
}
