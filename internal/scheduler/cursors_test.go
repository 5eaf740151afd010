package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestCursors_KnowForAMinuteWhatWasDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c cursors
		a, b, again := creation{task.Ref{ID: "a"}, 1}, creation{task.Ref{ID: "b"}, 1}, creation{task.Ref{ID: "a"}, 2}
		at := time.UnixMilli(1_000)
		c.add(a, at)
		c.add(a, at.Add(time.Second))
		for cursor, want := range map[time.Duration]bool{0: true, time.Second: true, time.Second + 1: false} {
			if got := c.passed(a, at.Add(cursor)); got != want {
				t.Errorf("%s later: %v, want %v", cursor, got, want)
			}
		}
		if c.passed(b, at) || c.passed(again, at) {
			t.Error("a schedule of which nothing was decided has passed")
		}
		testkit.Must(t, clock.Sleep(t.Context(), cursorsFor))
		if !c.passed(a, at) {
			t.Error("it is forgotten too early")
		}
		for range 2 {
			testkit.Must(t, clock.Sleep(t.Context(), cursorsFor+1))
			c.add(b, at)
		}
		if c.passed(a, at) {
			t.Error("it is never forgotten")
		}
	})
}
