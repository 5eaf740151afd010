package scheduler

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
)

const (
	lookLimit  = 128             // schedules read in one round
	fireBudget = 5 * time.Second // for one round, even if the node is told to stop meanwhile

	holesLogged = 1000 // bytes that a line of the log says of the holes in the history of a schedule
)

// tick plans and fires the ticks of schedules that are due, until ctx ends or the lease is over. Like dispatch, it does
// not poll: it sleeps until the first schedule is due, and is woken when somebody changes a schedule, or when the end of a
// task lets a waiting tick go on.
//
// Package schedule decides what becomes of each tick, and one script applies the decisions, all or nothing. It compares and
// moves the schedule's cursor, so a repeat after a lost reply or a crash applies them once.
func (t *term) tick(ctx context.Context) error {
	unsure := false // a reply was lost: there may be new tasks on the wheel
	var held holds
	var decided cursors
	for ctx.Err() == nil {
		limited := t.s.limits.Any(ctx)
		start := clock.Now()
		due, err := t.leader.Due(ctx, lookLimit, limited)
		got := clock.Now()
		if err == nil {
			t.s.contact.compare(t.partition, reading{due.Now, start, got})
		}
		if err == nil && len(due.Agendas) > 0 && t.s.crowded(ctx, t.partition) {
			held.holdAll()
			t.failed(ctx, "holding ticks back", errCrowded)
			continue
		}
		if err == nil {
			if unsure {
				t.s.wake(t.partition)
			}
			held.release(due.Now)
			err = t.fire(ctx, due.Agendas, held, &decided)
			unsure = err != nil
		}
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot fire due schedules", err)
		case len(due.Agendas) == 0: // so all that was held back is decided
			held.decidedAll()
			t.sleep(ctx, due.Next, due.Now, got, t.s.tickWakes)
		}
	}
	return nil
}

// fire plans the due ticks, applies the plans, and wakes dispatch for the new tasks. It finishes even if ctx ends meanwhile, within
// fireBudget. held says why the ticks of all schedules were held back.
func (t *term) fire(ctx context.Context, agendas []partition.Agenda, held holds, decided *cursors) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fireBudget)
	defer cancel()
	planned, places := t.plan(ctx, agendas, held)
	var failures []error
	lost := false
	for i, f := range t.leader.Fire(ctx, planned) {
		places[i].Leave(len(f.Ticked) > 0)
		switch {
		case errors.Is(f.Err, schedules.ErrMoved):
			// The tick loop plans it again. If this call was sent twice, there may be new tasks: wake dispatch.
			t.s.wake(t.partition)
		case errors.Is(f.Err, partition.ErrDamaged): // it is due again in some seconds
		case f.Err != nil:
			failures = append(failures, f.Err)
		case len(f.Ticked) > 0:
			t.s.wake(t.partition)
			t.tellHoles(planned[i])
			t.count(planned[i], f)
			lost = t.remember(planned[i], decided) || lost
		}
	}
	if lost {
		t.s.o.Store.RecordLosses(ctx, map[int]bool{t.partition: true})
	}
	return errors.Join(failures...)
}

// plan decides about due ticks, and enters their tasks at their queues. It returns a plan and a place for each
// schedule.
func (t *term) plan(
	ctx context.Context, agendas []partition.Agenda, held holds,
) (planned []partition.Planned, places []*limits.Place) {
	_, skipped := t.s.contact.jumps(t.partition)
	for _, a := range agendas {
		a.Skipped = skipped
		held.explain(&a)
		plan := partition.Planned{Agenda: a, Plan: schedule.MakePlan(a.Agenda)}
		place, err := t.enter(ctx, a, plan.Plan)
		if err != nil {
			plan = partition.HoldBack(a)
			t.s.o.Metrics.HeldBack.Inc()
		}
		if until := plan.Plan.Forgotten; !until.IsZero() {
			t.s.o.Log.Warn("missed more ticks than the ledger holds; the older ones get no record",
				"schedule", a.Ref.String(), "until", until)
		}
		planned, places = append(planned, plan), append(places, place)
	}
	return planned, places
}

// tellHoles logs the ticks that nobody could decide. It does so once, as the cursor has passed them.
func (t *term) tellHoles(p partition.Planned) {
	if len(p.Plan.Holes) == 0 {
		return
	}
	reasons := make([]string, 0, len(p.Plan.Holes))
	for _, hole := range p.Plan.Holes {
		reasons = append(reasons, hole.String())
	}
	t.s.o.Log.Error("ticks of a schedule are missed: its history is damaged",
		"schedule", p.Agenda.Ref.String(), "reason", task.CutMiddle(strings.Join(reasons, "; "), holesLogged))
}

// remember notes that ticks were decided. If they were decided before, Redis has lost that: they were decided again, since their tasks may be
// lost, too. That Redis shows an old cursor would not prove it, as a primary that was replaced does so, too; that it takes the decision does.
// It returns whether Redis has lost it.
func (t *term) remember(p partition.Planned, decided *cursors) (lost bool) {
	a := p.Agenda
	if len(p.Plan.Decisions) == 0 {
		return false
	}
	if lost = decided.passed(creationOf(a), a.Cursor); lost {
		t.s.o.Store.NoticeLoss(t.partition, p.Plan.Decisions[0].Tick, a.Now, "the decision of ticks of "+a.Ref.String())
	}
	decided.add(creationOf(a), a.Cursor)
	return lost
}

// count updates the metrics with what became of ticks. Those that were held back are late for want of room.
func (t *term) count(p partition.Planned, f partition.Fired) {
	onTime := make(map[string]time.Time)
	for _, d := range p.Plan.Decisions {
		if d.OnTime() && d.Tick.After(p.Agenda.HeldUntil) {
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
