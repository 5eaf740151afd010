package batch_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dts-sched/dts/internal/batch"
)

func TestGroups_DoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := make(chan struct{})
		g := batch.NewGroups(2, func(i int) int { return i % 2 }, 10, func(items []int) []int {
			if items[0]%2 == 1 {
				<-silent
			}
			return items
		})
		var waiting sync.WaitGroup
		for _, odd := range []int{1, 3} {
			waiting.Go(func() {
				if got, err := g.Do(t.Context(), odd); err != nil || got != odd {
					t.Errorf("Do(%d) = %d, %v", odd, got, err)
				}
			})
		}
		synctest.Wait()
		if got, err := g.Do(t.Context(), 2); err != nil || got != 2 {
			t.Errorf("Do(2) = %d, %v", got, err)
		}
		close(silent)
		waiting.Wait()
	})
}
