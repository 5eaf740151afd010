package schedules_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// results are what a schedule says of its newest ticks, the oldest first.
func results(s schedule.Schedule) []schedule.Result {
	var all []schedule.Result
	for _, r := range s.Recent {
		all = append(all, r.Result)
	}
	return all
}

// counted is the sum of the counts of a schedule's days, and of what tells the day of a tick nothing.
func counted(s schedule.Schedule) map[schedule.Result]int {
	sum := make(map[schedule.Result]int)
	for _, d := range s.Track.Days {
		for result, n := range d.Counts {
			sum[result] += n
		}
	}
	return sum
}

// between has something happen once, between the readings of a schedule.
type between struct {
	happens func()
	done    *bool
}

func (b between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		isLast := slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "zrevrange" })
		if isLast && !*b.done {
			*b.done = true
			b.happens()
		}
		return next(ctx, cmds)
	}
}

// The count of failures and the ends are in one hash. A page that mixed two moments said that 0 tasks in a row failed.
func TestGet_CountsTheFailuresThatItShows(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(1, allowAll)
	w.Fire(nightly)
	run := w.BeginTick(nightly, ticks[0])
	w.DB.AddHook(between{func() {
		testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	}, new(bool)})
	s := w.Schedule(nightly)
	if !s.Has(schedule.Failing, time.Now(), 0) || s.Failures != 1 {
		t.Errorf("failing: %t, with %d failures, want one", s.Has(schedule.Failing, time.Now(), 0), s.Failures)
	}
}

// allowAll lets ticks run side by side.
func allowAll(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }

func TestTrack_SaysWhatBecameOfEachTick(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(6, allowAll)
	w.Fire(nightly)
	w.EndTick(nightly, ticks[0], task.Succeeded)
	w.EndTick(nightly, ticks[1], task.Failed)
	w.EndTick(nightly, ticks[2], task.Cancelled)
	cancelled := task.Ref{Namespace: "default", ID: "nightly@" + ticks[3]}
	_, err := w.Tasks.Cancel(w.Ctx, cancelled, "")
	testkit.Must(t, err)
	w.BeginTick(nightly, ticks[4])
	s := w.Schedule(nightly)
	want := []schedule.Result{"succeeded", "failed", "cancelled", "cancelled", "running", "waiting"}
	if diff := cmp.Diff(want, results(s)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[schedule.Result]int{"succeeded": 1, "failed": 1, "cancelled": 2}, counted(s)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if last, ok := s.Track.LastEnd(); !ok || last.Name != ticks[3] || last.Ran || last.Attempts != 0 {
		t.Errorf("the last end is %+v", last)
	}
	if s.Track.SucceededAt.IsZero() || s.Recent[0].Attempts != 1 || s.Recent[0].StartedAt.IsZero() {
		t.Errorf("succeeded at %s: %+v", s.Track.SucceededAt, s.Recent[0])
	}
	if diff := cmp.Diff([]schedule.Condition{schedule.Failing}, s.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	page, err := w.Schedules.List(w.Ctx, schedules.Filter{Namespace: "default"}, 10, "")
	testkit.Must(t, err)
	if len(page.Schedules) != 1 || !cmp.Equal(page.Schedules[0].Recent, s.Recent) || page.Schedules[0].Track.Days != nil {
		t.Errorf("listed %+v", page.Schedules)
	}
}

func TestTrack_OutlivesTasksAndForgetsARetriedEnd(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(2, allowAll)
	w.Fire(nightly)
	w.EndTick(nightly, ticks[0], task.Failed)
	ref := task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]}
	_, err := w.Tasks.Retry(w.Ctx, ref)
	testkit.Must(t, err)
	if s := w.Schedule(nightly); results(s)[0] != "waiting" || len(counted(s)) != 0 {
		t.Errorf("while it runs again: %v, counts %v", results(s), counted(s))
	}
	w.Claim(ref)
	run, err := w.Tasks.Begin(w.Ctx, ref, 2, "node#2")
	testkit.Must(t, err)
	testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(ref).Defs()), string(w.KeysOf(ref).States())).Err())
	s := w.Schedule(nightly)
	if diff := cmp.Diff([]schedule.Result{"succeeded", "unknown"}, results(s)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if s.Recent[0].Attempts != 2 || counted(s)["succeeded"] != 1 || counted(s)["failed"] != 0 {
		t.Errorf("after the retry: %+v, counts %v", s.Recent[0], counted(s))
	}
}

