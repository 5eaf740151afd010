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
			if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(dts.Limit{}, "By", "At"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			all, err := c.Limits(ctx)
			testkit.Must(t, err)
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
