package batch_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/dts-sched/dts/internal/batch"
)

func TestDo_CallsAtOnceForOneCaller(t *testing.T) {
	t.Parallel()
	calls := 0
	g := batch.New(10, func(items []int) []int {
		calls++
		if len(items) != 1 {
			t.Errorf("%d items in one call, want 1", len(items))
		}
		return []int{items[0] * 2}
	})
	for i := range 5 {
		if got, err := g.Do(t.Context(), i); err != nil || got != 2*i {
			t.Errorf("Do(%d) = %d, want %d", i, got, 2*i)
		}
	}
	if calls != 5 {
		t.Errorf("%d calls, want 5", calls)
	}
}

func TestDo_CollectsWhatComesWhileACallIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		first := make(chan struct{})
		g := batch.New(4, func(items []int) []int {
			if sizes = append(sizes, len(items)); len(sizes) == 1 {
				<-first
			}
			return items
		})
		var callers sync.WaitGroup
		for i := range 10 {
			callers.Go(func() {
				if got, err := g.Do(t.Context(), i); err != nil || got != i {
					t.Errorf("Do(%d) = %d", i, got)
				}
			})
			synctest.Wait()
		}
		close(first)
		callers.Wait()
		if want := []int{1, 4, 4, 1}; len(sizes) != 4 || sizes[0] != want[0] || sizes[1] != want[1] || sizes[2] != want[2] || sizes[3] != want[3] {
			t.Errorf("the calls had %v items, want %v", sizes, want)
		}
	})
}

func TestDo_GivesEveryCallerItsResultAndNeverOverlaps(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	g := batch.New(8, func(items []int) []int {
		if inside.Add(1) != 1 {
			t.Error("two calls overlap")
		}
		defer inside.Add(-1)
		results := make([]int, len(items))
		for i, n := range items {
			results[i] = -n
		}
		return results
	})
	var callers sync.WaitGroup
	for c := range 16 {
		callers.Go(func() {
			for i := range 200 {
				if n := c*1000 + i; must(g.Do(t.Context(), n)) != -n {
					t.Errorf("Do(%d) has another caller's result", n)
				}
			}
		})
	}
	callers.Wait()
}

func TestDo_PanicsForAllItemsOfACallThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		calls := 0
		g := batch.New(4, func(items []int) []int {
			if calls++; calls == 1 {
				<-first
				return items
			}
			if calls == 2 {
				panic("broken")
			}
			return items
		})
		var callers sync.WaitGroup
		var panics atomic.Int32
		for i := range 4 { // the first is alone, the others go together
			callers.Go(func() {
				defer func() {
					if p := recover(); p == "broken" {
						panics.Add(1)
					}
				}()
				_, _ = g.Do(t.Context(), i)
			})
			synctest.Wait()
		}
		close(first)
		callers.Wait()
		if panics.Load() != 3 {
			t.Errorf("%d callers saw the panic, want 3", panics.Load())
		}
		if got, err := g.Do(t.Context(), 7); err != nil || got != 7 {
			t.Errorf("afterwards Do(7) = %d", got)
		}
	})
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

func TestDo_ReturnsWhenItsContextEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		first := make(chan struct{})
		g := batch.New(1, func(items []int) []int {
			if seen = append(seen, items...); len(seen) == 1 {
				<-first
			}
			return items
		})
		var callers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 5 {
			callers.Go(func() {
				own := t.Context()
				if i == 1 || i == 3 {
					own = ctx
				}
				got, err := g.Do(own, i)
				if gone := i == 1 || i == 3; gone != (err != nil) || !gone && got != i {
					t.Errorf("Do(%d) = %d, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		close(first)
		callers.Wait()
		if want := []int{0, 2, 4}; !slices.Equal(seen, want) {
			t.Errorf("the calls saw %v, want %v", seen, want)
		}
	})
}

func TestDo_KeepsResultsApartWhenCallersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen [][]int
		first := make(chan struct{})
		g := batch.New(3, func(items []int) []int {
			if seen = append(seen, slices.Clone(items)); len(seen) == 1 {
				<-first
			}
			results := make([]int, len(items))
			for i, n := range items {
				results[i] = -n
			}
			return results
		})
		gone, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		leaves := map[int]bool{1: true, 4: true, 5: true, 6: true} // of the calls {1 2 3}, {4 5 6} and {7}
		for i := range 8 {
			callers.Go(func() {
				ctx := t.Context()
				if leaves[i] {
					ctx = gone
				}
				got, err := g.Do(ctx, i)
				if leaves[i] != (err != nil) || err == nil && got != -i {
					t.Errorf("Do(%d) = %d, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		close(first)
		callers.Wait()
		if want := [][]int{{0}, {2, 3}, {7}}; !slices.EqualFunc(seen, want, slices.Equal) {
			t.Errorf("the calls saw %v, want %v", seen, want)
		}
		if got := must(g.Do(t.Context(), 9)); got != -9 {
			t.Errorf("afterwards Do(9) = %d", got)
		}
	})
}

// While a call is under way, callers come and go, and their items may be large.
func TestDo_KeepsNoItemsOfCallersThatHaveLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		g := batch.New(10, func(items []*[1 << 10]byte) []int {
			<-first
			return make([]int, len(items))
		})
		var callers sync.WaitGroup
		callers.Go(func() { _, _ = g.Do(t.Context(), nil) })
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		var kept []weak.Pointer[[1 << 10]byte]
		for range 5 {
			item := new([1 << 10]byte)
			kept = append(kept, weak.Make(item))
			callers.Go(func() { _, _ = g.Do(gone, item) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		runtime.GC()
		for i, item := range kept {
			if item.Value() != nil {
				t.Errorf("item %d is kept", i)
			}
		}
		close(first)
		callers.Wait()
	})
}

// A call that ends its goroutine, as a failed test does, holds nobody up.
func TestDo_GoesOnAfterACallThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	g := batch.New(1, func(items []int) []int {
		if items[0] == 0 {
			runtime.Goexit()
		}
		return items
	})
	var ends sync.WaitGroup
	ends.Go(func() { _, _ = g.Do(t.Context(), 0) })
	ends.Wait()
	if got, err := g.Do(t.Context(), 7); got != 7 || err != nil {
		t.Errorf("Do = %d, %v, want 7", got, err)
	}
}
