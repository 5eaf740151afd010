package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
)

const (
	lookLimit  = 128             // schedules looked at in one round
	fireBudget = 5 * time.Second // to bring one round to its end, once it has begun
)

// tick fires the schedules whose time has come, until ctx ends or the lease is over. As dispatch, it does not poll: it
// sleeps until the first schedule is to be looked at, and is woken when somebody changes one, or when the end of a task
// lets a tick go on that waited for it.
//
// What becomes of the ticks is decided by package schedule and made so by one script, all or nothing; whoever repeats
// it after a lost answer, or leads next after a crash, finds the schedule's cursor moved, or not.
func (t *seat) tick(ctx context.Context) error {
	unsure := false // whether new tasks are on the wheel, because an answer was lost
	for ctx.Err() == nil {
		due, err := t.leader.Due(ctx, lookLimit)
		got := clock.Now()
		if err == nil {
			if unsure {
				t.s.wake(t.partition)
			}
			err = t.fire(ctx, due.Agendas)
			unsure = err != nil
		}
		switch {
		case errors.Is(err, store.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot fire schedules", err)
		case len(due.Agendas) == 0:
			t.sleep(ctx, due.Next, due.Now, got, t.s.tickWakes)
		}
	}
	return nil
}

// fire decides about schedules and makes it so. What was begun is brought to its end even if the node is told to stop
// meanwhile.
func (t *seat) fire(ctx context.Context, agendas []store.Agenda) error {
	planned := make([]store.Planned, len(agendas))
	for i, a := range agendas {
		planned[i] = store.Planned{Agenda: a, Plan: schedule.MakePlan(a.Agenda)}
		if until := planned[i].Plan.Forgotten; !until.IsZero() {
			t.s.o.Log.Warn("more ticks were missed than a ledger holds; the older ones have no record", "schedule", a.Ref.String(), "until", until)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fireBudget)
	defer cancel()
	var failures []error
	for i, f := range t.leader.Fire(ctx, planned) {
		switch {
		case errors.Is(f.Err, store.ErrMoved): // it is looked at again; and it may have been this very call, sent twice, that moved it
			t.s.wake(t.partition)
		case f.Err != nil:
			failures = append(failures, f.Err)
		}
		t.count(planned[i].Plan, f)
	}
	return errors.Join(failures...)
}

// count tells the metrics what became of ticks, and dispatch that there are new tasks.
func (t *seat) count(plan schedule.Plan, f store.Fired) {
	if len(f.Ticked) == 0 {
		return
	}
	t.s.wake(t.partition)
	onTime := make(map[string]time.Time)
	for _, d := range plan.Decisions {
		if d.OnTime() {
			onTime[schedule.TickName(d.Tick)] = d.Tick
		}
	}
	for _, tick := range f.Ticked {
		t.s.o.Metrics.Ticks.WithLabelValues(string(tick.Outcome)).Inc()
		if at, ok := onTime[tick.Name]; ok && tick.Outcome == schedule.Fired {
			t.s.o.Metrics.TickLateness.Observe(f.At.Sub(at).Seconds())
		}
	}
}
