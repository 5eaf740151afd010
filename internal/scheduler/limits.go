package scheduler

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/telemetry"
)

// limitRounds is how many calls a term makes about limits before it claims. Those behind the first one that lacks
// something are asked for in a later round.
const limitRounds = 8

// watchLimits keeps the planner told of what limits allow, until ctx ends. While somebody has damaged their key, a node
// follows those that it has read before, or none.
func (s *Scheduler) watchLimits(ctx context.Context) error {
	var known limit.Rules
	var told telemetry.Seldom
	for ctx.Err() == nil {
		pause := s.pace.limits
		rules, err := s.loadLimits(ctx, known)
		isDamage := redisx.IsDamage(err)
		if err != nil {
			pause = retryAfterError
			if !isDamage || told.Due("") {
				s.warn(ctx, 0, "cannot read the limits", err)
			}
		}
		if err == nil || isDamage {
			known = rules
			s.limitsKnown.Do(func() { close(s.limitsRead) })
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-s.limitWakes:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// loadLimits reads the limits, and tells the planner if they are others than those that are known. Nobody sets limits
// while a node of an earlier release lives. So if there are some, all nodes follow them: a leader does so even if it
// has not noticed yet that the layout has moved. Error: CodeUnavailable.
func (s *Scheduler) loadLimits(ctx context.Context, known limit.Rules) (limit.Rules, error) {
	entries, now, err := s.o.Store.Rules.Sweep(ctx)
	if err != nil {
		return known, err
	}
	here := clock.Now()
	rules := make(limit.Rules)
	for _, e := range entries {
		rules[e.Name] = e.Rule
	}
	if maps.Equal(known, rules) {
		return rules, nil
	}
	of := maps.Clone(rules)
	for name, rule := range of {
		if !rule.Paused.IsZero() {
			rule.Paused = here.Add(rule.Paused.Sub(now)) // by the clock of this node
			of[name] = rule
		}
	}
	s.plan.tell(func(h *handover.Planner, _ time.Time) { h.SetLimits(limit.NewTable(of)) })
	return rules, nil
}

// slotsFreed is called when tasks of a partition have ended that held slots.
func (s *Scheduler) slotsFreed(partition int, freed map[string]int) {
	s.plan.tell(func(h *handover.Planner, _ time.Time) {
		for name, n := range freed {
			h.SlotsFreed(partition, name, n)
		}
	})
}

// limitWoken is called when the home of a limit wants the leader of a partition to ask.
func (s *Scheduler) limitWoken(partition int, name string) {
	s.plan.tell(func(h *handover.Planner, _ time.Time) { h.LimitWoken(partition, name) })
}

// settle asks for slots of the limits of tasks that wait, and gives back those that are not needed. Error: one of the
// partition; what homes do not answer is asked again later.
func (t *term) settle(ctx context.Context) error {
	mayHaveLost := t.s.o.Store.MayHaveLost()
	if mayHaveLost != t.mayHaveLost { // it counts anew when writes may be lost, and when that is over
		t.mayHaveLost = mayHaveLost
		t.s.plan.tell(func(h *handover.Planner, _ time.Time) { h.ForgetLimits(t.partition) })
	}
	for range limitRounds {
		var mustRead bool
		var recounts []limit.Recount
		var asks []limit.Ask
		t.s.plan.tell(func(h *handover.Planner, now time.Time) {
			book, needs, table := h.Limits(t.partition)
			if book == nil {
				return
			}
			if mustRead = book.MustRead(); !mustRead {
				recounts, asks = book.Calls(needs, table, now)
			}
		})
		var err error
		switch {
		case mustRead:
			err = t.readCaps(ctx)
		case len(recounts) > 0:
			err = t.recount(ctx, recounts)
		case len(asks) > 0:
			t.ask(ctx, asks)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tellBook tells what is known of the limits of the partition.
func (t *term) tellBook(do func(b *limit.Book, now time.Time)) {
	t.s.plan.tell(func(h *handover.Planner, now time.Time) {
		if book := h.Book(t.partition); book != nil {
			do(book, now)
		}
	})
}

func (t *term) readCaps(ctx context.Context) error {
	names, err := t.leader.CappedLimits(ctx)
	if err != nil {
		return err
	}
	t.tellBook(func(b *limit.Book, _ time.Time) { b.Read(names) })
	return nil
}

func (t *term) recount(ctx context.Context, recounts []limit.Recount) error {
	caps, err := t.leader.Recount(ctx, recounts)
	if err != nil {
		return err
	}
	t.tellBook(func(b *limit.Book, now time.Time) { b.Counted(caps, now) })
	return nil
}

// ask asks homes. In a cluster, it does not wait for one that is silent.
func (t *term) ask(ctx context.Context, asks []limit.Ask) {
	partitions := t.s.o.Store.Partitions
	keys := make([]string, len(asks))
	for i, a := range asks {
		keys[i] = string(t.s.o.Store.Keys.Partition(partitions.HomeOf(a.Limit)).Caps())
	}
	results := redisx.CallEach(ctx, &t.s.plan.errands, redisx.Calls[limit.Answer]{
		Keys: keys,
		Do:   func(places []int) []redisx.Result[limit.Answer] { return t.askAt(ctx, redisx.Pick(asks, places)) },
	})
	var failures []error
	t.tellBook(func(b *limit.Book, now time.Time) {
		for i, r := range results {
			if r.Err != nil {
				b.Failed(asks[i], now)
				failures = append(failures, r.Err)
				continue
			}
			b.Answered(asks[i], r.Reply, now)
		}
	})
	if err := errors.Join(failures...); err != nil && !errors.Is(err, redisx.ErrLate) {
		t.warn(ctx, "cannot ask for slots of limits; their tasks wait", err)
	}
}

// askAt asks the homes of limits on one server.
func (t *term) askAt(ctx context.Context, asks []limit.Ask) []redisx.Result[limit.Answer] {
	ctx = context.WithoutCancel(ctx)
	results := make([]redisx.Result[limit.Answer], len(asks))
	byHome := make(map[int][]int)
	for i, a := range asks {
		home := t.s.o.Store.Partitions.HomeOf(a.Limit)
		byHome[home] = append(byHome[home], i)
	}
	for home, places := range byHome {
		answers, err := t.leader.Settle(ctx, home, redisx.Pick(asks, places))
		for k, i := range places {
			if results[i].Err = err; err == nil {
				results[i].Reply = answers[k]
			}
		}
	}
	return results
}
