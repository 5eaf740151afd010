package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// tells has every task take that long, and returns what the tasks of steps have got as payload, by their names.
func (v *voyage) tells(lasts time.Duration) func(ref task.Ref) string {
	var mu sync.Mutex
	payloads := make(map[task.Ref]string)
	v.worker.does(func(t task.Task) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		payloads[t.Ref] = string(t.Payload)
		return lasts, nil
	})
	return func(ref task.Ref) string {
		mu.Lock()
		defer mu.Unlock()
		return payloads[ref]
	}
}

// tickRun is the run of a tick that has a task.
type tickRun struct {
	tick time.Time
	own  task.Task
}

// runsOf returns the runs of all ticks that have one, in the order of the ticks. It checks each by its audit, and that
// its step has run once, and has got the tick.
func (s scheduled) runsOf(got func(task.Ref) string) (all []tickRun) {
	s.v.t.Helper()
	ran := make(map[task.Ref]int)
	for _, r := range s.v.worker.saw() {
		ran[r.ref]++
	}
	for _, e := range s.ledger() {
		if e.Outcome != schedule.Fired && e.Outcome != schedule.Backfilled {
			continue
		}
		ref := task.Ref{Namespace: s.ref.Namespace, ID: s.ref.ID + "@" + e.Name}
		s.v.sound(ref, task.Succeeded)
		step := ref.Step("load")
		if want := `"` + e.Tick.UTC().Format("2006-01-02T15:04:05.000Z") + `"`; ran[step] != 1 || got(step) != want {
			s.v.t.Errorf("%s ran %d times with %s, want once with %s", step.ID, ran[step], got(step), want)
		}
		own, _, _, _ := s.v.runOf(ref)
		all = append(all, tickRun{e.Tick.UTC(), own.Task})
	}
	return all
}

// began compares when the runs began with what has to be: a line for each tick, as in "12:00 at 12:30:00".
func (s scheduled) began(got func(task.Ref) string, want ...string) {
	s.v.t.Helper()
	var lines []string
	for _, r := range s.runsOf(got) {
		lines = append(lines, r.tick.Format("15:04")+" at "+r.own.StartedAt.UTC().Format("15:04:05"))
	}
	if diff := gocmp.Diff(want, lines); diff != "" {
		s.v.t.Errorf("runs of %s (-want +got):\n%s", s.ref.ID, diff)
	}
}

// Nobody leads from 12:30 to 17:30. What misfire does to tasks it does to runs.
func TestTravel_MisfireDecidesAboutRuns(t *testing.T) {
	testkit.NotQuick(t)
	before, after := []string{"12:00 at 12:00:00"}, []string{"18:00 at 18:00:00"}
	policies := map[string]struct {
		misfire schedule.Misfire
		began   []string
	}{
		"skip": {schedule.Misfire{Policy: schedule.MisfireSkip}, nil},
		"once": {schedule.Misfire{Policy: schedule.MisfireOnce}, []string{"17:00 at 17:30:00"}},
		"all": {schedule.Misfire{Policy: schedule.MisfireAll, Window: 3 * time.Hour}, []string{
			"15:00 at 17:30:00", "16:00 at 17:30:01", "17:00 at 17:30:02",
		}},
	}
	travel(t, at("2026-03-10T11:30Z"), slow, func(v *voyage) {
		v.loads()
		v.start()
		got := v.tells(2 * time.Minute)
		made := make(map[string]scheduled)
		for name, c := range policies {
			made[name] = v.put(name, ofRuns(schedule.Definition{
				Spec: cron("0 * * * *"), Misfire: c.misfire, Overlap: schedule.OverlapAllow,
			}))
		}
		v.until(at("2026-03-10T12:30Z"))
		v.outage(5 * time.Hour)
		v.until(at("2026-03-10T18:30Z"))
		for name, c := range policies {
			made[name].began(got, slices.Concat(before, c.began, after)...)
			made[name].proved(7)
		}
	})
}

// A backfill begins one run for each tick of a month before the schedule was there, ten minutes apart. Each takes 25
// minutes, and the workflow has two run at once. A leader dies meanwhile, and somebody asks for the same once more.
func TestTravel_ABackfillBeginsARunForEachTick(t *testing.T) {
	testkit.NotQuick(t)
	const days = 30
	first := at("2026-02-08T02:00Z")
	travel(t, at("2026-03-10T02:30Z"), slow, func(v *voyage) {
		v.keeps("loads", 2, `{"steps": [{"id": "load", "task": {"type": "echo", "payload": "${{ run.tick }}"}}]}`)
		v.start()
		got := v.tells(25 * time.Minute)
		s := v.put("s", ofRuns(schedule.Definition{Spec: cron("0 2 * * *")}))
		backfill := func() control.Backfilled {
			filled, err := useCases(v.store).BackfillSchedule(v.t.Context(), caller, s.ref.ID, control.BackfillRange{
				From: first, Until: first.Add((days - 1) * day), Pace: 10 * time.Minute,
			})
			testkit.Must(t, err)
			return filled
		}
		asked := clock.Now().UTC()
		if filled := backfill(); len(filled.Entries) != days || len(filled.Left) > 0 {
			t.Errorf("%d ticks run, and %d are left alone; want %d and none", len(filled.Entries), len(filled.Left), days)
		}
		v.pass(2 * time.Hour)
		v.killed(v.leads())
		v.start()
		if filled := backfill(); len(filled.Entries) > 0 || len(filled.Left) != days {
			t.Errorf("the second time %d ticks run, and %d are left alone", len(filled.Entries), len(filled.Left))
		}
		v.pass(12 * time.Hour)
		runs := s.runsOf(got)
		if len(runs) != days {
			t.Errorf("there are %d runs, want %d", len(runs), days)
		}
		for i, r := range runs {
			due := asked.Add(time.Duration(i) * 10 * time.Minute)
			if want := first.Add(time.Duration(i) * day); !r.tick.Equal(want) || r.own.DueAt.Sub(due).Abs() > time.Second {
				t.Errorf("run %d is of %s and due at %s, want %s and %s", i, r.tick, r.own.DueAt, want, due)
			}
		}
		v.sideBySide(func(run) string { return "loads" }, 2)
		s.counts(0) // backfills do not count
	})
}

