package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestNext_ShowsNoMoreTicksThanWillRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(1, func(d *schedule.Definition) { d.MaxRuns = 3 })
	for _, want := range []int{3, 2} { // before and after the first one ran
		preview, err := w.Next(w.ctx, me, NextRequest{ID: nightly.ID, Count: 10})
		if err != nil || len(preview.Ticks) != want {
			t.Fatalf("%d ticks, %v, want %d", len(preview.Ticks), err, want)
		}
		w.fire(nightly)
	}
	w.put(daily(func(d *schedule.Definition) { d.Rules[0].Every, d.MaxRuns = time.Hour, 1 }))
	w.fire(nightly)
	if preview, err := w.Next(w.ctx, me, NextRequest{ID: nightly.ID, Count: 10}); err != nil || len(preview.Ticks) != 0 {
		t.Errorf("of one that has ended: %v, %v", preview.Ticks, err)
	}
}

// crowd makes n schedules whose ticks take long to count.
func (w *world) crowd(n int) {
	w.t.Helper()
	for i := range n {
		w.put(daily(func(d *schedule.Definition) {
			d.ID, d.Rules = fmt.Sprintf("crowd-%d", i), []schedule.Rule{{Every: schedule.IntervalMin}}
			for i := range schedule.ExcludeLimit {
				d.Exclude = append(d.Exclude, fmt.Sprintf("%d 59 23 * * *", i%60))
			}
		}))
	}
}

func TestForecast_RefusesWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.crowd(1)
	_, _, err := w.forecast(w.ctx, me, 168, 0, 10*time.Millisecond)
	var refused *task.Error
	if !errors.As(err, &refused) || refused.Code != task.CodeInvalid || refused.Field != "hours" {
		t.Errorf("the error is %v", err)
	}
	if f, err := w.Forecast(w.ctx, me, 1, 0); err != nil || f.Total < 30_000 {
		t.Errorf("of an hour: %d ticks, %v", f.Total, err)
	}
}

func TestForecast_EndsWhenItsClientHasGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.crowd(3)
	gone, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 2)
	for range 2 { // the second one waits for its turn
		go func() {
			_, err := w.Forecast(gone, me, 168, 0)
			ended <- err
		}()
	}
	testkit.Eventually(t, "a forecast counts", func() bool { return len(w.forecasts) == 1 })
	cancel()
	for range 2 {
		if err := testkit.Receive(t, ended, "the end of a forecast"); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestForecast_NamesWhatComesInTheFirstMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Rules = []schedule.Rule{{Every: time.Second}} }))
	start := w.now().Truncate(time.Minute)
	for i, minute := range []int{2, 13, 17} {
		at := start.Add(time.Duration(minute)*time.Minute + 59*time.Second)
		w.submit([]task.Definition{{Ref: task.Ref{ID: fmt.Sprint("t", i)}, Type: "http", RunAt: at}})
	}
	f, err := w.Forecast(w.ctx, me, 1, 15)
	testkit.Must(t, err)
	var names []string
	for _, c := range f.Coming {
		names = append(names, c.Ref.ID)
	}
	if !slices.Equal(names, []string{nightly.ID, "t0", "t1"}) || f.LeftOut != 0 {
		t.Fatalf("%v come, and %d more", names, f.LeftOut)
	}
	s, soon := f.Coming[0], w.now().Add(2*time.Second)
	if s.Ticks < 14*60-1 || s.Ticks > 15*60 || s.At.Before(start) || s.At.After(soon) {
		t.Errorf("the schedule: %+v", s)
	}
	if d := f.Coming[1]; d.Ticks != 0 || !d.At.Equal(start.Add(2*time.Minute+59*time.Second)) {
		t.Errorf("the task: %+v", d)
	}
	var many []task.Definition
	for i := range comingLimit {
		many = append(many, task.Definition{Ref: task.Ref{ID: fmt.Sprint("many", i)}, Type: "http", Delay: time.Minute})
	}
	w.submit(many)
	if f, err := w.Forecast(w.ctx, me, 1, 15); err != nil || len(f.Coming) != comingLimit || f.LeftOut != 3 {
		t.Errorf("of too many: %d, and %d left out, %v", len(f.Coming), f.LeftOut, err)
	}
}

