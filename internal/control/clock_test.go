package control

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// silent is the error of a server that does not answer.
func silent(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestRedisClock_KeepsItsReadingWhenTheNextOneFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r redisClock
		failing := true
		ahead := func() time.Duration {
			return time.Until(r.now(t.Context(), func(context.Context) (time.Time, error) {
				if failing {
					return time.Time{}, errors.New("no answer")
				}
				return time.Now().Add(time.Hour), nil
			}))
		}
		for _, step := range []struct {
			name    string
			failing bool
			after   time.Duration
			want    time.Duration
		}{
			{"the first reading fails", true, 0, 0},
			{"too soon for another one", false, redisClockLifetime / 2, 0},
			{"a reading", false, redisClockLifetime, time.Hour},
			{"the next one fails", true, 2 * redisClockLifetime, time.Hour},
		} {
			_ = clock.Sleep(t.Context(), step.after)
			if failing = step.failing; ahead() != step.want {
				t.Errorf("%s: Redis is ahead by %s, want %s", step.name, ahead(), step.want)
			}
		}
	})
}

func TestRedisClock_HasOneCallerWaitForTheNextReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r redisClock
		silent := func(ctx context.Context) (time.Time, error) { return time.Time{}, silent(ctx) }
		r.now(t.Context(), silent)
		_ = clock.Sleep(t.Context(), redisClockLifetime)
		begin := time.Now()
		go r.now(t.Context(), silent)
		synctest.Wait()
		r.now(t.Context(), silent)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("the second caller waited %s", waited)
		}
		_ = clock.Sleep(t.Context(), redisClockTimeout) // until the reading has ended
	})
}

// The clock of the process may be wrong.
func TestRedisClock_HasAllCallersWaitForTheFirstReading(t *testing.T) {
	t.Parallel()
	const callers = 20
	var r redisClock
	begun, asking, answer, times := make(chan struct{}), make(chan struct{}), make(chan time.Time), make(chan time.Time, callers)
	ask := func() {
		times <- r.now(t.Context(), func(context.Context) (time.Time, error) { close(begun); return <-answer, nil })
	}
	go ask()
	_ = testkit.Receive(t, begun, "the reading")
	for range callers - 1 {
		go func() { asking <- struct{}{}; ask() }()
		_ = testkit.Receive(t, asking, "another caller")
	}
	answer <- time.Now().Add(time.Hour)
	for range callers {
		if now := testkit.Receive(t, times, "the time"); time.Until(now) < time.Minute {
			t.Errorf("a caller got the time of the process, %s", now)
		}
	}
}
