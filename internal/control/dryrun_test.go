package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// A dry run answers what the same call answers without it right after, and leaves everything as it is.
func TestPutSchedule_DryRunTellsWhatWouldComeOfItAndWritesNothing(t *testing.T) {
	t.Parallel()
	hourly := daily(func(d *schedule.Definition) { d.Rules[0].Every = time.Hour })
	active, paused := false, true
	for name, c := range map[string]struct {
		before func(*world) // what was there
		put    schedule.Definition
		paused *bool
		want   Put // but for the schedule
	}{
		"create":         {nil, daily(nil), nil, Put{Created: true, Changed: true}},
		"create, paused": {nil, daily(nil), &paused, Put{Created: true, Changed: true}},
		"replace":        {func(w *world) { w.put(daily(nil)) }, hourly, nil, Put{Changed: true}},
		"replace, paused": {func(w *world) {
			w.put(daily(nil))
			w.pause(nightly)
		}, hourly, nil, Put{Changed: true}},
		"replace and pause": {func(w *world) { w.put(daily(nil)) }, hourly, &paused, Put{Changed: true, Switched: true}},
		"the same":          {func(w *world) { w.put(daily(nil)) }, daily(nil), &active, Put{}},
		"only pause":        {func(w *world) { w.put(daily(nil)) }, daily(nil), &paused, Put{Switched: true}},
		"only resume": {func(w *world) {
			w.put(daily(nil))
			w.pause(nightly)
		}, daily(nil), &active, Put{Switched: true}},
		"replace after a tick": {func(w *world) {
			w.put(daily(nil))
			w.fire(nightly)
			w.rewind(nightly, 24*time.Hour+time.Second)
			w.fire(nightly)
		}, hourly, nil, Put{Changed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.before != nil {
				c.before(w)
			}
			before := redistest.Dump(t, w.db)
			dry, err := w.PutSchedule(w.ctx, me, c.put, PutOptions{Paused: c.paused, DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
				t.Errorf("it changed something:\n%s", diff)
			}
			if diff := cmp.Diff(c.want, dry, cmpopts.IgnoreFields(Put{}, "Schedule")); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			wet, err := w.PutSchedule(w.ctx, me, c.put, PutOptions{Paused: c.paused})
			if err != nil {
				t.Fatal(err)
			}
			soon := cmpopts.EquateApproxTime(10 * time.Second)
			rest := cmpopts.IgnoreFields(schedule.Schedule{}, "LastPause") // where a resume ends a pause: nothing that is shown
			if diff := cmp.Diff(wet, dry, soon, rest); diff != "" {
				t.Errorf("the dry run differs (-wet +dry):\n%s", diff)
			}
		})
	}
}

func TestPutSchedule_DryRunRefusesWhatWouldBeRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	before := redistest.Dump(t, w.db)
	for name, c := range map[string]struct {
		d    schedule.Definition
		o    PutOptions
		want task.Code
	}{
		"no time":        {daily(func(d *schedule.Definition) { d.Rules[0].Every = 1 }), PutOptions{}, task.CodeInvalid},
		"never":          {daily(func(d *schedule.Definition) { d.EndAt = time.UnixMilli(1) }), PutOptions{}, task.CodeInvalid},
		"other revision": {daily(nil), PutOptions{IfMatch: 7}, schedule.CodeChanged},
		"exists":         {daily(nil), PutOptions{IfAbsent: true}, schedule.CodeChanged},
	} {
		c.o.DryRun = true
		if _, err := w.PutSchedule(w.ctx, me, c.d, c.o); task.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
		t.Errorf("they changed something:\n%s", diff)
	}
}

func (w *world) pause(ref task.Ref) {
	w.t.Helper()
	if _, err := w.PauseSchedule(w.ctx, me, ref.ID, "maintenance"); err != nil {
		w.t.Fatal(err)
	}
}
