package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/task"
)

func TestVerdictIn_IsTheOutermost(t *testing.T) {
	err := errors.New("why")
	invalid := Invalid("url", "must be a URL")
	for name, c := range map[string]struct {
		err     error
		follows Follows
		wait    time.Duration
	}{
		"wrapped":                   {fmt.Errorf("far away: %w", RetryAfter(err, time.Hour)), FollowsWait, time.Hour},
		"permanent of later":        {Permanent(RetryAfter(err, time.Hour)), FollowsNothing, 0},
		"later of permanent":        {RetryAfter(Permanent(err), time.Hour), FollowsWait, time.Hour},
		"cancelled of permanent":    {Cancelled(fmt.Errorf("so: %w", Permanent(err))), FollowsCancelled, 0},
		"permanent of cancelled":    {Permanent(Cancelled(err)), FollowsNothing, 0},
		"later of later":            {RetryAfter(RetryAfter(err, time.Hour), time.Second), FollowsWait, time.Second},
		"the first of joined ones":  {errors.Join(err, Permanent(err), RetryAfter(err, time.Hour)), FollowsNothing, 0},
		"an invalid payload":        {fmt.Errorf("so: %w", invalid), FollowsNothing, 0},
		"later of an invalid one":   {RetryAfter(invalid, time.Hour), FollowsWait, time.Hour},
		"later, in the past":        {RetryAfter(err, -time.Hour), FollowsWait, 0},
		"brief and long, permanent": {Brief(RetryAfter(fmt.Errorf("%s: %w", strings.Repeat("x", task.ErrorLimit), Permanent(err)), time.Hour)), FollowsWait, time.Hour},
	} {
		if v := VerdictIn(c.err); v == nil || v.Follows != c.follows || Wait(c.err) != c.wait {
			t.Errorf("%s: %+v, want %d after %s", name, v, c.follows, c.wait)
		}
		if IsPermanent(c.err) != (c.follows == FollowsNothing) || IsCancelled(c.err) != (c.follows == FollowsCancelled) {
			t.Errorf("%s: permanent %t, cancelled %t", name, IsPermanent(c.err), IsCancelled(c.err))
		}
	}
	if v := VerdictIn(errors.Join(err, Permanent(nil), RetryAfter(nil, time.Hour), Cancelled(nil))); v != nil {
		t.Errorf("no verdict: %+v", v)
	}
}

func TestBrief_KeepsWhatATaskHasRoomFor(t *testing.T) {
	short := fmt.Errorf("so: %w", Permanent(errors.New("why")))
	if got := Brief(short); !errors.Is(got, short) || got.Error() != short.Error() || Brief(nil) != nil {
		t.Errorf("a brief one became %v, none %v", got, Brief(nil))
	}
	for name, text := range map[string]string{"long": strings.Repeat("x", task.ErrorLimit+1), "no text": "a\xff"} {
		got := Brief(Cancelled(errors.New(text)))
		if len(got.Error()) > task.ErrorLimit || !utf8.ValidString(got.Error()) || !IsCancelled(got) {
			t.Errorf("%s: %d bytes, %t", name, len(got.Error()), IsCancelled(got))
		}
		if plain := Brief(errors.New(text)); VerdictIn(plain) != nil || plain.Error() == text {
			t.Errorf("%s, without a verdict: %.20q", name, plain)
		}
	}
}

// A failed call is named by its error; one that was cancelled is no failure of the call.
func TestFailure_NamesTheCallUnlessItIsCancelled(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  string
	}{{nil, "refused"}, {ErrTimeout, "GET http://a: timeout"}, {ErrCancelled, "cancelled"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if c.cause != nil {
			cancel(c.cause)
		}
		if got := Failure(ctx, "GET http://a", errors.New("refused")); got.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.cause, got, c.want)
		}
		cancel(nil)
	}
}
