package doctor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// A machine's clock makes a short pause longer, so short ones are put together.
func TestExamination_RestsAsLongAsItWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &examination{rested: clock.Now()}
		for _, c := range []struct{ works, rests time.Duration }{
			{leastRest / 2, 0}, {leastRest, leastRest * 3 / 2}, {leastRest - 1, 0}, {5 * leastRest, 6*leastRest - 1},
		} {
			testkit.Must(t, clock.Sleep(t.Context(), c.works))
			start := clock.Now()
			testkit.Must(t, e.rest(t.Context()))
			if got := clock.Since(start); got != c.rests {
				t.Errorf("after %s of work it rested %s, want %s", c.works, got, c.rests)
			}
		}
	})
}
