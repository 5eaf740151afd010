package control

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

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

func TestRedisClock_HasOneCallerWaitForTheReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r redisClock
		silent := func(ctx context.Context) (time.Time, error) { <-ctx.Done(); return time.Time{}, ctx.Err() }
		begin := time.Now()
		go r.now(t.Context(), silent)
		synctest.Wait()
		r.now(t.Context(), silent)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("the second caller waited %s", waited)
		}
	})
}
