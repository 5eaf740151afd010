package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// mergeStart is before the clocks of Europe/Berlin change.
var mergeStart = time.Date(2035, 3, 24, 22, 0, 0, 0, time.UTC)

// randomSchedules are n schedules of two namespaces.
func randomSchedules(random *rand.Rand, n int) []Schedule {
	crons := []string{"* * * * *", "30 2 * * *", "0 * * * *", "*/15 * * * *", "H * * * *", "0 0 29 2 *"}
	all := make([]Schedule, n)
	for i := range all {
		s := &all[i]
		s.Ref = task.Ref{Namespace: []string{"a", "b"}[random.IntN(2)], ID: fmt.Sprint("s", i)}
		s.CreatedAt, s.Timezone, s.Task.Type = mergeStart.Add(-time.Hour), "Europe/Berlin", "http"
		s.Rules = []Rule{{Cron: crons[random.IntN(len(crons))]}}
		if random.IntN(3) == 0 {
			s.Rules = append(s.Rules, Rule{Every: time.Duration(1+random.IntN(300)) * time.Second})
		}
		switch random.IntN(6) {
		case 0:
			s.Exclude = []string{"2035-03-25"}
		case 1:
			s.MaxRuns, s.Runs = random.IntN(4), 1
		case 2:
			s.EndAt = mergeStart.Add(time.Hour)
		case 3:
			s.PausedAt = mergeStart
		}
	}
	return all
}

// expectedTicks are the first n ticks of some schedules, found one schedule at a time.
func expectedTicks(t *testing.T, all []Schedule, n int) []MergedTick {
	t.Helper()
	var ticks []MergedTick
	for _, s := range all {
		if !s.PausedAt.IsZero() {
			continue
		}
		table, err := Compile(s.Spec, s.Ref, s.CreatedAt)
		if err != nil {
			t.Fatal(err)
		}
		runs := n
		if s.MaxRuns > 0 {
			runs = min(n, s.MaxRuns-s.Runs)
		}
		for tick, ok := table.Next(mergeStart); ok && runs > 0; tick, ok = table.Next(tick.At) {
			if !tick.Excluded {
				ticks = append(ticks, MergedTick{UpcomingTick: table.upcoming(tick), Ref: s.Ref})
				runs--
			}
		}
	}
	slices.SortFunc(ticks, func(a, b MergedTick) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	return ticks[:min(n, len(ticks))]
}

func TestMerge_ReturnsTheTicksOfAllSchedulesInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	for range 50 {
		all := randomSchedules(random, 1+random.IntN(8))
		var m Merge
		for _, s := range all {
			if _, _, err := m.Add(s, mergeStart); err != nil {
				t.Fatal(err)
			}
		}
		want := expectedTicks(t, all, 300)
		for i, w := range want {
			got, ok := m.Next(time.Time{})
			if !ok || got.Ref != w.Ref || got.UpcomingTick != w.UpcomingTick {
				t.Fatalf("tick %d of %d schedules is %+v, %v, want %+v", i, len(all), got, ok, w)
			}
		}
		if _, ok := m.Next(time.Time{}); len(want) < 300 && ok {
			t.Fatalf("there are more than %d ticks", len(want))
		}
	}
}

func TestMerge_ReturnsNoTickFromTheBoundOn(t *testing.T) {
	t.Parallel()
	var m Merge
	s := Schedule{CreatedAt: mergeStart, Definition: Definition{Spec: Spec{Rules: []Rule{{Every: time.Minute}}}}}
	if found, _, err := m.Add(s, mergeStart); !found || err != nil {
		t.Fatal(found, err)
	}
	first := mergeStart.Add(time.Minute)
	if got, ok := m.Next(first); ok {
		t.Errorf("got %s", got.Tick)
	}
	if got, ok := m.Next(first.Add(1)); !ok || !got.Tick.Equal(first) || got.Queue != task.DefaultQueue {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestMerge_TellsWhatHasNoTickFromWhatIsAllExcluded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change      func(*Schedule)
		found, more bool
	}{
		"ticks":        {func(*Schedule) {}, true, true},
		"ended":        {func(s *Schedule) { s.EndedAt = mergeStart }, false, false},
		"at its limit": {func(s *Schedule) { s.MaxRuns, s.Runs = 2, 2 }, false, false},
		"all excluded": {func(s *Schedule) { s.Exclude = []string{"2035-01-01/2120-01-01"} }, false, true},
	} {
		s := Schedule{CreatedAt: mergeStart, Definition: Definition{Spec: Spec{Rules: []Rule{{Every: time.Minute}}}}}
		c.change(&s)
		if found, more, err := new(Merge).Add(s, mergeStart); found != c.found || more != c.more || err != nil {
			t.Errorf("%s: %v, %v, %v", name, found, more, err)
		}
	}
}
