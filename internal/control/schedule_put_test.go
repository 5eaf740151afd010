package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// What was due by the old definition is decided by its times; the new one's begin with the change.
func TestPutSchedule_LosesAndDoublesNoTickThatIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.hourly(3, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	w.put(daily(func(d *schedule.Definition) {
		d.Rules, d.Overlap = []schedule.Rule{{Every: 20 * time.Minute}}, schedule.OverlapAllow
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
	}))
	var got []string
	for _, tick := range w.fire(nightly) {
		got = append(got, tick.Name)
	}
	if diff := cmp.Diff(old, got); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
	s, err := w.GetSchedule(w.ctx, me, nightly.ID)
	if next, ok := s.NextTick(); err != nil || !ok || next.Sub(s.UpdatedAt) > 20*time.Minute {
		t.Errorf("the next tick is %s, %v", next, err)
	}
	report, err := w.AuditSchedule(w.ctx, me, nightly.ID, time.Time{}, time.Time{})
	if err != nil || !report.Proved || report.Expected != 3 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

func TestPutSchedule_ReplacesTheRevisionItWasMadeFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	put := func(every time.Duration, o PutOptions) (Put, error) {
		return w.PutSchedule(w.ctx, me, daily(func(d *schedule.Definition) { d.Rules[0].Every = every }), o)
	}
	for i, c := range []struct {
		every    time.Duration
		o        PutOptions
		code     task.Code
		revision int
		created  bool
		changed  bool
	}{
		{time.Hour, PutOptions{IfMatch: 1}, schedule.CodeChanged, 0, false, false},
		{time.Hour, PutOptions{IfAbsent: true}, "", 1, true, true},
		{time.Hour, PutOptions{}, "", 1, false, false},
		{2 * time.Hour, PutOptions{IfAbsent: true}, schedule.CodeChanged, 0, false, false},
		{2 * time.Hour, PutOptions{IfMatch: 1}, "", 2, false, true},
		{3 * time.Hour, PutOptions{IfMatch: 1}, schedule.CodeChanged, 0, false, false},
		{3 * time.Hour, PutOptions{Paused: new(true)}, "", 3, false, true},
		{3 * time.Hour, PutOptions{Paused: new(false)}, "", 3, false, false},
	} {
		got, err := put(c.every, c.o)
		if c.code != "" {
			if task.CodeOf(err) != c.code {
				t.Fatalf("%d: %v, want %s", i, err, c.code)
			}
			continue
		}
		if err != nil || got.Schedule.Revision != c.revision || got.Created != c.created || got.Changed != c.changed {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
		if c.o.Paused != nil && *c.o.Paused == got.Schedule.PausedAt.IsZero() {
			t.Errorf("%d: paused at %s", i, got.Schedule.PausedAt)
		}
	}
}

// Ticks of the old definition are decided, those of the new one are none any more.
func TestPutSchedule_WithFewerRunsEndsTheScheduleAndLosesNoTick(t *testing.T) {
	t.Parallel()
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
	s, report := w.schedule(nightly), w.audit(nightly)
	if s.EndedAt.IsZero() || !report.Proved || report.Pending > 0 || report.Expected != 5 {
		t.Errorf("ended at %s, audit %+v", s.EndedAt, report)
	}
}

// Whoever asks for no revision in particular is not refused because one came in between.
func TestPutSchedule_ReplacesAnyRevisionThoughItChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	every := func(d time.Duration) schedule.Definition {
		return daily(func(s *schedule.Definition) { s.Rules[0].Every = d })
	}
	w.put(every(time.Hour))
	writes, others := 0, 2
	c := w.interposed(func() {
		if writes++; writes <= others {
			w.put(every(time.Duration(writes+2) * time.Hour))
		}
	})
	for _, o := range []PutOptions{{IfExists: true}, {}} {
		writes = 0
		if put, err := c.PutSchedule(w.ctx, me, every(2*time.Hour), o); err != nil || !put.Changed || put.Created || writes != 3 {
			t.Errorf("%+v: %+v after %d writes, %v", o, put, writes, err)
		}
		if got := w.schedule(nightly).Rules[0].Every; got != 2*time.Hour {
			t.Errorf("%+v: every %s is in force", o, got)
		}
		w.put(every(time.Hour))
	}
	others = 1000
	if _, err := c.PutSchedule(w.ctx, me, every(2*time.Hour), PutOptions{IfExists: true}); task.CodeOf(err) != schedule.CodeChanged {
		t.Errorf("where it never stops: %v", err)
	}
}

