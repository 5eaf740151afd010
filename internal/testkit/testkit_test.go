package testkit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// failing is a test that records how it fails.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Logf(format string, args ...any) { f.message = fmt.Sprintf(format, args...) }

func (f *failing) Fatal(args ...any) {
	f.message = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// failure returns how a test fails, "" if it does not.
func failure(test func(t testing.TB)) string {
	f := &failing{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f.message
}

func TestMust_FailsWithTheError(t *testing.T) {
	if got := failure(func(t testing.TB) { Must(t, errors.New("broken")) }); got != "broken" {
		t.Errorf("failed with %q, want the error", got)
	}
	Must(t, nil)
}

func TestWithin_ChecksUntilTheConditionHolds(t *testing.T) {
	checks := 0
	Within(t, Limit, "the third check", func() bool { checks++; return checks == 3 })
	if checks != 3 {
		t.Errorf("%d checks, want 3", checks)
	}
}

func TestWithin_FailsAfterItsLimit(t *testing.T) {
	got := failure(func(t testing.TB) {
		Within(t, 10*time.Millisecond, "pigs fly", func() bool { return false })
	})
	if want := "not within 10ms: pigs fly"; got != want {
		t.Errorf("failed with %q, want %q", got, want)
	}
}

func TestReceive_TakesAValueOrTheEndOfTheChannel(t *testing.T) {
	c := make(chan int, 1)
	c <- 7
	close(c)
	if got := Receive(t, c, "a number"); got != 7 {
		t.Errorf("received %d, want 7", got)
	}
	if got := Receive(t, c, "the end"); got != 0 {
		t.Errorf("received %d from a closed channel, want 0", got)
	}
}

func TestCause_IsWhyTheContextEnded(t *testing.T) {
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if got := Cause(t, ctx, "the end"); !errors.Is(got, reason) {
		t.Errorf("the cause is %v, want %v", got, reason)
	}
}

func TestAmount_DependsOnTheForm(t *testing.T) {
	for value, want := range map[string]int{"": 3, "0": 3, "1": 40} {
		t.Setenv(longVariable, value)
		if got := Amount(3, 40); got != want {
			t.Errorf("%s=%q: %d, want %d", longVariable, value, got, want)
		}
	}
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestSample_IsAllInTheLongForm(t *testing.T) {
	t.Setenv(longVariable, "1")
	if got := Sample(t, 5, numbers(100)); !slices.Equal(got, numbers(100)) {
		t.Errorf("%d of 100 items in the long form", len(got))
	}
}

func TestSample_IsAllOfAFew(t *testing.T) {
	t.Setenv(longVariable, "")
	if got := Sample(t, 5, numbers(5)); !slices.Equal(got, numbers(5)) {
		t.Errorf("%v of 5 items", got)
	}
}

func TestSample_IsRepeatedByItsSeed(t *testing.T) {
	t.Setenv(longVariable, "")
	t.Setenv(seedVariable, "42")
	first := Sample(t, 10, numbers(100))
	if second := Sample(t, 10, numbers(100)); !slices.Equal(first, second) {
		t.Errorf("%v and %v have the same seed", first, second)
	}
	t.Setenv(seedVariable, "43")
	if third := Sample(t, 10, numbers(100)); slices.Equal(first, third) {
		t.Errorf("two seeds choose the same: %v", first)
	}
}

func TestSample_IsTheSameWithoutASeed(t *testing.T) {
	t.Setenv(longVariable, "")
	t.Setenv(seedVariable, "")
	first := Sample(t, 10, numbers(100))
	if second := Sample(t, 10, numbers(100)); !slices.Equal(first, second) {
		t.Errorf("%v, and then %v", first, second)
	}
}

func TestSample_SaysHowToRepeatIt(t *testing.T) {
	t.Setenv(longVariable, "")
	t.Setenv(seedVariable, "42")
	got := failure(func(t testing.TB) { Sample(t, 10, numbers(100)) }) // records the log as well
	if !strings.Contains(got, "TEST_SEED=42") || !strings.Contains(got, "10 of 100") {
		t.Errorf("the log is %q", got)
	}
}

func TestSample_RefusesASeedThatIsNoNumber(t *testing.T) {
	t.Setenv(longVariable, "")
	t.Setenv(seedVariable, "x")
	if got := failure(func(t testing.TB) { Sample(t, 10, numbers(100)) }); !strings.Contains(got, seedVariable) {
		t.Errorf("failed with %q", got)
	}
}

// Over many seeds, every item is chosen about as often, and each sample has its size and order.
func TestSample_ChoosesEveryItemAlike(t *testing.T) {
	const seeds, size, count = 2000, 10, 50
	chosen := make([]int, count)
	for seed := range uint64(seeds) {
		sample := choose(seed, size, numbers(count))
		if len(sample) != size || !slices.IsSorted(sample) {
			t.Fatalf("seed %d chooses %v", seed, sample)
		}
		for _, i := range sample {
			chosen[i]++
		}
	}
	for i, n := range chosen {
		if want := seeds * size / count; n < want*3/4 || n > want*5/4 {
			t.Errorf("item %d was chosen %d times of %d, want about %d", i, n, seeds, want)
		}
	}
}
