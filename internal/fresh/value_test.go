package fresh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var errSilent = errors.New("no answer")

// reads returns a reading; 0 stands for one that fails.
func reads(value int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		if value == 0 {
			return 99, errSilent
		}
		return value, nil
	}
}

// silent is a reading without an answer.
func silent(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }

func TestValue_IsReadAgainWhenItIsTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := fresh.Rules{Lifetime: 2 * time.Second, Retry: 10 * time.Second, Limit: time.Second}
		var v fresh.Value[int]
		if got, err := v.Last(); got != 0 || !errors.Is(err, fresh.ErrUnread) {
			t.Errorf("before the first reading: %d, %v", got, err)
		}
		for _, step := range []struct {
			name  string
			after time.Duration
			reads int
			want  int
			err   error
		}{
			{"the first reading fails", 0, 0, 0, errSilent},
			{"too soon after a failure", 2 * time.Second, 1, 0, errSilent},
			{"a reading", 10 * time.Second, 2, 2, nil},
			{"too soon for another one", time.Second, 3, 2, nil},
			{"another one", 2 * time.Second, 4, 4, nil},
			{"one that fails leaves the value", 2 * time.Second, 0, 4, errSilent},
		} {
			_ = clock.Sleep(t.Context(), step.after)
			if got, err := v.Get(t.Context(), rules, reads(step.reads)); got != step.want || !errors.Is(err, step.err) {
				t.Errorf("%s: got %d, %v, want %d, %v", step.name, got, err, step.want, step.err)
			}
		}
	})
}

// While one caller reads, the others take the value or wait, as its age says.
func TestValue_IsReadByOneCaller(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		value  int // that was read before; 0: the reading failed
		age    time.Duration
		noWait bool
		waits  bool
		want   int
		err    error
	}{
		{"the first reading", 1, 0, false, true, 0, context.DeadlineExceeded},
		{"a value that is not too old", 1, 2 * time.Second, false, false, 1, nil},
		{"an older one", 1, 11 * time.Second, false, true, 1, context.DeadlineExceeded},
		{"after a failure", 0, 11 * time.Second, false, false, 0, errSilent},
		{"the first reading, for which nobody waits", 1, 0, true, false, 0, fresh.ErrUnread},
		{"a value while nobody waits", 1, 2 * time.Second, true, false, 1, nil},
		{"an older one while nobody waits", 1, 11 * time.Second, true, false, 1, fresh.ErrUnread},
	} {
		synctest.Test(t, func(t *testing.T) {
			rules := fresh.Rules{Lifetime: time.Second, Limit: time.Second, Tolerate: 10 * time.Second, NoWait: c.noWait}
			var v fresh.Value[int]
			if c.age > 0 {
				_, _ = v.Get(t.Context(), rules, reads(c.value))
				_ = clock.Sleep(t.Context(), c.age)
			}
			begin, end := time.Now(), make(chan time.Duration)
			go func() { _, _ = v.Get(t.Context(), rules, silent); end <- time.Since(begin) }()
			synctest.Wait()
			got, err := v.Get(t.Context(), rules, reads(5))
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s: the second caller got %d, %v, want %d, %v", c.name, got, err, c.want, c.err)
			}
			if waited := time.Since(begin); waited > 0 != c.waits {
				t.Errorf("%s: the second caller waited %s", c.name, waited)
			}
			if waited := <-end; waited != rules.Limit {
				t.Errorf("%s: the first caller waited %s", c.name, waited)
			}
			if got, err := v.Last(); got == 5 || err == nil {
				t.Errorf("%s: there was a second reading: %d, %v", c.name, got, err)
			}
		})
	}
}

func TestValue_IsReadThoughItsReaderLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := fresh.Rules{Lifetime: time.Minute, Limit: time.Minute}
		var v fresh.Value[int]
		answer := make(chan int)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		read := func(ctx context.Context) (int, error) { return <-answer, ctx.Err() }
		if got, err := v.Get(ctx, rules, read); got != 0 || !errors.Is(err, fresh.ErrUnread) {
			t.Errorf("who left got %d, %v", got, err)
		}
		answer <- 1
		if got, err := v.Get(t.Context(), rules, reads(2)); got != 1 || err != nil {
			t.Errorf("the others got %d, %v", got, err)
		}
	})
}

// A caller who reads at intervals shares its readings with all, but for one that it gives up.
func TestValue_IsReadAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := fresh.Rules{Lifetime: fresh.Always, Limit: time.Minute}
		var v fresh.Value[int]
		answer := make(chan int)
		go v.Read(t.Context(), func(context.Context) (int, error) { return <-answer, nil })
		synctest.Wait()
		got := make(chan int)
		go func() { value, _ := v.Get(t.Context(), rules, reads(2)); got <- value }()
		go v.Read(t.Context(), reads(3)) // it waits for the first one
		synctest.Wait()
		answer <- 1
		if value := <-got; value != 1 {
			t.Errorf("who waited for the reading got %d", value)
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		v.Read(ctx, func(ctx context.Context) (int, error) { <-ctx.Done(); return 4, context.Canceled })
		if value, err := v.Last(); value != 1 || err != nil {
			t.Errorf("after a reading that was given up: %d, %v", value, err)
		}
		v.Read(t.Context(), reads(5))
		if value, _ := v.Get(t.Context(), rules, reads(6)); value != 5 {
			t.Errorf("after another reading: %d", value)
		}
	})
}

// A reading is made for all who wait, on no request's goroutine.
func TestValue_TakesAPanicForAnError(t *testing.T) {
	t.Parallel()
	rules := fresh.Rules{Lifetime: time.Minute, Limit: time.Second}
	var v fresh.Value[int]
	_, err := v.Get(t.Context(), rules, func(context.Context) (int, error) { panic("on purpose") })
	if err == nil || !strings.Contains(err.Error(), "on purpose") || !strings.Contains(err.Error(), "value_test.go") {
		t.Errorf("error %v", err)
	}
}

func TestValue_IsReadAgainBehindItsCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := fresh.Rules{Lifetime: time.Minute, Tolerate: 2 * time.Minute, Limit: 10 * time.Second, Behind: true}
		slow := func(value int) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) { return value, clock.Sleep(ctx, 5*time.Second) }
		}
		var v fresh.Value[int]
		for _, step := range []struct {
			name  string
			after time.Duration
			want  int
			waits bool
		}{
			{"the first one waits", 0, 1, true},
			{"nobody waits for a newer value", time.Minute, 1, false},
			{"which comes", 6 * time.Second, 2, false},
			{"one that is too old is waited for", 3 * time.Minute, 3, true},
		} {
			_ = clock.Sleep(t.Context(), step.after)
			began := clock.Now()
			last, _ := v.Last()
			got, err := v.Get(t.Context(), rules, slow(last+1))
			if waited := clock.Since(began) > 0; got != step.want || err != nil || waited != step.waits {
				t.Errorf("%s: got %d, %v, waited: %t", step.name, got, err, waited)
			}
		}
	})
}