func TestPutSchedule_IfExistsCreatesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.PutSchedule(w.ctx, me, daily(nil), PutOptions{IfExists: true}); task.CodeOf(err) != schedule.CodeChanged {
		t.Errorf("of none: %v", err)
	}
	w.put(daily(nil))
	if _, err := w.PutSchedule(w.ctx, me, daily(nil), PutOptions{IfExists: true}); err != nil {
		t.Errorf("of the same: %v", err)
	}
}

// Between reading and writing, the leader decides about later ticks: the definition counts from the next try on.
func TestPutSchedule_LooksAgainWhenALaterTickWasDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	tries := 0
	c := w.interposed(func() {
		if tries++; tries > 1 {
			return
		}
		for read := w.now(); !w.schedule(nightly).Cursor.After(read); { // until the leader looks at least 1 ms later
			w.lookNow(nightly)
		}
	})
	put, err := c.PutSchedule(w.ctx, me, daily(func(d *schedule.Definition) { d.Rules[0].Every = 48 * time.Hour }), PutOptions{})
	if err != nil || tries != 2 || put.Schedule.Revision != 2 || put.Schedule.UpdatedAt.Before(w.schedule(nightly).Cursor) {
		t.Errorf("after %d tries: %+v, %v", tries, put.Schedule, err)
	}
}

// Somebody else puts the same in between: that is no change of this caller's.
func TestPutSchedule_TellsOneOfManyThatItChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(every time.Duration) schedule.Definition {
		return daily(func(s *schedule.Definition) { s.Rules[0].Every = every })
	}
	for n, every := range []time.Duration{time.Hour, 2 * time.Hour} {
		c := w.interposed(func() { w.put(of(every)) })
		put, err := c.PutSchedule(w.ctx, me, of(every), PutOptions{})
		if err != nil || put.Created || put.Changed || put.Schedule.Revision != n+1 {
			t.Errorf("revision %d: %+v, %v", n+1, put, err)
		}
	}
	c := w.interposed(func() { w.put(of(3 * time.Hour)) })
	_, err := c.PutSchedule(w.ctx, me, of(3*time.Hour), PutOptions{IfMatch: 2})
	if task.CodeOf(err) != schedule.CodeChanged {
		t.Errorf("of a revision that is in force no more: %v", err)
	}
}

func TestPutSchedule_WarnsOfNumbersThatQuartzReadsOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := daily(func(d *schedule.Definition) { d.Rules = []schedule.Rule{{Cron: "0 0 12 ? * 2"}} })
	put, err := w.PutSchedule(w.ctx, me, d, PutOptions{})
	if err != nil || !slices.ContainsFunc(put.Warnings, func(s string) bool { return strings.Contains(s, "Quartz") }) {
		t.Errorf("%q, %v", put.Warnings, err)
	}
}

// repeats sends the write of a schedule twice, as go-redis does when the reply is lost.
type repeats struct{ interpose }

func (r repeats) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" && args[1] == writeSchedule {
			_ = next(ctx, redis.NewCmd(ctx, args...))
		}
		return next(ctx, cmd)
	}
}

// A task of a schedule with a policy goes on beyond the next tick, whatever the policy says.
func TestPutSchedule_TellsASpelledOutRetryFromNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n, retry := range []task.Retry{{}, task.Task{Definition: daily(nil).Task}.Policy(), {}} {
		put, err := w.PutSchedule(w.ctx, me, daily(func(d *schedule.Definition) { d.Task.Retry = retry }), PutOptions{})
		if err != nil || !put.Changed || put.Schedule.Revision != n+1 {
			t.Errorf("%+v, %v; want revision %d", put, err, n+1)
		}
	}
}

func TestPutSchedule_KnowsItsOwnRevisionAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.server.DB(t)
	c := w.open(db)
	db.AddHook(repeats{})
	for n, every := range []time.Duration{time.Hour, 2 * time.Hour} {
		d := daily(func(d *schedule.Definition) { d.Rules[0].Every = every })
		put, err := c.PutSchedule(w.ctx, me, d, PutOptions{IfMatch: n})
		if err != nil || put.Created != (n == 0) || !put.Changed || put.Schedule.Revision != n+1 {
			t.Errorf("%+v, %v", put, err)
		}
	}
}
