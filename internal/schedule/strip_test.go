package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/task"
)

var stripTick = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// tickNamed is the name of the tick of that minute.
func tickNamed(minute int) string {
	return TickName(stripTick.Add(time.Duration(minute) * time.Minute))
}

// ended is the end of the run of a minute, 30 s after its tick.
func ended(minute int, s task.State) End {
	tick := stripTick.Add(time.Duration(minute) * time.Minute)
	return End{
		Name: TickName(tick), Tick: tick, State: s, Attempts: 2, At: tick.Add(30 * time.Second),
		Ran: true, Took: 20 * time.Second,
	}
}

func TestStrip_SaysWhatBecameOfATick(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		outcome Outcome
		hasTask bool
		ends    []End
		task    task.State // task.None: it does not exist
		want    Result
	}{
		{"it succeeded", Fired, true, []End{ended(1, task.Succeeded)}, task.None, ResultSucceeded},
		{"it failed", Fired, true, []End{ended(1, task.Failed)}, task.None, ResultFailed},
		{"it was cancelled", Fired, true, []End{ended(1, task.Cancelled)}, task.None, ResultCancelled},
		{"a backfill succeeded", Backfilled, true, []End{ended(1, task.Succeeded)}, task.None, ResultSucceeded},
		{
			"it was stopped for a later tick",
			Replaced, true, []End{ended(1, task.Cancelled)}, task.None, ResultReplaced,
		},
		{
			"it ended before it could be stopped",
			Replaced, true, []End{ended(1, task.Succeeded)}, task.None, ResultSucceeded,
		},
		{"it gave way while it waited", Replaced, false, nil, task.None, ResultReplaced},
		{
			"the later end counts",
			Fired, true, []End{ended(1, task.Failed), ended(2, task.Failed), ended(1, task.Succeeded)}, task.None,
			ResultSucceeded,
		},
		{
			"a retry runs",
			Fired, true, []End{ended(1, task.Failed), ended(1, task.Scheduled)}, task.Running, ResultRunning,
		},
		{"it was missed", Missed, false, nil, task.None, ResultMissed},
		{"it was skipped", SkippedOverlap, false, nil, task.None, ResultSkipped},
		{"it is excluded", Excluded, false, nil, task.None, ResultExcluded},
		{"it waits for another task", Queued, false, nil, task.None, ResultWaiting},
		{"its task waits", Fired, true, nil, task.Scheduled, ResultWaiting},
		{"its task is queued", Fired, true, nil, task.Queued, ResultWaiting},
		{"its task runs", Fired, true, nil, task.Running, ResultRunning},
		{"an older node ended its task", Fired, true, nil, task.Failed, ResultFailed},
		{
			"an older node ended its task, which is forgotten",
			Fired, true, []End{ended(2, task.Failed)}, task.None, ResultUnknown,
		},
		{"its task cannot be read", Fired, true, nil, task.Unreadable, ResultUnknown},
	} {
		entry := Entry{Name: tickNamed(1), Tick: stripTick.Add(time.Minute), Outcome: c.outcome, HasTask: c.hasTask}
		tasks := map[string]task.Task{}
		if c.task != task.None {
			tasks[entry.Name] = task.Task{State: c.task}
		}
		got := Strip([]Entry{entry}, c.ends, tasks, 5)
		if len(got) != 1 || got[0].Result != c.want || got[0].Backfill != (c.outcome == Backfilled) {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		resolved := !c.hasTask
		if n := len(c.ends); n > 0 && c.ends[n-1].Name == entry.Name {
			resolved = c.ends[n-1].State.Final()
		}
		if names := Unresolved([]Entry{entry}, c.ends, 5); (len(names) == 0) != resolved {
			t.Errorf("%s: its task is to be read: %v", c.name, names)
		}
	}
}

func TestStrip_HasTheNewestTicksInOrder(t *testing.T) {
	t.Parallel()
	var entries []Entry
	for minute := range 50 { // the newest first
		entries = append(entries, Entry{Name: tickNamed(50 - minute), Outcome: Fired, HasTask: true})
	}
	strip := Strip(entries, []End{ended(50, task.Succeeded)}, nil, 30)
	if len(strip) != 30 || strip[0].Name != tickNamed(21) || strip[29].Name != tickNamed(50) {
		t.Fatalf("%d results, from %s", len(strip), strip[0].Name)
	}
	if took, ok := strip[29].Took(); !ok || took != 20*time.Second || strip[29].Attempts != 2 {
		t.Errorf("the newest took %s (%v): %+v", took, ok, strip[29])
	}
	names := Unresolved(entries, []End{ended(50, task.Succeeded)}, 30)
	if len(names) != 29 || slices.Contains(names, tickNamed(50)) {
		t.Errorf("%d names are unresolved, want the other 29", len(names))
	}
}

func TestTrack_LastEndIsOfARunThatDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	ends := []End{ended(1, task.Succeeded), ended(2, task.Failed), ended(2, task.Scheduled)}
	if last, ok := (Track{Ends: ends}).LastEnd(); !ok || last.Name != tickNamed(1) {
		t.Errorf("the last end is %+v", last)
	}
	again := append(slices.Clone(ends), ended(2, task.Succeeded))
	if last, ok := (Track{Ends: again}).LastEnd(); !ok || last.Name != tickNamed(2) || last.State != task.Succeeded {
		t.Errorf("after the retry, it is %+v", last)
	}
	if last, ok := (Track{}).LastEnd(); ok {
		t.Errorf("of no ends, it is %+v", last)
	}
}

