package doctor

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/lua"
)

const (
	slotLeaked = "slot-leaked"
	slotLost   = "slot-lost"
)

var slotChecks = []string{slotLeaked}

// cappedLimits are the tasks that hold slots of the limits of which a partition has a cap, by limit.
func (e *examination) cappedLimits(ctx context.Context, p int) (all []collection, _ error) {
	if !e.wants(slotChecks...) {
		return nil, nil
	}
	caps := string(e.o.Layout.Keys.Partition(p).Caps())
	names, err := e.o.Layout.DB.HKeys(ctx, caps).Result()
	for _, name := range names {
		if name != partition.NewestCap {
			all = append(all, e.holders(p, name))
		}
	}
	return all, e.passOver(caps, err, slotChecks...)
}

// uncapped are the same of those limits among some of which the partition has no cap, as after a loss of writes.
func (e *examination) uncapped(ctx context.Context, p int, names []string) (all []collection, _ error) {
	caps := string(e.o.Layout.Keys.Partition(p).Caps())
	capped, err := e.o.Layout.DB.HMGet(ctx, caps, names...).Result()
	if redisx.IsDamage(err) {
		capped, err = make([]any, len(names)), nil
	}
	for i, text := range capped {
		set := e.holders(p, names[i])
		if text == nil || slices.ContainsFunc(e.at.Path, func(at place) bool { return at.Collection == set.name }) {
			all = append(all, set)
		}
	}
	return all, err
}

// holders are the tasks of a partition that hold a slot of a limit.
func (e *examination) holders(p int, name string) collection {
	set := string(e.o.Layout.Keys.Partition(p).Holds(name))
	look := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		members, next, err := e.o.Layout.DB.SScan(ctx, set, from, "", examinePage).Result()
		e.entries += len(members)
		if err != nil || len(members) == 0 {
			return nil, next, err
		}
		return nil, next, e.examineHolders(ctx, p, name, members)
	}
	return collection{name: set, checks: slotChecks, look: look}
}

func (e *examination) examineHolders(ctx context.Context, p int, name string, members []string) error {
	looked, err := e.inTurn(ctx, members, examinePage, slotChecks, func(some []string) error {
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineHolds{
			Defs: e.o.Layout.Keys.Partition(p).Defs(), Checks: e.wanted, Repair: e.Repair, Limit: name,
			Wake: e.o.Layout.Keys.Wake(p), Members: some,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, slotChecks...)
	return err
}