// A run is due by its jitter after its tick, as long whoever leads, and begins then.
func TestTravel_JitterDelaysRuns(t *testing.T) {
	testkit.NotQuick(t)
	const jitter, ticks = 30 * time.Minute, 3
	steady := rhythm{lease: 2 * time.Minute, beat: 40 * time.Second}
	delays := make(map[time.Time]time.Duration)
	for _, kills := range []bool{false, true} {
		travel(t, at("2026-03-10T08:59Z"), steady, func(v *voyage) {
			v.loads()
			v.start()
			got := v.tells(time.Minute)
			spec := cron("0 * * * *")
			spec.Jitter = jitter
			s := v.put("s", ofRuns(schedule.Definition{Spec: spec, Overlap: schedule.OverlapAllow}))
			for range ticks {
				v.until(clock.Now().Truncate(time.Hour).Add(time.Hour + time.Second)) // the run is there, and not due
				if kills {
					v.killed(v.leads())
					v.start()
				}
			}
			v.pass(jitter + 2*time.Minute)
			runs := s.runsOf(got)
			if len(runs) != ticks {
				t.Errorf("%d runs, want %d", len(runs), ticks)
			}
			for _, r := range runs {
				delay := r.own.DueAt.Sub(r.tick)
				if before, ok := delays[r.tick]; ok && before != delay {
					t.Errorf("the run of %s is due after %s, and was after %s", r.tick, delay, before)
				}
				if delays[r.tick] = delay; delay <= 0 || delay >= jitter || r.own.StartedAt.After(v.latest(r.own.DueAt)) {
					t.Errorf("the run of %s is due after %s, and began at %s", r.tick, delay, r.own.StartedAt)
				}
			}
		})
	}
	if spread := slices.Compact(slices.Sorted(maps.Values(delays))); len(spread) != ticks {
		t.Errorf("the delays are %v, want %d", spread, ticks)
	}
}

// Weeks of a run each night, with a leader that dies in each week and three days without any: each tick has its run or
// its record, and the audit proves each run. A backfill makes up for the missed night, and for the week before.
func TestTravel_WeeksOfScheduledRunsEndAsTheirAuditSays(t *testing.T) {
	testkit.NotQuick(t)
	weeks := testkit.Amount(3, 26)
	from := at("2026-03-01T00:00Z")
	travel(t, from, rhythm{lease: 6 * time.Hour, beat: 2 * time.Hour}, func(v *voyage) {
		v.keeps("nightly", 0, nightly)
		v.start()
		v.worker.does(func(t task.Task) (time.Duration, error) {
			name := fmt.Sprint(t.Ref, t.Attempt)
			lasts := time.Duration(chance(name, 3600)) * time.Second
			if chance(name+"end", 20) == 0 {
				return lasts, errors.New("by chance")
			}
			return lasts, nil
		})
		spec := cron("0 2 * * *")
		spec.Jitter = time.Hour
		s := v.put("nights", schedule.Definition{
			Spec: spec, Overlap: schedule.OverlapQueue, Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: 2 * day},
			Task: task.Definition{
				Type: task.WorkflowType, Payload: []byte(`{"workflow": "nightly", "params": {"night": 1}}`),
				Retention: task.RetentionLimit,
			},
		})
		for week := range weeks {
			start := from.Add(time.Duration(7*week) * day)
			if week == 1 {
				v.until(start.Add(12 * time.Hour))
				v.outage(3 * day)
			}
			v.until(start.Add(5*day + 3*time.Hour)) // a run is under way
			v.killed(v.leads())
			v.start()
		}
		v.until(from.Add(time.Duration(7*weeks) * day))
		_, err := useCases(v.store).BackfillSchedule(v.t.Context(), caller, s.ref.ID, control.BackfillRange{
			From: from.Add(-7 * day), Until: s.read().Cursor, Pace: time.Hour,
		})
		testkit.Must(t, err)
		s.proved(7 * weeks)
		_, err = v.store.Schedules.Pause(v.t.Context(), s.ref, "", "")
		testkit.Must(t, err)
		v.pass(2 * day)
		var refs []task.Ref
		for _, e := range s.ledger() {
			refs = append(refs, task.Ref{Namespace: "default", ID: s.ref.ID + "@" + e.Name})
		}
		if want := 7 * (weeks + 1); len(refs) != want {
			t.Errorf("%d nights have a record, want %d", len(refs), want)
		}
		v.audited(refs)
		v.ranOnceEach()
	})
}