func TestTrack_CountsTicksWithoutATaskAndBackfills(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(600, func(d *schedule.Definition) {
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireSkip}
	})
	w.Fire(nightly)
	s := w.Schedule(nightly)
	if counted(s)["missed"] != 600 || len(s.Track.Days) < 25 || schedule.TickName(s.Track.MissedAt) != ticks[599] {
		t.Errorf("counts %v on %d days, missed at %s", counted(s), len(s.Track.Days), s.Track.MissedAt)
	}
	if !slices.Contains(s.Conditions, schedule.Missing) || len(s.Recent) != schedules.RecentOfOne {
		t.Errorf("conditions %v, %d recent", s.Conditions, len(s.Recent))
	}
	if e := s.LastMissed; !e.Tick.Equal(s.Track.MissedAt) || e.Outcome != schedule.Missed || e.Reason == "" {
		t.Errorf("missed last: %+v", e)
	}
	if e := s.Overlooked; schedule.TickName(e.Tick) != ticks[599] {
		t.Errorf("overlooked: %+v", e)
	}
	tick, _, err := schedule.ParseTickName(ticks[599])
	testkit.Must(t, err)
	_, err = w.Schedules.Backfill(w.Ctx, nightly, []schedule.Tick{{At: tick}}, 0, schedules.Asker{})
	testkit.Must(t, err)
	w.EndTick(nightly, ticks[599], task.Succeeded)
	s = w.Schedule(nightly)
	if e := s.LastMissed; e.Tick.IsZero() || e.Reason != "" {
		t.Errorf("missed last, and backfilled since: %+v", e)
	}
	if e := s.Overlooked; schedule.TickName(e.Tick) != ticks[598] {
		t.Errorf("overlooked, once the newest was backfilled: %+v", e)
	}
	if last := s.Recent[len(s.Recent)-1]; last.Result != "succeeded" || !last.Backfill {
		t.Errorf("the backfilled tick: %+v", last)
	}
	if diff := cmp.Diff(map[schedule.Result]int{"missed": 599, "succeeded": 1}, counted(s)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// Nodes of earlier releases count nothing, nor does a schedule count for another one of its name.
func TestTrack_TakesBackOnlyWhatWasCounted(t *testing.T) {
	t.Parallel()
	retry := func(w *storetest.World, tick string) {
		_, err := w.Tasks.Retry(w.Ctx, task.Ref{Namespace: "default", ID: "nightly@" + tick})
		testkit.Must(t, err)
	}
	setField := func(w *storetest.World, field string, value any) {
		testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(nightly).Schedule(nightly)), field, value).Err())
	}
	upgrade := func(w *storetest.World) { setField(w, "tracked", time.Now().Add(time.Minute).UnixMilli()) }
	for name, row := range map[string]struct {
		change func(*schedule.Definition)
		act    func(w *storetest.World, tick string)
	}{
		"a retry of what ended before the upgrade": {allowAll, func(w *storetest.World, tick string) {
			w.EndTick(nightly, tick, task.Failed)
			upgrade(w)
			setField(w, "day", tick[:8]+"f7")
			retry(w, tick)
		}},
		"a retry of a task of another schedule": {allowAll, func(w *storetest.World, tick string) {
			run := w.BeginTick(nightly, tick)
			w.Pause(nightly)
			testkit.Must(t, w.Schedules.Delete(w.Ctx, nightly, ""))
			w.Put(storetest.Daily(nil))
			setField(w, "tracked", 1)
			setField(w, "day", tick[:8]+"f7")
			testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", ""))
			retry(w, tick)
		}},
		"a backfill of what was missed before the upgrade": {func(d *schedule.Definition) {
			d.Misfire = schedule.Misfire{Policy: schedule.MisfireSkip}
		}, func(w *storetest.World, tick string) {
			upgrade(w)
			setField(w, "day", tick[:8]+"m7")
			at, _, err := schedule.ParseTickName(tick)
			testkit.Must(t, err)
			_, err = w.Schedules.Backfill(w.Ctx, nightly, []schedule.Tick{{At: at}}, 0, schedules.Asker{})
			testkit.Must(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ticks := w.Hourly(1, row.change)
			w.Fire(nightly)
			row.act(w, ticks[0])
			if got := counted(w.Schedule(nightly)); got["failed"]+got["missed"] != 7 {
				t.Errorf("counts %v, want 7 as before", got)
			}
		})
	}
}

