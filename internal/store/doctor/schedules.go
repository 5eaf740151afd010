package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	schedulesPage = 20
	auditPeriod   = time.Hour // of which ledgers are compared with the definitions
)

const (
	unreadable  = "schedule-unreadable"
	notLookedAt = "schedule-not-looked-at"
	liveEnded   = "live-ended"
	ledgerHoles = "ledger-holes"
	heldBack    = "schedule-held-back"
)

var (
	scheduleChecks = []string{unreadable, notLookedAt, "schedule-drift", "schedule-lost", "schedule-leftovers"}
	ledgerChecks   = []string{ledgerHoles, unreadable}
	tickChecks     = append([]string{heldBack}, scheduleChecks...)
)

// scheduleCollections are the collections of a partition that have schedules. The pages of the first two lead to what schedules have of their own:
// a ledger, and live ticks, of which there can be 10,000.
func (e *examination) scheduleCollections(p int) []collection {
	db, k := e.o.Layout.DB, e.o.Layout.Keys.Partition(p)
	each := func(name string, checks []string, of func(ref task.Ref) collection) collection {
		return e.leading(name, checks, db.ZScan, string(k.Schedules()), schedulesPage, func(_ context.Context, names []string) ([]collection, error) {
			var inner []collection
			for _, name := range names {
				if ref, err := task.ParseRef(name); err == nil {
					inner = append(inner, of(ref))
				}
			}
			return inner, nil
		})
	}
	return []collection{
		each("ledgers", ledgerChecks, e.ledger),
		each("live", []string{liveEnded}, func(ref task.Ref) collection { return e.liveTicks(p, ref) }),
		e.pages("schedules", scheduleChecks, db.ZScan, string(k.Schedules()), schedulesPage, func(ctx context.Context, names []string) error {
			e.looked(len(names), scheduleChecks...)
			valid, err := e.dropInvalid(ctx, p, names)
			if err != nil {
				return err
			}
			return e.examineSchedules(ctx, p, valid)
		}),
		e.pages("ticks", tickChecks, db.ZScan, string(k.Ticks()), schedulesPage, func(ctx context.Context, names []string) error {
			if err := e.examineSchedules(ctx, p, names); err != nil {
				return err
			}
			return e.lookForHeldBack(ctx, p, names)
		}),
	}
}

// dropInvalid finds what is no name of a schedule and is listed as one, and returns the others.
func (e *examination) dropInvalid(ctx context.Context, p int, names []string) (valid []string, _ error) {
	k := e.o.Layout.Keys.Partition(p)
	for _, name := range names {
		if _, err := task.ParseRef(name); err == nil {
			valid = append(valid, name)
			continue
		}
		e.found(unreadable, name, "is not a valid name of a schedule")
		if e.Repair && e.wants(unreadable) { // there is nothing to put aside
			if err := e.o.Layout.DB.ZRem(ctx, string(k.Schedules()), name).Err(); err != nil {
				return nil, err
			}
		}
	}
	return valid, nil
}

// lookForHeldBack looks for schedules of a partition whose ticks are held back. While no queue has a limit, none is.
func (e *examination) lookForHeldBack(ctx context.Context, p int, members []string) error {
	if !e.wants(heldBack) {
		return nil
	}
	e.looked(len(members), heldBack)
	if e.limits == nil {
		var err error
		if e.limits, err = e.o.Limits(ctx); err != nil {
			return err
		}
	}
	if len(e.limits) == 0 {
		return nil
	}
	return e.inTurn(ctx, members, schedulesPage, func(some []string) error {
		held, err := e.o.Schedules.HeldBack(ctx, p, some)
		for _, h := range held {
			if limit := e.limits[h.Queue]; limit > 0 {
				e.found(heldBack, h.Ref.String(), fmt.Sprintf("has ticks that are held back since %s: the queue %s is at its limit, %d",
					h.Since.UTC().Format(time.RFC3339), h.Queue, limit))
			}
		}
		return err
	})
}

// examineSchedules examines schedules of a partition, and repairs them.
func (e *examination) examineSchedules(ctx context.Context, p int, members []string) error {
	return e.inTurn(ctx, members, schedulesPage, func(some []string) error {
		upcoming, err := e.upcoming(ctx, p, some)
		if err != nil {
			return err
		}
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineSchedules{
			Schedules: e.o.Layout.Keys.Partition(p).Schedules(), Checks: e.wanted, Repair: e.Repair, Wake: e.o.Layout.Keys.Wake(p), Members: upcoming,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
			if ref, errRef := task.ParseRef(f.Member); f.Check == unreadable && errRef == nil {
				err = errors.Join(err, e.mendUnreadable(ctx, ref))
			}
		}
		return err
	})
}

// mendUnreadable puts a schedule aside that was found to be unreadable, if that is to be repaired and can be.
func (e *examination) mendUnreadable(ctx context.Context, ref task.Ref) error {
	if !e.Repair || !e.wants(unreadable) {
		return nil
	}
	done, err := e.putScheduleAside(ctx, ref)
	if !done {
		e.results[unreadable].Repaired--
	}
	return err
}

