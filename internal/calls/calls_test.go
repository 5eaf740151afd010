package calls_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestTry_ReturnsTheFirstFailureByOrder(t *testing.T) {
	t.Parallel()
	first, ended := errors.New("first"), make(chan struct{})
	err := calls.Try(
		func() error { return nil },
		func() error { <-ended; return first },
		func() error { defer close(ended); return errors.New("second") },
	)
	if !errors.Is(err, first) {
		t.Errorf("error %v", err)
	}
}

func TestEach_BoundsTheCallsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		var busy atomic.Int32
		items, leave := []int{1, 2, 3, 4, 5, 6, 7}, make(chan struct{})
		done := make([]int, len(items))
		go func() {
			for range items {
				synctest.Wait()
				if n := busy.Load(); n > limit {
					t.Errorf("%d calls at once", n)
				}
				leave <- struct{}{}
			}
		}()
		err := calls.Each(limit, items, func(i, item int) error {
			busy.Add(1)
			<-leave
			busy.Add(-1)
			done[i] = item
			return nil
		})
		if err != nil || !slices.Equal(done, items) {
			t.Errorf("did %v, error %v", done, err)
		}
	})
}

// blowUp panics, in a call within a call.
func blowUp() { calls.Do(func() { panic("on purpose") }) }

func TestDo_PanicsWhereItIsCalled(t *testing.T) {
	t.Parallel()
	others := 0
	defer func() {
		err := calls.Recovered(recover())
		text := fmt.Sprint(err)
		if others != 1 || strings.Count(text, "on purpose") != 1 || !strings.Contains(text, "blowUp") {
			t.Errorf("%d other calls; %s", others, text)
		}
	}()
	calls.Do(blowUp, func() { others++ })
	t.Error("it has not panicked")
}
