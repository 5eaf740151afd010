package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// every puts a schedule into a namespace that ticks each so often, from a time on that is in the future.
func (w *world) every(
	namespace, id string, interval time.Duration, first time.Time, change func(*schedule.Definition),
) {
	w.t.Helper()
	d := daily(func(d *schedule.Definition) {
		d.Ref = task.Ref{Namespace: namespace, ID: id}
		d.Rules, d.StartAt = []schedule.Rule{{Every: interval}}, first
		if change != nil {
			change(d)
		}
	})
	_, err := w.PutSchedule(w.ctx, Caller{Namespace: namespace}, d, PutOptions{})
	testkit.Must(w.t, err)
	w.lookNow(d.Ref) // so that it is due when it ticks next
}

// nextTicks returns the next ticks as texts: how long after a time, and the schedule.
func (w *world) nextTicks(namespace string, count int, start time.Time) (texts []string, known time.Time) {
	w.t.Helper()
	next, err := w.NextTicks(w.ctx, Caller{Namespace: namespace}, count)
	testkit.Must(w.t, err)
	for _, t := range next.Ticks {
		texts = append(texts, fmt.Sprint(t.Tick.Sub(start), " ", t.Ref))
	}
	return texts, next.KnownUntil
}

func TestNextTicks_MergesTheTicksOfAllSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.now().Truncate(time.Minute).Add(time.Hour)
	w.every("default", "b", 2*time.Minute, start, nil)
	w.every("default", "a", 3*time.Minute, start, func(d *schedule.Definition) { d.MaxRuns = 2 })
	w.every("shop", "a", 5*time.Minute, start.Add(time.Minute), nil)
	w.every("default", "off", time.Minute, start, nil)
	w.pause(task.Ref{Namespace: "default", ID: "off"})
	mine := []string{
		"0s default:a", "0s default:b", "2m0s default:b", "3m0s default:a", "4m0s default:b", "6m0s default:b",
	}
	if got, known := w.nextTicks("default", 6, start); !slices.Equal(got, mine) || !known.IsZero() {
		t.Errorf("of one namespace: %q, %s", got, known)
	}
	all := []string{"0s default:a", "0s default:b", "1m0s shop:a", "2m0s default:b"}
	if got, known := w.nextTicks(EveryNamespace, 4, start); !slices.Equal(got, all) || !known.IsZero() {
		t.Errorf("of all: %q, %s", got, known)
	}
	if got, known := w.nextTicks("nobody", 4, start); len(got) != 0 || !known.IsZero() {
		t.Errorf("of none: %q, %s", got, known)
	}
}

// A schedule that is due first may have no tick for long, as it is excluded.
func TestNextTicks_ReadsOnPastExcludedTicks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.now().Truncate(24 * time.Hour).Add(48 * time.Hour)
	for i := range 30 {
		w.every("default", fmt.Sprint("x", i), time.Minute, start, func(d *schedule.Definition) {
			d.Exclude = []string{start.Format(time.DateOnly)}
		})
	}
	w.every("default", "late", time.Minute, start.Add(time.Hour), nil)
	got, known := w.nextTicks("default", 1, start)
	if !slices.Equal(got, []string{"1h0m0s default:late"}) || !known.IsZero() {
		t.Errorf("got %q, %s", got, known)
	}
}

func TestNextTicks_SaysUpToWhenItHasLooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.now().Truncate(time.Minute).Add(time.Hour)
	w.every("default", "a", time.Minute, start, nil)
	crowd := make([]redis.Z, 0, schedules.UpcomingLimit)
	for i := range schedules.UpcomingLimit {
		at := start.Add(2*time.Minute + time.Duration(i)*time.Millisecond)
		crowd = append(crowd, z(float64(at.UnixMilli()), fmt.Sprint("crowd:", i)))
	}
	testkit.Must(t, w.db.ZAdd(w.ctx, w.partitionKey(nightly, "ticks"), crowd...).Err())
	if got, known := w.nextTicks("default", 2, start); len(got) != 2 || !known.IsZero() {
		t.Errorf("before the others: %q, %s", got, known)
	}
	got, known := w.nextTicks("default", 9, start)
	last := start.Add(2*time.Minute + schedules.UpcomingLimit*time.Millisecond)
	if len(got) != 3 || known.After(last) || known.Before(last.Add(-5*time.Second)) {
		t.Errorf("with the others: %q, %s, want one before %s", got, known, last)
	}
}

func TestNextTicks_NamesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.now().Truncate(time.Minute).Add(time.Hour)
	w.every("default", "a", time.Minute, start, nil)
	w.every("default", "b", time.Minute, start, nil)
	b := task.Ref{Namespace: "default", ID: "b"}
	testkit.Must(t, w.db.HSet(w.ctx, w.key(b, "schedule"), "def", "{").Err())
	reading, left := redisx.LeavingOut(w.ctx)
	next, err := w.NextTicks(reading, me, 3)
	if err != nil || len(next.Ticks) != 3 || len(left.Texts()) != 1 {
		t.Errorf("%d ticks, %q, %v", len(next.Ticks), left.Texts(), err)
	}
}
