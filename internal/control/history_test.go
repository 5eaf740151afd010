package control

import (
	"fmt"
	"testing"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

func TestRollbackSchedule_PutsAnEarlierRevisionAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 25 {
		w.put(daily(func(d *schedule.Definition) { d.Description = fmt.Sprint("number ", i+1) }))
		w.fire(nightly) // as the leader does at once
	}
	history, err := w.history(w.ctx, nightly)
	if err != nil || len(history) != schedule.HistoryLimit {
		t.Fatalf("%d revisions, %v", len(history), err)
	}
	for i, r := range history {
		if want := 25 - i; r.Number != want || r.Definition.Description != fmt.Sprint("number ", want) {
			t.Errorf("revision %d is %q", r.Number, r.Definition.Description)
		}
		if i > 0 && !r.Until.Equal(history[i-1].From) {
			t.Errorf("revision %d holds until %s, the next from %s", r.Number, r.Until, history[i-1].From)
		}
	}
	put, err := w.RollbackSchedule(w.ctx, me, nightly.ID, 10, 0)
	if err != nil || put.Schedule.Revision != 26 || put.Schedule.Description != "number 10" {
		t.Errorf("%+v, %v", put, err)
	}
	if _, err := w.RollbackSchedule(w.ctx, me, nightly.ID, 1, 0); task.CodeOf(err) != schedule.CodeRevisionNotFound {
		t.Errorf("revision 1: %v", err)
	}
	if _, err := w.RollbackSchedule(w.ctx, me, nightly.ID, 12, 3); task.CodeOf(err) != schedule.CodeChanged {
		t.Errorf("with another revision expected: %v", err)
	}
}

// What happened in a pause is decided after it, by the definitions of its time, however many they were.
func TestHistory_KeepsRevisionsUntilTheirTicksAreDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(3, nil)
	for i := range 25 {
		w.put(daily(func(d *schedule.Definition) { d.Description = fmt.Sprint("number ", i) }))
	}
	if got := w.fire(nightly); len(got) != 3 {
		t.Errorf("there happened %v", got)
	}
	w.put(daily(nil))
	if history, err := w.history(w.ctx, nightly); err != nil || len(history) != schedule.HistoryLimit {
		t.Errorf("%d revisions are kept, %v", len(history), err)
	}
}
