package control

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

func TestNext_ShowsNoMoreTicksThanWillRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(1, func(d *schedule.Definition) { d.MaxRuns = 3 })
	for _, want := range []int{3, 2} { // before and after the first one ran
		preview, err := w.Next(w.ctx, me, nightly.ID, time.Time{}, 10)
		if err != nil || len(preview.Ticks) != want {
			t.Fatalf("%d ticks, %v, want %d", len(preview.Ticks), err, want)
		}
		w.fire(nightly)
	}
	w.put(daily(func(d *schedule.Definition) { d.Rules[0].Every, d.MaxRuns = time.Hour, 1 }))
	w.fire(nightly)
	if preview, err := w.Next(w.ctx, me, nightly.ID, time.Time{}, 10); err != nil || len(preview.Ticks) != 0 {
		t.Errorf("of one that has ended: %v, %v", preview.Ticks, err)
	}
}
