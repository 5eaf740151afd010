package api

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

// fakeSchedules is a small store of schedules in memory. Definitions obey the rules of the real one; what ticks do is
// up to the tests: they say what is answered, and look at what was asked.
type fakeSchedules struct {
	mu        sync.Mutex
	schedules map[task.Ref]*schedule.Schedule
	history   map[task.Ref][]schedule.Revision // newest first
	ledger    map[task.Ref][]schedule.Entry    // newest first
	knownFrom time.Time
	backfill  store.Backfilled
	deleted   store.Deleted
	report    schedule.Report
	preview   schedule.Preview
	forecast  schedule.Forecast

	asked       map[string]any // the newest arguments of a method, by its name
	fault       error          // if set, every call fails with it
	beforePut   func()         // if set, called by PutSchedule with the lock held
	timesLooked int            // by GetSchedule
}

func newFakeSchedules() *fakeSchedules {
	return &fakeSchedules{
		schedules: map[task.Ref]*schedule.Schedule{}, history: map[task.Ref][]schedule.Revision{},
		ledger: map[task.Ref][]schedule.Entry{}, asked: map[string]any{},
	}
}

// find is the schedule, with the lock held by the caller.
func (f *fakeSchedules) find(ref task.Ref) (*schedule.Schedule, error) {
	if f.fault != nil {
		return nil, f.fault
	}
	s, ok := f.schedules[ref]
	if !ok {
		return nil, task.Errorf(task.CodeScheduleNotFound, "no schedule %q in namespace %q", ref.ID, ref.Namespace)
	}
	return s, nil
}

// on does something to a schedule that is there.
func (f *fakeSchedules) on(ref task.Ref, do func(*schedule.Schedule)) (schedule.Schedule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.find(ref)
	if err != nil {
		return schedule.Schedule{}, err
	}
	do(s)
	return *s, nil
}

// keep remembers what was asked about a schedule that is there.
func (f *fakeSchedules) keep(ref task.Ref, method string, arguments any) error {
	_, err := f.on(ref, func(*schedule.Schedule) { f.asked[method] = arguments })
	return err
}

func (f *fakeSchedules) PutSchedule(_ context.Context, d schedule.Definition, o store.PutOptions) (store.Put, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.beforePut != nil {
		f.beforePut()
	}
	return f.put(d, o)
}

func (f *fakeSchedules) put(d schedule.Definition, o store.PutOptions) (store.Put, error) {
	f.asked["PutSchedule"] = o
	if f.fault != nil {
		return store.Put{}, f.fault
	}
	d = d.Normalize()
	if err := d.Validate(); err != nil {
		return store.Put{}, err
	}
	old, exists := f.schedules[d.Ref]
	switch {
	case o.IfAbsent && exists, o.IfMatch > 0 && (!exists || o.IfMatch != old.Revision):
		return store.Put{}, task.Errorf(task.CodeScheduleChanged, "another revision is in force")
	case !exists:
		old = &schedule.Schedule{CreatedAt: start, Cursor: start}
	}
	put := store.Put{Created: !exists, Changed: !exists || !reflect.DeepEqual(old.Definition, d), Schedule: *old}
	put.Switched = exists && o.Paused != nil && *o.Paused == old.PausedAt.IsZero()
	if put.Changed {
		at := start.Add(time.Duration(old.Revision) * time.Hour)
		put.Schedule.Definition, put.Schedule.Revision, put.Schedule.UpdatedAt = d, old.Revision+1, at
	}
	if o.Paused != nil {
		put.Schedule.PausedAt, put.Schedule.PauseNote = time.Time{}, ""
		if *o.Paused {
			put.Schedule.PausedAt = start
		}
	}
	if !o.DryRun {
		f.schedules[d.Ref] = new(put.Schedule)
		f.remember(put)
	}
	return put, nil
}

func (f *fakeSchedules) remember(put store.Put) {
	s := put.Schedule
	all := f.history[s.Ref]
	if !put.Changed {
		return
	}
	if len(all) > 0 {
		all[0].Until = s.UpdatedAt
	}
	now := schedule.Revision{Number: s.Revision, Span: schedule.Span{From: s.UpdatedAt}, Definition: s.Definition}
	f.history[s.Ref] = slices.Insert(all, 0, now)
}

func (f *fakeSchedules) GetSchedule(_ context.Context, ref task.Ref) (schedule.Schedule, error) {
	return f.on(ref, func(*schedule.Schedule) { f.timesLooked++ })
}

