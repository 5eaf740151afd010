package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// scheduled is a schedule of a voyage.
type scheduled struct {
	v   *voyage
	ref task.Ref
}

// put creates a schedule, or replaces its definition.
func (v *voyage) put(id string, d schedule.Definition) scheduled {
	v.t.Helper()
	d.Ref = task.Ref{Namespace: task.DefaultNamespace, ID: id}
	if d.Task.Type == "" {
		d.Task.Type, d.Task.Timeout = "echo", day
	}
	d.Task.Retry.MaxAttempts = max(d.Task.Retry.MaxAttempts, 1)
	if d.Task.Retention == 0 {
		d.Task.Retention = time.Hour
	}
	_, err := useCases(v.store).PutSchedule(v.t.Context(), caller, d, control.PutOptions{})
	testkit.Must(v.t, err)
	return scheduled{v, d.Ref}
}

// cron is the times of one expression.
func cron(expression string) schedule.Spec {
	return schedule.Spec{Rules: []schedule.Rule{{Cron: expression}}}
}

// read returns the schedule as it is now.
func (s scheduled) read() schedule.Schedule {
	s.v.t.Helper()
	now, err := s.v.store.Schedules.Get(s.v.t.Context(), s.ref)
	testkit.Must(s.v.t, err)
	return now
}

// ledger reads all records, oldest first.
func (s scheduled) ledger() []schedule.Entry {
	s.v.t.Helper()
	var all []schedule.Entry
	for cursor := ""; ; {
		page, err := s.v.store.Schedules.Ledger(s.v.t.Context(), s.ref, schedules.LedgerFilter{}, 500, cursor)
		testkit.Must(s.v.t, err)
		all = append(all, page.Entries...)
		if cursor = page.NextCursor; cursor == "" {
			slices.Reverse(all)
			return all
		}
	}
}

// lines is the ledger in short: a line for each tick, as in "08:10 fired", or "3/29 08:10 fired" where it spans days.
func lines(entries []schedule.Entry, layout string) []string {
	var all []string
	for _, e := range entries {
		line := e.Tick.UTC().Format(layout) + " " + string(e.Outcome)
		if _, manual, _ := schedule.ParseTickName(e.Name); manual {
			line += " by hand"
		}
		all = append(all, line)
	}
	return all
}

// recorded compares the ledger with what it has to be, written as lines writes it.
func (s scheduled) recorded(layout string, want ...string) {
	s.v.t.Helper()
	if diff := gocmp.Diff(want, lines(s.ledger(), layout)); diff != "" {
		s.v.t.Errorf("ledger of %s (-want +got):\n%s", s.ref.ID, diff)
	}
}

// ran compares what the worker ran of the schedule with what it has to be: a line for each run, tick and begin, as in
// "08:10 at 08:12:01", in the order in which they began.
func (s scheduled) ran(layout string, want ...string) {
	s.v.t.Helper()
	var got []string
	for _, r := range s.runs() {
		line := r.tick.UTC().Format(layout) + " at " + r.begun.Format("15:04:05")
		if r.cancelled {
			line += " until " + r.ended.Format("15:04:05")
		}
		got = append(got, line)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		s.v.t.Errorf("what ran of %s (-want +got):\n%s", s.ref.ID, diff)
	}
}

// ranTick is a run of a tick's task.
type ranTick struct {
	run
	tick   time.Time
	manual bool
}

// runs is what the worker remembers of this schedule, in the order of the beginnings, and of the ticks where they began
// together.
func (s scheduled) runs() []ranTick {
	s.v.t.Helper()
	var found []ranTick
	for _, r := range s.v.worker.saw() {
		root, name, ok := strings.Cut(r.ref.ID, "@")
		if !ok || root != s.ref.ID {
			continue
		}
		tick, manual, err := schedule.ParseTickName(name)
		testkit.Must(s.v.t, err)
		found = append(found, ranTick{r, tick, manual})
	}
	slices.SortFunc(found, func(a, b ranTick) int { return cmp.Or(a.begun.Compare(b.begun), a.tick.Compare(b.tick)) })
	return found
}

// accounted is the oracle's judgement: each of its ticks has one record, with that outcome, and nothing else has one;
// those that fired ran once, none early; the audit says the same.
func (s scheduled) accounted(ticks []time.Time, outcome func(tick time.Time) schedule.Outcome) {
	s.v.t.Helper()
	var want []string
	fired := make(map[time.Time]bool)
	for _, tick := range ticks {
		o := outcome(tick)
		want = append(want, tick.UTC().Format(time.RFC3339)+" "+string(o))
		if o == schedule.Fired {
			fired[tick] = true
		}
	}
	if diff := gocmp.Diff(want, lines(s.ledger(), time.RFC3339)); diff != "" {
		s.v.t.Errorf("ledger of %s (-want +got):\n%s", s.ref.ID, diff)
	}
	s.counts(len(fired))
	for _, r := range s.runs() {
		switch {
		case !fired[r.tick]:
			s.v.t.Errorf("%s ran the tick of %s once more, or without its having fired", s.ref.ID, r.tick)
		case r.begun.Before(r.tick):
			s.v.t.Errorf("%s ran the tick of %s early, at %s", s.ref.ID, r.tick, r.begun)
		}
		delete(fired, r.tick)
	}
	for tick := range fired {
		s.v.t.Errorf("%s never ran the tick of %s", s.ref.ID, tick)
	}
	s.proved(len(ticks))
}

// counts checks that the schedule itself has counted so many runs, as it would not if a tick had been decided twice,
// and that none has not ended.
func (s scheduled) counts(runs int) {
	s.v.t.Helper()
	if now := s.read(); now.Runs != runs || now.Live != 0 || now.Waiting != 0 {
		s.v.t.Errorf("%s counts %d runs, %d live and %d waiting; want %d, 0 and 0", s.ref.ID, now.Runs, now.Live, now.Waiting, runs)
	}
}

// proved has the audit prove that so many ticks were expected and all accounted for.
func (s scheduled) proved(ticks int) {
	s.v.t.Helper()
	report, err := useCases(s.v.store).AuditSchedule(s.v.t.Context(), caller, s.ref.ID, time.Time{}, time.Time{})
	testkit.Must(s.v.t, err)
	if !report.Proved || report.Expected != ticks || report.Accounted != ticks || report.Pending != 0 {
		s.v.t.Errorf("the audit of %s: %+v, want %d ticks proved", s.ref.ID, report, ticks)
	}
}
