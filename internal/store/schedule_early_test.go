package store

import (
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
)

// A definition counts from the time at which the schedule was read. If the leader decides about later ticks before the
// definition is written, these ticks would be named by one definition and decided by another.
func TestWriteSchedule_RefusesATimeBeforeALaterTickWasDecided(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	old, _, asked, err := w.Schedules.LookUp(w.ctx, nightly)
	if err != nil {
		t.Fatal(err)
	}
	for cursor := old.Cursor; !cursor.After(asked); { // until the leader looks at least 1 ms later
		w.db.ZAdd(w.ctx, string(w.KeysOf(nightly).Ticks()), z(0, nightly.String()))
		w.fire(nightly)
		cursor = w.schedule(nightly).Cursor
	}
	other := daily(func(d *schedule.Definition) { d.Rules[0].Every = 48 * time.Hour }).Normalize()
	if _, err := w.Schedules.Write(w.ctx, other, old.Revision, asked, false); !errors.Is(err, schedules.ErrMoved) {
		t.Errorf("it was written before what was decided: %v", err)
	}
	if _, err := w.Schedules.Write(w.ctx, other, old.Revision, w.schedule(nightly).Cursor, false); err != nil {
		t.Errorf("at the cursor: %v", err)
	}
	if s := w.schedule(nightly); s.Revision != 2 || s.UpdatedAt.Before(s.Cursor) {
		t.Errorf("the second write led to %+v", s)
	}
}
