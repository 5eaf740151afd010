package control

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// silent is the error of a server that does not answer.
func silent(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func reads[T any](value T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return value, nil }
}

func TestLatest_IsReadAgainWhenItIsTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lifetime = 2 * time.Second
		var l latest[int]
		for _, step := range []struct {
			name  string
			after time.Duration
			value int // 0: the reading fails
			want  int
		}{
			{"the first reading fails", 0, 0, 0},
			{"too soon after a failure", lifetime, 1, 0},
			{"a reading", latestRetry, 2, 2},
			{"too soon for another one", lifetime / 2, 3, 2},
			{"another one", lifetime, 4, 4},
			{"one that fails", lifetime, 0, 0},
		} {
			_ = clock.Sleep(t.Context(), step.after)
			got := l.get(t.Context(), lifetime, func(context.Context) (int, error) {
				if step.value == 0 {
					return 99, errors.New("no answer")
				}
				return step.value, nil
			})
			if got != step.want {
				t.Errorf("%s: got %d, want %d", step.name, got, step.want)
			}
		}
	})
}

// The server may be silent.
func TestLatest_HasOneCallerWaitForTheReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ age, value time.Duration }{ // that was read
			{0, 0}, {time.Second, time.Second}, {latestLimit + 1, 0},
		} {
			var l latest[time.Duration]
			if c.age > 0 {
				l.get(t.Context(), time.Second, reads(c.age))
				_ = clock.Sleep(t.Context(), c.age)
			}
			silent := func(ctx context.Context) (time.Duration, error) { return 0, silent(ctx) }
			begin := time.Now()
			end := make(chan time.Time)
			go func() { l.get(t.Context(), time.Second, silent); end <- time.Now() }()
			synctest.Wait()
			if got := l.get(t.Context(), time.Second, silent); got != c.value || time.Since(begin) != 0 {
				t.Errorf("after %s, the second caller got %s and waited %s", c.age, got, time.Since(begin))
			}
			if waited := (<-end).Sub(begin); waited != latestTimeout {
				t.Errorf("after %s, the reader waited %s", c.age, waited)
			}
		}
	})
}

func TestLatest_IsReadThoughTheReaderGivesUp(t *testing.T) {
	t.Parallel()
	var l latest[int]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.get(ctx, time.Minute, func(ctx context.Context) (int, error) { return 1, ctx.Err() })
	if got := l.get(t.Context(), time.Minute, reads(2)); got != 1 {
		t.Errorf("the others got %d", got)
	}
}