func TestForecast_CountsTasksThatWaitForTheirTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.now().Truncate(time.Minute)
	for i, minute := range []int{3, 3, 59, 60} {
		at := start.Add(time.Duration(minute)*time.Minute + 30*time.Second)
		w.submit([]task.Definition{{Ref: task.Ref{ID: fmt.Sprint("t", i)}, Type: "http", RunAt: at}})
	}
	other := task.Ref{Namespace: "other", ID: "a"}
	elsewhere := task.Definition{Ref: other, Type: "http", RunAt: start.Add(10 * time.Minute)}
	_, err := w.SubmitEach(w.ctx, Caller{Namespace: "other"}, []task.Definition{elsewhere})
	testkit.Must(t, err)
	of := func(namespace string) (minutes, tasks, third int) {
		f, err := w.Forecast(w.ctx, Caller{Namespace: namespace}, 1, 0)
		testkit.Must(t, err)
		third = f.Delayed[int(start.Add(3*time.Minute).Sub(f.From)/time.Minute)]
		for _, n := range f.Delayed {
			tasks += n
		}
		return len(f.Delayed), tasks, third
	}
	if minutes, tasks, third := of("default"); minutes != 60 || tasks < 3 || third != 2 {
		t.Errorf("%d tasks in %d minutes, %d in the third", tasks, minutes, third)
	}
	_, mine, _ := of("default")
	if _, all, _ := of(EveryNamespace); all != mine+1 {
		t.Errorf("%d tasks of all namespaces, %d of one", all, mine)
	}
	var many []task.Definition
	for i := range 4500 { // in two partitions
		d := task.Definition{Ref: task.Ref{ID: fmt.Sprint("many", i)}, Type: "http", RunAt: start.Add(5 * time.Minute)}
		many = append(many, d)
	}
	for some := range slices.Chunk(many, 1000) {
		w.submit(some)
	}
	if minutes, tasks, third := of("default"); minutes > 5 || tasks != 2 || third != 2 {
		t.Errorf("of too many, %d tasks in %d minutes, %d in the third", tasks, minutes, third)
	}
}

// What a forecast leaves out is told to all who get it.
func TestRecentForecast_IsCountedOnceForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Rules = []schedule.Rule{{Every: time.Hour}} }))
	broken := task.Ref{Namespace: "default", ID: "broken"}
	w.put(daily(func(d *schedule.Definition) { d.Ref = broken }))
	testkit.Must(t, w.db.HSet(w.ctx, w.key(broken, "schedule"), "def", "{").Err())
	expect := func(who Caller, ticks bool, leftOut int) {
		t.Helper()
		ctx, left := redisx.LeavingOut(w.ctx)
		f, err := w.RecentForecast(ctx, who, 6)
		if err != nil || (f.Total > 0) != ticks || len(left.Texts()) != leftOut {
			t.Errorf("%d ticks, %v, left out: %q; want some: %v, and %d texts", f.Total, err, left.Texts(), ticks, leftOut)
		}
	}
	expect(me, true, 1)
	var reads counter
	w.db.AddHook(&reads)
	expect(me, true, 1)
	if n := reads.Load(); n > 0 {
		t.Errorf("the second reader costs %d calls", n)
	}
	expect(Caller{Namespace: "other"}, false, 0)
}

// Who asks for many namespaces takes from nobody the forecast that others look at.
func TestRecentForecast_ForgetsWhatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	var r recentForecasts
	shared := r.value(forecastOf{EveryNamespace, 24})
	old := r.value(forecastOf{"n0", 24})
	for i := range 3 * recentLimit {
		r.value(forecastOf{fmt.Sprintf("n%d", i+1), 24})
		if r.value(forecastOf{EveryNamespace, 24}) != shared {
			t.Fatalf("the forecast of all was forgotten after %d others", i+1)
		}
	}
	if len(r.known) != recentLimit || len(r.asked) != recentLimit || r.value(forecastOf{"n0", 24}) == old {
		t.Errorf("%d are known, %d were asked for", len(r.known), len(r.asked))
	}
	w := newWorld(t)
	if _, err := w.RecentForecast(w.ctx, Caller{Namespace: "no name"}, 6); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("of what is no namespace: %v", err)
	}
}
