package store

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
)

// A definition counts from the time of the look on. Where the leader has decided about later ticks before it is
// written, these ticks would be named by one definition and decided by another.
func TestAPutThatLookedBeforeALaterTickWasDecidedHasToLookAgain(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	old, _, asked, err := w.look(w.ctx, nightly)
	if err != nil {
		t.Fatal(err)
	}
	for cursor := old.Cursor; !cursor.After(asked); { // until the leader's look comes a ms later at least
		w.db.ZAdd(w.ctx, string(w.partitionOf(nightly).Ticks()), z(0, nightly.String()))
		w.fire(nightly)
		is, err := w.GetSchedule(w.ctx, nightly)
		if err != nil {
			t.Fatal(err)
		}
		cursor = is.Cursor
	}
	other := daily(func(d *schedule.Definition) { d.Rules[0].Every = 48 * time.Hour }).Normalize()
	if _, err := w.write(w.ctx, other, PutOptions{}, old, asked); !redisx.RefusedWith(err, "EARLY") {
		t.Errorf("it was written after what was decided: %v", err)
	}
	put, err := w.PutSchedule(w.ctx, other, PutOptions{})
	if err != nil || put.Schedule.Revision != 2 || put.Schedule.UpdatedAt.Before(put.Schedule.Cursor) {
		t.Errorf("the next look led to %+v, %v", put.Schedule, err)
	}
}