func TestTrack_BeginsAnewWithTheSchedule(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(2, allowAll)
	w.Fire(nightly)
	w.EndTick(nightly, ticks[0], task.Failed)
	run := w.BeginTick(nightly, ticks[1])
	w.Pause(nightly)
	testkit.Must(t, w.Schedules.Delete(w.Ctx, nightly, ""))
	w.Put(storetest.Daily(nil))
	// The task that goes on belongs to the schedule before.
	testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", ""))
	s := w.Schedule(nightly)
	if len(s.Track.Ends) > 0 || len(s.Track.Days) > 0 || len(s.Recent) > 0 || len(s.Conditions) > 0 {
		t.Errorf("the new schedule has %+v, %v, %v", s.Track, s.Recent, s.Conditions)
	}
}

func TestList_FindsSchedulesInACondition(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(2, allowAll)
	w.Fire(nightly)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.ID = "fine" }))
	list := func(c schedule.Condition, after time.Duration) string {
		filter := schedules.Filter{Namespace: "default", Condition: c, StaleAfter: after}
		page, err := w.Schedules.List(w.Ctx, filter, 10, "")
		testkit.Must(t, err)
		var ids []string
		for _, s := range page.Schedules {
			ids = append(ids, s.ID)
		}
		return strings.Join(ids, " ")
	}
	if got := list(schedule.Failing, 0); got != "" {
		t.Errorf("failing before anything ran: %s", got)
	}
	w.EndTick(nightly, ticks[0], task.Failed)
	if got := list(schedule.Failing, 0); got != "nightly" {
		t.Errorf("failing: %s", got)
	}
	key := string(w.KeysOf(nightly).Schedule(nightly))
	before := time.Now().Add(-3 * time.Hour).UnixMilli()
	testkit.Must(t, w.DB.HSet(w.Ctx, key, "tracked", before, "from", before).Err())
	if got, early := list(schedule.Stale, time.Minute), list(schedule.Stale, 0); got != "nightly" || early != "" {
		t.Errorf("stale for a minute: %q, for a day: %q", got, early)
	}
	if got := list(schedule.Missing, 0); got != "" {
		t.Errorf("missed: %s", got)
	}
}

func TestTrack_LeavesOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(2, allowAll)
	w.Fire(nightly)
	w.EndTick(nightly, ticks[0], task.Failed)
	key := string(w.KeysOf(nightly).Schedule(nightly))
	ends := w.DB.HGet(w.Ctx, key, "ends").Val()
	testkit.Must(t, w.DB.HSet(w.Ctx, key, "ends", ends+" garbage", "day", "today").Err())
	ctx, left := redisx.LeavingOut(w.Ctx)
	s, err := w.Schedules.Get(ctx, nightly)
	testkit.Must(t, err)
	words := left.Texts()
	if len(s.Track.Ends) != 1 || len(words) != 2 || !strings.Contains(words[0], "its field ends cannot be read") {
		t.Errorf("%d ends, left out %q", len(s.Track.Ends), words)
	}
	w.EndTick(nightly, ticks[1], task.Succeeded) // damage keeps no task from ending
	if s := w.Schedule(nightly); counted(s)["succeeded"] != 1 {
		t.Errorf("counts %v", counted(s))
	}
}
