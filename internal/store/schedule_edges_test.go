package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

func (w *world) schedule(ref task.Ref) schedule.Schedule {
	w.t.Helper()
	is, err := w.GetSchedule(w.ctx, ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return is
}

func (w *world) audit(ref task.Ref) schedule.Report {
	w.t.Helper()
	report, err := w.Audit(w.ctx, ref, time.Time{}, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestABackfillGoesNoFurtherBackThanWhatIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.hourly(3, nil)
	w.fire(nightly)
	is := w.schedule(nightly)
	if _, err := w.Backfill(w.ctx, nightly, is.CreatedAt.Add(-schedule.LedgerHorizon), is.Cursor, 0); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("beyond the ledger's horizon: %v", err)
	}
	w.rewind(nightly, 24*time.Hour) // lest the revisions all be of one moment
	for i := range schedule.HistoryLimit + 1 {
		w.put(daily(func(d *schedule.Definition) { d.Rules[0].Every = time.Duration(i+20) * time.Minute }))
		w.fire(nightly)
	}
	is = w.schedule(nightly)
	if _, err := w.Backfill(w.ctx, nightly, is.CreatedAt.Add(time.Minute), is.Cursor, 0); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("beyond the oldest revision: %v", err)
	}
	if report := w.audit(nightly); report.ForgottenUntil.IsZero() {
		t.Errorf("the audit does not say that it does not reach back: %+v", report)
	}
}

// Ticks of the old definition are decided, those of the new one are none any more.
func TestFewerRunsThanThereWereEndTheScheduleAndLoseNoTick(t *testing.T) {
	w := newWorld(t)
	all := func(runs int) func(*schedule.Definition) {
		return func(d *schedule.Definition) { d.Overlap, d.MaxRuns = schedule.OverlapAllow, runs }
	}
	w.hourly(5, all(4))
	w.put(daily(func(d *schedule.Definition) {
		all(3)(d)
		d.Rules, d.Misfire = []schedule.Rule{{Every: time.Hour}}, schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
	}))
	w.fire(nightly)
	want := []schedule.Outcome{schedule.Fired, schedule.Fired, schedule.Fired, schedule.Missed, schedule.Missed}
	if diff := cmp.Diff(want, w.recorded(nightly)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	is, report := w.schedule(nightly), w.audit(nightly)
	if is.EndedAt.IsZero() || !report.Proved || report.Pending > 0 || report.Expected != 5 {
		t.Errorf("ended at %s, audit %+v", is.EndedAt, report)
	}
}

func TestWhatTheLedgerHasForgottenStaysForgotten(t *testing.T) {
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

func TestATriggerIsRefusedWhereItsTaskCouldNotBeCreated(t *testing.T) {
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	var others []redis.Z
	for i := range schedule.LiveLimit {
		others = append(others, z(float64(i), fmt.Sprint("earlier", i)))
	}
	w.db.ZAdd(w.ctx, string(w.partitionOf(nightly).Live(nightly)), others...)
	if _, err := w.TriggerSchedule(w.ctx, nightly); task.CodeOf(err) != task.CodeScheduleBusy {
		t.Errorf("%v", err)
	}
	if got := w.recorded(nightly); len(got) > 0 {
		t.Errorf("recorded is %v", got)
	}
}

func TestATriggerWaitsForNothingWhileTheScheduleIsPaused(t *testing.T) {
	for _, overlap := range []schedule.Overlap{schedule.OverlapQueue, schedule.OverlapReplace} {
		w := newWorld(t)
		ticks := w.hourly(3, func(d *schedule.Definition) { d.Overlap = overlap })
		w.fire(nightly)
		if _, err := w.PauseSchedule(w.ctx, nightly, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.TriggerSchedule(w.ctx, nightly); task.CodeOf(err) != task.CodeScheduleBusy {
			t.Errorf("%s: while one runs: %v", overlap, err)
		}
		runs := map[schedule.Overlap]string{schedule.OverlapQueue: ticks[0], schedule.OverlapReplace: ticks[2]}[overlap]
		w.end(nightly, runs, task.Succeeded)
		if e, err := w.TriggerSchedule(w.ctx, nightly); err != nil || e.Outcome != schedule.Triggered {
			t.Errorf("%s: when none does: %+v, %v", overlap, e, err)
		}
	}
}

func TestWhatWaitsRunsWhenOverlapIsAllowed(t *testing.T) {
	w := newWorld(t)
	w.hourly(4, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.fire(nightly)
	w.put(daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	want := []schedule.Outcome{schedule.Fired, schedule.Fired, schedule.Fired}
	if got := outcomes(w.fire(nightly)); !slices.Equal(got, want) {
		t.Errorf("there happened %v", got)
	}
}

func TestAnAuditDoesNotProveWhatNobodyDecides(t *testing.T) {
	w := newWorld(t)
	w.hourly(3, nil) // and no leader looks
	if report := w.audit(nightly); report.Proved || len(report.Gaps) != 3 {
		t.Errorf("%+v", report)
	}
	if _, err := w.PauseSchedule(w.ctx, nightly, ""); err != nil {
		t.Fatal(err)
	}
	if report := w.audit(nightly); !report.Proved || report.Pending != 3 {
		t.Errorf("paused: %+v", report)
	}
}

func TestABackfilledTaskThatRunsAgainKeepsNoTickFromRunning(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	is := w.schedule(nightly)
	got, err := w.Backfill(w.ctx, nightly, is.CreatedAt.Add(-25*time.Hour), is.CreatedAt.Add(-time.Hour), 0)
	if err != nil || len(got.Entries) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	w.end(nightly, got.Entries[0].Name, task.Failed)
	if _, err := w.Rerun(w.ctx, task.Ref{Namespace: "default", ID: got.Entries[0].TaskID("nightly")}); err != nil {
		t.Fatal(err)
	}
	if is := w.schedule(nightly); is.Live != 0 {
		t.Errorf("%d count for overlap", is.Live)
	}
}

func TestANoteStaysUntilThereIsAnother(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	for _, note := range []string{"for the upgrade", ""} {
		if is, err := w.PauseSchedule(w.ctx, nightly, note); err != nil || is.PauseNote != "for the upgrade" {
			t.Errorf("the note is %q, %v", is.PauseNote, err)
		}
	}
}

// What can be read goes first: data of which nothing can be made is put off, a Redis that fails is asked again.
func TestAStaleLeaderPutsNothingOff(t *testing.T) {
	w := newWorld(t)
	p := w.PartitionOf(nightly)
	w.db.ZAdd(w.ctx, string(w.keys.Partition(p).Ticks()), z(0, "default:nightly"))
	w.db.HSet(w.ctx, string(w.keys.Partition(p).Schedule(nightly)), "def", "{", "revision", 1)
	if _, err := w.Lead(p, fence).Due(w.ctx, 10); err != nil {
		t.Fatal(err)
	}
	put := w.db.ZScore(w.ctx, string(w.keys.Partition(p).Ticks()), "default:nightly").Val()
	if put == 0 {
		t.Error("it was not put off")
	}
	err := w.Lead(p, "0:stale").postpone(w.ctx, "default:nightly", time.Second)
	if !errors.Is(err, ErrFenced) || w.db.ZScore(w.ctx, string(w.keys.Partition(p).Ticks()), "default:nightly").Val() != put {
		t.Errorf("a stale leader's word counted: %v", err)
	}
}
