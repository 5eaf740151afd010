package control

import (
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

func TestBackfillSchedule_RunsWhatDidNotRunAndNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticks := w.hourly(6, func(d *schedule.Definition) {
		d.Overlap, d.Misfire = schedule.OverlapAllow, schedule.Misfire{Policy: schedule.MisfireAll, Window: 24 * time.Hour, Max: 2}
	})
	w.fire(nightly)
	s, _ := w.GetSchedule(w.ctx, me, nightly.ID)
	from := s.CreatedAt.Add(-90 * time.Minute) // one tick before it was created, and the instant of the creation
	got, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: from, Until: s.Cursor, Pace: time.Second})
	if err != nil || len(got.Entries) != 6 || len(got.Left) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	states := w.tasksOf(nightly)
	for _, tick := range ticks {
		if _, there := states["nightly@"+tick]; !there {
			t.Errorf("%s did not run", tick)
		}
	}
	again, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: from, Until: s.Cursor, Pace: time.Second})
	if err != nil || len(again.Entries) != 0 || len(again.Left) != 8 {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	first, err := w.GetTask(w.ctx, me, got.Entries[0].TaskID("nightly"))
	last, errLast := w.GetTask(w.ctx, me, got.Entries[5].TaskID("nightly"))
	if err != nil || errLast != nil || last.DueAt.Sub(first.DueAt) != 5*time.Second {
		t.Errorf("the first is due %s, the last %s", first.DueAt, last.DueAt)
	}
	if _, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: from, Until: s.Cursor.Add(time.Hour)}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("into the future: %v", err)
	}
	_, err = w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: s.Cursor.Add(time.Hour), Until: s.Cursor.Add(2 * time.Hour)})
	if invalid := new(task.Error); !errors.As(err, &invalid) || invalid.Field != "from" {
		t.Errorf("from the future: %v", err)
	}
	report, err := w.AuditSchedule(w.ctx, me, nightly.ID, time.Time{}, time.Time{})
	if err != nil || !report.Proved || report.Outcomes[schedule.Backfilled] != 5 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

func TestBackfillSchedule_RefusesWhatIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(3, nil)
	w.fire(nightly)
	s := w.schedule(nightly)
	if _, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: s.CreatedAt.Add(-schedule.LedgerHorizon), Until: s.Cursor}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("beyond the ledger's horizon: %v", err)
	}
	w.rewind(nightly, 24*time.Hour) // so that the revisions are not all of one moment
	for i := range schedule.HistoryLimit + 1 {
		w.put(daily(func(d *schedule.Definition) { d.Rules[0].Every = time.Duration(i+20) * time.Minute }))
		w.fire(nightly)
	}
	s = w.schedule(nightly)
	if _, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: s.CreatedAt.Add(time.Minute), Until: s.Cursor}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("beyond the oldest revision: %v", err)
	}
	if report := w.audit(nightly); report.ForgottenUntil.IsZero() {
		t.Errorf("the audit does not say that it does not reach back: %+v", report)
	}
}

func TestRetryTask_OfABackfilledTickDoesNotCountForOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	s := w.schedule(nightly)
	got, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: s.CreatedAt.Add(-25 * time.Hour), Until: s.CreatedAt.Add(-time.Hour)})
	if err != nil || len(got.Entries) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	w.end(nightly, got.Entries[0].Name, task.Failed)
	if _, err := w.RetryTask(w.ctx, me, got.Entries[0].TaskID("nightly"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if s := w.schedule(nightly); s.Live != 0 {
		t.Errorf("%d count for overlap", s.Live)
	}
}
