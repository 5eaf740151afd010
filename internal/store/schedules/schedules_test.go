package schedules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var nightly = storetest.Nightly

// A definition counts from the time at which the caller read the schedule. If the leader decides later ticks before the
// definition is written, these ticks would be named by one definition and decided by another.
func TestWrite_RefusesATimeBeforeADecidedTick(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	old, _, read, err := w.Schedules.LookUp(w.Ctx, nightly)
	testkit.Must(t, err)
	testkit.Eventually(t, "the leader has decided later ticks", func() bool {
		w.MakeDue(nightly)
		w.Fire(nightly)
		return w.Schedule(nightly).Cursor.After(read)
	})
	other := storetest.Daily(func(d *schedule.Definition) { d.Rules[0].Every = 48 * time.Hour }).Normalize()
	if _, err := w.Schedules.Write(w.Ctx, other, old.Revision, read, false, ""); !errors.Is(err, schedules.ErrMoved) {
		t.Errorf("from before the cursor: %v, want ErrMoved", err)
	}
	if _, err := w.Schedules.Write(w.Ctx, other, old.Revision, w.Schedule(nightly).Cursor, false, ""); err != nil {
		t.Errorf("from the cursor: %v", err)
	}
	if s := w.Schedule(nightly); s.Revision != 2 || s.UpdatedAt.Before(s.Cursor) {
		t.Errorf("the second write led to %+v", s)
	}
}

func TestPause_WithoutANoteKeepsTheNote(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	for _, note := range []string{"for the upgrade", ""} {
		if s, err := w.Schedules.Pause(w.Ctx, nightly, note, ""); err != nil || s.PauseNote != "for the upgrade" {
			t.Errorf("paused with %q: the note is %q, %v", note, s.PauseNote, err)
		}
	}
}

func TestResume_MakesTicksOfThePauseMisfires(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Hourly(3, func(d *schedule.Definition) { d.Misfire = schedule.Misfire{Policy: schedule.MisfireSkip} })
	w.Pause(nightly)
	if got := w.Fire(nightly); len(got) != 0 {
		t.Fatalf("paused, but fired %v", got)
	}
	s, err := w.Schedules.Resume(w.Ctx, nightly, "")
	if err != nil || !s.PausedAt.IsZero() {
		t.Fatalf("%+v, %v", s, err)
	}
	w.Fire(nightly)
	want := []schedule.Outcome{schedule.Missed, schedule.Missed, schedule.Missed}
	if diff := cmp.Diff(want, w.Recorded(nightly)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}
