package dts_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// awaitLimits waits until the node knows that no node of an earlier release lives.
func awaitLimits(t *testing.T, c *dts.Client) {
	t.Helper()
	testkit.Eventually(t, "limits work", func() bool { return errOf(c.Limits(t.Context())) == nil })
}

func TestClient_SetsPausesAndDeletesLimits(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		awaitLimits(t, c)
		ctx, key := t.Context(), "k"+strconv.Itoa(rand.Int()) //nolint:gosec // a name
		name := "key:" + key + "*"
		is := func(want dts.Limit) {
			t.Helper()
			got, err := c.Limit(ctx, name)
			testkit.Must(t, err)
			if got.By == "" || got.At.IsZero() {
				t.Errorf("nobody knows who set it and when: %+v", got)
			}
			want.Name = name
			others := cmpopts.IgnoreFields(dts.Limit{}, "PausedBy", "By", "At")
			if diff := cmp.Diff(want, *got, others, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			all, err := c.Limits(ctx)
			testkit.Must(t, err)
			if (got.PausedBy == "") == got.Paused {
				t.Errorf("it is paused by %q", got.PausedBy)
			}
			if !slices.ContainsFunc(all, func(l dts.Limit) bool { return cmp.Equal(l, *got) }) {
				t.Errorf("the list has no %+v: %+v", got, all)
			}
		}
		rule := dts.LimitRule{Slots: 5, Rate: 100, Per: time.Minute, Burst: 7}
		testkit.Must(t, c.SetLimit(ctx, name, rule))
		is(dts.Limit{Rule: rule})
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		testkit.Must(t, c.PauseLimit(ctx, name, dts.LimitPause{Until: until, Note: "it moves"}))
		is(dts.Limit{Rule: rule, Paused: true, Until: until, Note: "it moves"})
		testkit.Must(t, c.PauseLimit(ctx, name, dts.LimitPause{}))
		is(dts.Limit{Rule: rule, Paused: true})
		_, err := c.Submit(ctx, dts.Submission{Type: "noop", LimitKey: key + "1"})
		testkit.Must(t, err)
		testkit.Eventually(t, "a task waits", func() bool {
			l, err := c.Limit(ctx, name)
			testkit.Must(t, err)
			return l.Waiting == 1 && l.Names == 1 && cmp.Equal(l.Uses, []dts.LimitUse{{Name: "key:" + key + "1", Waiting: 1}})
		})
		testkit.Must(t, c.ResumeLimit(ctx, name))
		testkit.Must(t, c.DeleteLimit(ctx, name))
		for what, err := range map[string]error{
			"Limit": errOf(c.Limit(ctx, name)), "ResumeLimit": c.ResumeLimit(ctx, name), "DeleteLimit": c.DeleteLimit(ctx, name),
		} {
			if dts.CodeOf(err) != dts.CodeLimitNotFound {
				t.Errorf("%s of a limit that is deleted: %v", what, err)
			}
		}
	})
}

func TestClient_RefusesLimitsThatCannotBe(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		awaitLimits(t, c)
		rule := dts.LimitRule{Slots: 1}
		far := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
		for what, bad := range map[string]badCall{
			"a name without a kind": {"name", func(ctx context.Context, c *dts.Client) error {
				return c.SetLimit(ctx, "a", rule)
			}},
			"a name with a slash": {"name", func(ctx context.Context, c *dts.Client) error {
				return c.DeleteLimit(ctx, "key:a/b")
			}},
			"no name": {"name", func(ctx context.Context, c *dts.Client) error { return errOf(c.Limit(ctx, "")) }},
			"another time": {"per", func(ctx context.Context, c *dts.Client) error {
				return c.SetLimit(ctx, "all", dts.LimitRule{Rate: 1, Per: 2 * time.Minute})
			}},
			"a rate without a time": {"per", func(ctx context.Context, c *dts.Client) error {
				return c.SetLimit(ctx, "all", dts.LimitRule{Rate: 1})
			}},
			"nothing": {"slots", func(ctx context.Context, c *dts.Client) error {
				return c.SetLimit(ctx, "all", dts.LimitRule{})
			}},
			"a year of five digits": {"until", func(ctx context.Context, c *dts.Client) error {
				return c.PauseLimit(ctx, "all", dts.LimitPause{Until: far})
			}},
			"a short pause": {"for", func(ctx context.Context, c *dts.Client) error {
				return c.PauseLimit(ctx, "all", dts.LimitPause{For: time.Millisecond})
			}},
			"a long note": {"note", func(ctx context.Context, c *dts.Client) error {
				return c.PauseLimit(ctx, "all", dts.LimitPause{Note: strings.Repeat("x", 1000)})
			}},
		} {
			err := bad.call(t.Context(), c)
			if e := (&dts.Error{}); !errors.As(err, &e) || e.Code != dts.CodeInvalid || e.Field != bad.field {
				t.Errorf("%s: %v, want the field %s", what, err, bad.field)
			}
		}
	})
}

// A handler pauses the key of its task: a second task of the key waits, and both are done in the end.
func TestPauseKey_HoldsUpTheKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c, err := dts.Open(f.redis)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, c.Close()) })
	awaitLimits(t, c)
	w := dts.NewWorker(dts.WorkerOptions{Redis: f.redis})
	busy := errors.New("HTTP 429")
	dts.Handle(w, "call", func(ctx context.Context, times int) error {
		if dts.Current(ctx).Attempt < times {
			return dts.PauseKey(busy, 3*time.Second)
		}
		return nil
	})
	start(t, w.Run)
	submit := func(id, key string, times int, delay time.Duration) {
		s := dts.Submission{ID: id, Type: "call", LimitKey: key, Payload: times, Delay: delay}
		_, err := c.Submit(t.Context(), s)
		testkit.Must(t, err)
	}
	submit("first", "tenant-7", 2, 0)
	var l *dts.Limit
	testkit.Eventually(t, "the key is paused", func() bool {
		l, err = c.Limit(t.Context(), "key:tenant-7")
		return err == nil && l.Paused
	})
	if l.By != "task first" || l.Note != "HTTP 429" {
		t.Errorf("it is %+v", l)
	}
	submit("second", "tenant-7", 1, time.Second) // by then, all leaders have heard of the pause
	submit("other", "tenant-8", 1, 0)
	for _, id := range []string{"other", "first", "second"} {
		got, err := c.Wait(t.Context(), id)
		testkit.Must(t, err)
		attempts, err := c.Attempts(t.Context(), id)
		testkit.Must(t, err)
		last := attempts[len(attempts)-1]
		if got.State != dts.StateSucceeded || last.StartedAt.Before(l.Until) != (id == "other") {
			t.Errorf("%s is %s, and began at %s; the pause lasts until %s", id, got.State, last.StartedAt, l.Until)
		}
	}
	testkit.Eventually(t, "the limit has ended with its pause", func() bool {
		return dts.CodeOf(errOf(c.Limit(t.Context(), "key:tenant-7"))) == dts.CodeLimitNotFound
	})
}

func TestSubmit_NeedsAKeyToPauseIt(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		awaitLimits(t, c)
		s := dts.Submission{Type: "http", Payload: map[string]string{"url": "http://localhost:1/", "pause": "key"}}
		_, err := c.Submit(t.Context(), s)
		if e := (&dts.Error{}); !errors.As(err, &e) || e.Code != dts.CodeInvalid || e.Field != "limit_key" {
			t.Errorf("without a key: %v", err)
		}
		s.LimitKey = "a"
		_, err = c.Submit(t.Context(), s)
		testkit.Must(t, err)
	})
}
