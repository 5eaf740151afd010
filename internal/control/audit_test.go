package control

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestAuditSchedule_ExpectsNoTicksAfterTheLastRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticks := w.hourly(4, func(d *schedule.Definition) { d.Overlap, d.MaxRuns = schedule.OverlapAllow, 2 })
	w.fire(nightly)
	s, err := w.GetSchedule(w.ctx, me, nightly.ID)
	if err != nil || s.Runs != 2 || schedule.TickName(s.EndedAt) != ticks[1] {
		t.Fatalf("it is %+v, %v", s, err)
	}
	report, err := w.AuditSchedule(w.ctx, me, nightly.ID, time.Time{}, time.Time{})
	if err != nil || !report.Proved || report.Expected != 2 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

func TestAuditSchedule_FindsGapsAndStrays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticks := w.hourly(5, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	w.fire(nightly)
	audit := func() schedule.Report {
		report, err := w.AuditSchedule(w.ctx, me, nightly.ID, time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if r := audit(); !r.Proved || r.Expected != 5 || r.Accounted != 5 {
		t.Fatalf("before: %+v", r)
	}
	ledger := w.key(nightly, "ledger")
	third := w.db.ZRange(w.ctx, ledger, 2, 2).Val()[0]
	at := int64(w.db.ZScore(w.ctx, ledger, third).Val())
	w.db.ZRem(w.ctx, ledger, third)
	if r := audit(); r.Proved || len(r.Gaps) != 1 || schedule.TickName(r.Gaps[0]) != ticks[2] {
		t.Errorf("with a gap: %+v", r)
	}
	w.db.ZAdd(w.ctx, ledger, z(float64(at), third), z(float64(at+1), strings.Replace(third, ticks[2], schedule.TickName(time.UnixMilli(at+1).UTC()), 1)))
	if r := audit(); r.Proved || len(r.Gaps) != 0 || len(r.Strays) != 1 {
		t.Errorf("with a stray: %+v", r)
	}
}

func TestAuditSchedule_SaysWhatTheLedgerHasForgotten(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) {
		d.Rules[0].Every, d.Misfire.Policy = time.Second, schedule.MisfireSkip
	}))
	w.rewind(nightly, 5*time.Hour)
	w.fire(nightly)
	if n := w.db.ZCard(w.ctx, w.key(nightly, "ledger")).Val(); n > schedule.LedgerLimit || n < schedule.LedgerLimit/3 {
		t.Errorf("%d records", n)
	}
	report, err := w.AuditSchedule(w.ctx, me, nightly.ID, time.Time{}, time.Time{})
	if err != nil || !report.Proved || report.Expected < schedule.LedgerLimit/3 {
		t.Errorf("of what is known: %+v, %v", report, err)
	}
	s, _ := w.GetSchedule(w.ctx, me, nightly.ID)
	report, err = w.AuditSchedule(w.ctx, me, nightly.ID, s.CreatedAt, time.Time{})
	if err != nil || report.Proved || report.ForgottenUntil.IsZero() || len(report.Gaps)+len(report.Strays) > 0 {
		t.Errorf("of all: %+v, %v", report, err)
	}
}

func (w *world) audit(ref task.Ref) schedule.Report {
	w.t.Helper()
	report, err := w.AuditSchedule(w.ctx, me, ref.ID, time.Time{}, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestAuditSchedule_DoesNotRememberWhatWasForgotten(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Rules[0].Every, d.Misfire.Policy = time.Second, schedule.MisfireSkip }))
	w.rewind(nightly, 2*time.Hour)
	w.fire(nightly)
	w.rewind(nightly, 5*time.Hour) // an outage that brings more than a ledger holds
	w.fire(nightly)
	if report := w.audit(nightly); !report.Proved || report.ForgottenUntil.IsZero() {
		t.Errorf("%d gaps, %d strays, forgotten until %s", len(report.Gaps), len(report.Strays), report.ForgottenUntil)
	}
}

func TestAuditSchedule_DoesNotProveWhatNobodyDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(3, nil) // and no leader looks
	if report := w.audit(nightly); report.Proved || len(report.Gaps) != 3 {
		t.Errorf("%+v", report)
	}
	if _, err := w.PauseSchedule(w.ctx, me, nightly.ID, ""); err != nil {
		t.Fatal(err)
	}
	if report := w.audit(nightly); !report.Proved || report.Pending != 3 {
		t.Errorf("paused: %+v", report)
	}
}

func TestAuditSchedule_DoesNotProveATimeFromWhichRedisHasLostWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(3, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	w.fire(nightly)
	now := w.audit(nightly).Until.Truncate(time.Millisecond)
	partition := w.store.PartitionOf(nightly)
	w.store.NoticeLoss(partition, now.Add(-time.Minute), now.Add(-40*time.Second), "a heartbeat")
	w.store.NoticeLoss(partition, now.Add(-50*time.Second), now.Add(-30*time.Second), "a heartbeat") // which is the same loss
	w.store.RecordLosses(w.ctx, map[int]bool{partition: true})
	want := []schedule.Loss{{From: now.Add(-time.Minute), Until: now.Add(-30 * time.Second)}}
	if report := w.audit(nightly); report.Proved || len(report.Losses) != 1 || report.Losses[0] != want[0] {
		t.Errorf("%+v, want the loss %+v", report, want)
	}
	for at, proved := range map[time.Time]bool{now.Add(-time.Hour): true, now.Add(-35 * time.Second): false} {
		report, err := w.AuditSchedule(w.ctx, me, nightly.ID, at.Add(-time.Second), at)
		if err != nil || report.Proved != proved {
			t.Errorf("until %s: %+v, %v, want proved: %v", at, report, err, proved)
		}
	}
}