func TestSchedule_FailingSinceIsTheFirstFailure(t *testing.T) {
	t.Parallel()
	row := []End{
		ended(1, task.Failed), ended(2, task.Succeeded), ended(3, task.Failed), ended(4, task.Cancelled),
		ended(5, task.Failed),
	}
	for _, c := range []struct {
		name     string
		ends     []End
		failures int
		after    time.Time // the last success or pause
		want     time.Time
	}{
		{"a row that follows a success", row, 2, row[1].At, row[2].At},
		{"a row that follows a resume", row, 1, row[1].At, row[4].At},
		{"older ends were not read", row[2:], 7, row[0].At, row[0].At},
		{"nothing is known of older ends", row[2:], 7, time.Time{}, row[2].At},
		{"a backfill has succeeded meanwhile", row[2:], 7, row[4].At, row[2].At},
		{"no end is known", nil, 7, row[0].At, row[0].At},
	} {
		s := Schedule{Failures: c.failures, Track: Track{Ends: c.ends, SucceededAt: c.after}}
		if got := s.FailingSince(); !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", c.name, got, c.want)
		}
		s.Track.SucceededAt, s.LastPause.Until = time.Time{}, c.after
		if got := s.FailingSince(); !got.Equal(c.want) {
			t.Errorf("%s, and a pause: since %s, want %s", c.name, got, c.want)
		}
	}
}

// daily is a schedule that ticks each midnight, and whose ends are kept since the start of January.
func daily(change func(*Schedule)) Schedule {
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Schedule{
		Definition: Definition{
			Ref: task.Ref{Namespace: "default", ID: "a"}, Spec: Spec{Rules: []Rule{{Cron: "0 0 * * *"}}},
		},
		CreatedAt: first.AddDate(-1, 0, 0), UpdatedAt: first.AddDate(-1, 0, 0), Track: Track{Since: first},
	}
	change(&s)
	return s
}

func TestConditions_SayWhatIsWrong(t *testing.T) {
	t.Parallel()
	at := func(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name   string
		change func(*Schedule)
		now    time.Time
		want   []Condition
	}{
		{"all is well", func(s *Schedule) { s.Track.SucceededAt = at(10, 1) }, at(10, 20), nil},
		{
			"it runs daily, and the next run is at work",
			func(s *Schedule) { s.Track.SucceededAt = at(10, 1) }, at(11, 2), nil,
		},
		{
			"a day after a tick that did not succeed",
			func(s *Schedule) { s.Track.SucceededAt = at(10, 1) }, at(12, 0).Add(time.Second), []Condition{Stale},
		},
		{
			"a weekly schedule before its next tick",
			func(s *Schedule) { s.Rules[0].Cron, s.Track.SucceededAt = "0 0 * * SUN", at(4, 1) }, at(10, 23), nil,
		},
		{
			"a weekly schedule two days after its failure",
			func(s *Schedule) { s.Rules[0].Cron, s.Track.SucceededAt = "0 0 * * SUN", at(4, 1) }, at(13, 0), []Condition{Stale},
		},
		{
			"it was changed since",
			func(s *Schedule) { s.Track.SucceededAt, s.UpdatedAt = at(5, 1), at(11, 12) }, at(12, 20), nil,
		},
		{
			"it was resumed since",
			func(s *Schedule) { s.Track.SucceededAt, s.LastPause = at(5, 1), Span{at(6, 0), at(11, 12)} }, at(12, 20), nil,
		},
		{
			"it is paused",
			func(s *Schedule) { s.Track.SucceededAt, s.PausedAt = at(5, 1), at(6, 0) }, at(12, 20), nil,
		},
		{
			"it has ended",
			func(s *Schedule) { s.Track.SucceededAt, s.EndedAt = at(5, 1), at(6, 0) }, at(12, 20), nil,
		},
		{"nothing was kept by older nodes", func(s *Schedule) { s.Track = Track{} }, at(12, 20), nil},
		{"it never succeeded", func(*Schedule) {}, at(4, 0), []Condition{Stale}},
		{
			"its newest run failed",
			func(s *Schedule) { s.Track.SucceededAt, s.Track.Ends = at(10, 1), []End{ended(1, task.Failed)} },
			at(10, 20), []Condition{Failing},
		},
		{"and was cancelled after that", func(s *Schedule) {
			s.Track.SucceededAt, s.Track.Ends = at(10, 1), []End{ended(1, task.Failed), ended(2, task.Cancelled)}
		}, at(10, 20), []Condition{Failing}},
		{"it succeeded after that", func(s *Schedule) {
			s.Track.SucceededAt, s.Track.Ends = at(10, 1), []End{ended(1, task.Failed), ended(2, task.Succeeded)}
		}, at(10, 20), nil},
		{
			"an older node counted a failure",
			func(s *Schedule) { s.Failures, s.Track.SucceededAt = 1, at(10, 1) }, at(10, 20), []Condition{Failing},
		},
		{
			"a tick was missed a day ago",
			func(s *Schedule) { s.Track.SucceededAt, s.Track.MissedAt = at(10, 1), at(9, 20) }, at(10, 20), []Condition{Missing},
		},
		{
			"a tick was missed before that",
			func(s *Schedule) { s.Track.SucceededAt, s.Track.MissedAt = at(10, 1), at(9, 19) }, at(10, 20), nil,
		},
	} {
		if diff := cmp.Diff(c.want, daily(c.change).ConditionsAt(c.now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	s := daily(func(s *Schedule) { s.Track.SucceededAt = at(10, 1) })
	if !s.Has(Stale, at(11, 2), time.Hour) || s.Has(Stale, at(11, 1), time.Hour) {
		t.Error("after an hour, it is stale one hour after its tick, and not before")
	}
	if s.Has(Condition("other"), at(11, 2), time.Hour) {
		t.Error("it has a condition that does not exist")
	}
}