// upcoming returns the next ticks of schedules, which only their definitions say, together with the cursors after which they come. The script
// takes them for nothing if a schedule has moved on meanwhile. Error: one of Redis.
func (e *examination) upcoming(ctx context.Context, p int, members []string) ([]lua.ExamineSchedulesMember, error) {
	all := make([]lua.ExamineSchedulesMember, len(members))
	pipe := e.o.Layout.DB.Pipeline()
	hashes := make([]*redis.SliceCmd, len(members))
	fields := []string{"revision", "cursor", "from", "created", "ended", "def"}
	for i, member := range members {
		all[i].Member = member
		if ref, err := task.ParseRef(member); err == nil && e.wants(notLookedAt) {
			hashes[i] = pipe.HMGet(ctx, string(e.o.Layout.Keys.Partition(p).Schedule(ref)), fields...)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, hash := range hashes {
		if hash == nil {
			continue
		}
		values := make(map[string]string, len(fields))
		for k, value := range hash.Val() {
			values[fields[k]] = codec.Text(value)
		}
		next, known, err := e.nextTick(ctx, members[i], values)
		if err != nil {
			return nil, err
		}
		if known {
			all[i].Revision, all[i].Cursor, all[i].Upcoming = values["revision"], values["cursor"], next
		}
	}
	return all, nil
}

// nextTick returns the first tick after the cursor of a schedule with that hash, the zero time if there is none. known is false if the schedule
// cannot be read, or ticks no more. Error: CodeUnavailable.
func (e *examination) nextTick(ctx context.Context, member string, hash map[string]string) (next time.Time, known bool, _ error) {
	ref, err := task.ParseRef(member)
	present, errDecode := codec.DecodeSchedule(ref, hash)
	if err != nil || errDecode != nil || present.Revision == 0 || !present.EndedAt.IsZero() {
		return time.Time{}, false, nil //nolint:nilerr // another check tells that it cannot be read
	}
	line, err := e.o.Schedules.Timeline(ctx, present)
	if task.CodeOf(err) == task.CodeUnavailable || ctx.Err() != nil {
		return time.Time{}, false, err
	}
	if err != nil {
		return time.Time{}, false, nil //nolint:nilerr // as above
	}
	tick, _ := line.Next(present.Cursor)
	return tick.At, true, nil
}

// liveTicks is the live ticks of a schedule.
func (e *examination) liveTicks(p int, ref task.Ref) collection {
	live := e.o.Layout.Keys.Partition(p).Live(ref)
	return e.pages(ref.String(), []string{liveEnded}, e.o.Layout.DB.ZScan, string(live), examinePage, func(ctx context.Context, names []string) error {
		e.looked(len(names), liveEnded)
		return e.inTurn(ctx, names, examinePage, func(some []string) error {
			reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLive{
				Live: live, Checks: e.wanted, Repair: e.Repair, Member: ref, Wake: e.o.Layout.Keys.Wake(p), Names: some,
			})
			for _, f := range reply.Found {
				e.found(f.Check, f.Member, f.Words)
			}
			return err
		})
	})
}

// ledger is the ledger of a schedule, as a collection of one page. It is compared with the definitions of the schedule. They are read one after
// the other, so it looks twice before it says that something is missing.
func (e *examination) ledger(ref task.Ref) collection {
	return collection{name: ref.String(), checks: ledgerChecks, look: func(ctx context.Context, _ uint64) ([]collection, uint64, error) {
		e.entries++
		e.looked(1, ledgerHoles)
		holes, failure, err := e.compare(ctx, ref)
		if err != nil || failure == nil && len(holes) == 0 {
			return nil, 0, err
		}
		if err := e.lookAgain(ctx); err != nil {
			return nil, 0, err
		}
		holes, failure, err = e.compare(ctx, ref)
		if redisx.IsDamage(failure) {
			return nil, 0, failure
		}
		if failure != nil {
			e.found(unreadable, ref.String(), "cannot be read: "+failure.Error())
			err = errors.Join(err, e.mendUnreadable(ctx, ref))
		}
		for _, words := range holes {
			e.found(ledgerHoles, ref.String(), words)
		}
		return nil, 0, err
	}}
}

// compare compares the ledger of a schedule with its definitions. It returns the holes of the ledger, or why it or the schedule cannot be
// read. Error: CodeUnavailable.
func (e *examination) compare(ctx context.Context, ref task.Ref) (holes []string, failure, _ error) {
	now, err := e.o.Layout.Now(ctx, e.o.Layout.PartitionOf(ref))
	if err != nil {
		return nil, nil, err
	}
	holes, err = e.o.Audit(ctx, ref, now.Add(-auditPeriod), now)
	switch code := task.CodeOf(err); {
	case code == task.CodeUnavailable || ctx.Err() != nil:
		return nil, nil, err
	case code == task.CodeScheduleNotFound: // deleted meanwhile
		return nil, nil, nil
	}
	return holes, err, nil
}