func (f *fakeSchedules) ListSchedules(_ context.Context, want store.ScheduleFilter, limit int, cursor string) (store.SchedulePage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, err := f.page(cursor)
	if err != nil {
		return store.SchedulePage{}, err
	}
	all := slices.SortedFunc(maps.Keys(f.schedules), func(a, b task.Ref) int { return cmp.Compare(a.String(), b.String()) })
	var page store.SchedulePage
	for i, ref := range all {
		s := f.schedules[ref]
		if i < from || ref.Namespace != want.Namespace || !matchesSchedule(want, s) {
			continue
		}
		if len(page.Schedules) == limit {
			page.NextCursor = strconv.Itoa(i)
			break
		}
		page.Schedules = append(page.Schedules, *s)
	}
	return page, nil
}

func (f *fakeSchedules) page(cursor string) (int, error) {
	if f.fault != nil || cursor == "" {
		return 0, f.fault
	}
	from, err := strconv.Atoi(cursor)
	if err != nil {
		return 0, task.Invalid("cursor", "%q is not a cursor of this list", cursor)
	}
	return from, nil
}

func matchesSchedule(f store.ScheduleFilter, s *schedule.Schedule) bool {
	for name, value := range f.Labels {
		if is, ok := s.Labels[name]; !ok || is != value {
			return false
		}
	}
	return (f.Owner == "" || f.Owner == s.Owner) && (f.Paused == nil || *f.Paused != s.PausedAt.IsZero())
}

func (f *fakeSchedules) PauseSchedule(_ context.Context, ref task.Ref, note string) (schedule.Schedule, error) {
	return f.on(ref, func(s *schedule.Schedule) { s.PausedAt, s.PauseNote = start, note })
}

func (f *fakeSchedules) ResumeSchedule(_ context.Context, ref task.Ref) (schedule.Schedule, error) {
	return f.on(ref, func(s *schedule.Schedule) { s.PausedAt, s.PauseNote = time.Time{}, "" })
}

func (f *fakeSchedules) TriggerSchedule(_ context.Context, ref task.Ref) (schedule.Entry, error) {
	s, err := f.on(ref, func(*schedule.Schedule) {})
	if err == nil && s.Live > 0 {
		err = task.Errorf(task.CodeScheduleBusy, "a task of it has not ended")
	}
	return schedule.Entry{
		Name: schedule.ManualName(start), Tick: start, Outcome: schedule.Triggered, HasTask: true, DecidedAt: start, Revision: s.Revision,
	}, err
}

func (f *fakeSchedules) Backfill(_ context.Context, ref task.Ref, from, until time.Time, pace time.Duration) (store.Backfilled, error) {
	return f.backfill, f.keep(ref, "Backfill", []any{from, until, pace})
}

func (f *fakeSchedules) DeleteSchedule(_ context.Context, ref task.Ref, tasks store.DeleteTasks) (store.Deleted, error) {
	_, err := f.on(ref, func(*schedule.Schedule) {
		f.asked["DeleteSchedule"] = tasks
		delete(f.schedules, ref)
	})
	return f.deleted, err
}

func (f *fakeSchedules) Ledger(_ context.Context, ref task.Ref, want store.LedgerFilter, limit int, cursor string) (store.LedgerPage, error) {
	if err := f.keep(ref, "Ledger", want); err != nil {
		return store.LedgerPage{}, err
	}
	from, err := f.page(cursor)
	if err != nil {
		return store.LedgerPage{}, err
	}
	page := store.LedgerPage{KnownFrom: f.knownFrom}
	rest := f.ledger[ref][from:]
	if len(rest) > limit {
		page.NextCursor = strconv.Itoa(from + limit)
	}
	page.Entries = rest[:min(limit, len(rest))]
	return page, nil
}

func (f *fakeSchedules) Audit(_ context.Context, ref task.Ref, from, until time.Time) (schedule.Report, error) {
	return f.report, f.keep(ref, "Audit", []any{from, until})
}

func (f *fakeSchedules) History(_ context.Context, ref task.Ref) ([]schedule.Revision, error) {
	_, err := f.on(ref, func(*schedule.Schedule) {})
	return f.history[ref], err
}

func (f *fakeSchedules) Rollback(_ context.Context, ref task.Ref, revision, ifMatch int) (store.Put, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(ref); err != nil {
		return store.Put{}, err
	}
	for _, r := range f.history[ref] {
		if r.Number == revision {
			return f.put(r.Definition, store.PutOptions{IfMatch: ifMatch})
		}
	}
	return store.Put{}, task.Errorf(task.CodeRevisionNotFound, "no revision %d", revision)
}

func (f *fakeSchedules) Next(_ context.Context, ref task.Ref, after time.Time, count int) (schedule.Preview, error) {
	return f.preview, f.keep(ref, "Next", []any{after, count})
}

func (f *fakeSchedules) Forecast(_ context.Context, namespace string, hours int) (schedule.Forecast, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked["Forecast"] = []any{namespace, hours}
	return f.forecast, f.fault
}
