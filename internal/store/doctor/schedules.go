package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	schedulesPage = 20
	auditPeriod   = time.Hour // of which ledgers are compared with the definitions
)

const (
	unreadable   = "schedule-unreadable"
	notLookedAt  = "schedule-not-looked-at"
	scheduleLost = "schedule-lost"
	liveEnded    = "live-ended"
	ledgerHoles  = "ledger-holes"
	heldBack     = "schedule-held-back"
)

// Where schedules are found: each is examined where it is found first, see examine_schedules.lua.
const (
	ofSchedules = "schedules"
	ofTicks     = "ticks"
	ofOwnKeys   = "keys"
)

var (
	scheduleChecks = []string{unreadable, notLookedAt, "schedule-drift", scheduleLost, "schedule-leftovers"}
	tickChecks     = append([]string{heldBack}, scheduleChecks...)
)

// scheduleCollections are the collections of a partition that have schedules. The pages of the first two lead to what
// schedules have of their own: a ledger, and live ticks, of which there can be 10,000.
func (e *examination) scheduleCollections(p int) []collection {
	db, k := e.o.Layout.DB, e.o.Layout.Keys.Partition(p)
	each := func(name string, checks []string, of func(ref task.Ref) collection) collection {
		look := func(_ context.Context, names []string) ([]collection, error) {
			var inner []collection
			for _, name := range names {
				if ref, err := task.ParseRef(name); err == nil {
					inner = append(inner, of(ref))
				}
			}
			return inner, nil
		}
		return e.leading(name, checks, db.ZScan, string(k.Schedules()), schedulesPage, look)
	}
	return []collection{
		each("ledgers", []string{ledgerHoles}, e.ledger),
		each("live", []string{liveEnded}, func(ref task.Ref) collection { return e.liveTicks(p, ref) }),
		e.pages("schedules", scheduleChecks, db.ZScan, string(k.Schedules()), schedulesPage, func(
			ctx context.Context, names []string,
		) error {
			valid, err := e.dropInvalid(ctx, p, names)
			if err != nil {
				return err
			}
			e.looked(len(names)-len(valid), scheduleChecks...)
			looked, err := e.examineSchedules(ctx, p, ofSchedules, valid)
			e.looked(looked, scheduleChecks...)
			return err
		}),
		e.pages("ticks", tickChecks, db.ZScan, string(k.Ticks()), schedulesPage, func(
			ctx context.Context, names []string,
		) error {
			if _, err := e.examineSchedules(ctx, p, ofTicks, names); err != nil {
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
		if e.found(unreadable, name, "is not a valid name of a schedule") && e.Repair { // there is nothing to put aside
			if err := e.o.Layout.DB.ZRem(ctx, string(k.Schedules()), name).Err(); err != nil {
				return nil, err
			}
		}
	}
	return valid, nil
}

// lookForHeldBack looks for schedules of a partition whose ticks are held back. While no queue has a capacity, none is.
func (e *examination) lookForHeldBack(ctx context.Context, p int, members []string) error {
	if !e.wants(heldBack) {
		return nil
	}
	if e.limits == nil {
		err := e.leavingOut(ctx, func(ctx context.Context) (err error) {
			e.limits, err = e.o.Limits(ctx)
			return err
		}, heldBack)
		if err != nil {
			return err
		}
	}
	if len(e.limits) == 0 {
		e.looked(len(members), heldBack)
		return nil
	}
	looked, err := e.inTurn(ctx, members, schedulesPage, []string{heldBack}, func(some []string) error {
		var held []schedules.HeldBack
		err := e.leavingOut(ctx, func(ctx context.Context) (err error) {
			held, err = e.o.Schedules.HeldBack(ctx, p, some)
			return err
		}, heldBack)
		for _, h := range held {
			if capacity := e.limits[h.Queue]; capacity > 0 {
				const words = "has ticks that are held back since %s: the queue %s is at its capacity, %d"
				e.found(heldBack, h.Ref.String(), fmt.Sprintf(words, h.Since.UTC().Format(time.RFC3339), h.Queue, capacity))
			}
		}
		return err
	})
	e.looked(looked, heldBack)
	return err
}

// examineSchedules examines schedules of a partition, and repairs them. from says where they were found. It returns at
// how many it has looked.
func (e *examination) examineSchedules(
	ctx context.Context, p int, from string, members []string,
) (looked int, _ error) {
	if !e.wants(scheduleChecks...) {
		return 0, nil
	}
	return e.inTurn(ctx, members, schedulesPage, scheduleChecks, func(some []string) error {
		upcoming, err := e.upcoming(ctx, p, some)
		if err != nil {
			return err
		}
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineSchedules{
			Schedules: e.o.Layout.Keys.Partition(p).Schedules(), Checks: e.wanted, Repair: e.Repair, From: from,
			Wake: e.o.Layout.Keys.Wake(p), Members: upcoming,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
}

// readFields are the fields of a schedule that upcoming reads, in the order of READ in examine_schedules.lua.
var readFields = []string{"revision", "cursor", "from", "created", "ended", "def", "task", "runs", "paused"}

// upcoming returns what only the definitions of schedules say, together with the revisions and cursors for which it
// holds: their next ticks, or why they cannot be read. The script takes it for nothing if a schedule has moved on
// meanwhile. Error: one of Redis.
func (e *examination) upcoming(ctx context.Context, p int, members []string) ([]lua.ExamineSchedulesMember, error) {
	all := make([]lua.ExamineSchedulesMember, len(members))
	pipe := e.o.Layout.DB.Pipeline()
	hashes := make([]*redis.SliceCmd, len(members))
	for i, member := range members {
		all[i].Member = member
		if ref, err := task.ParseRef(member); err == nil && e.wants(notLookedAt, unreadable) {
			hashes[i] = pipe.HMGet(ctx, string(e.o.Layout.Keys.Partition(p).Schedule(ref)), readFields...)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, hash := range hashes {
		if hash == nil {
			continue
		}
		values, was := make(map[string]string, len(readFields)), ""
		for k, value := range hash.Val() {
			values[readFields[k]] = codec.Text(value)
			was += codec.Text(value) + "\n"
		}
		all[i].Revision, all[i].Cursor = values["revision"], values["cursor"]
		if err := e.plan(ctx, values, &all[i]); err != nil {
			return nil, err
		}
		if all[i].Broken != "" {
			all[i].Was = was
		}
	}
	return all, nil
}

// plan sets the first tick after the cursor of a schedule with that hash, none if it ticks no more, or why the hash
// cannot be read. Error: one of Redis.
func (e *examination) plan(ctx context.Context, hash map[string]string, member *lua.ExamineSchedulesMember) error {
	ref, err := task.ParseRef(member.Member)
	if err != nil {
		return nil //nolint:nilerr // nothing is to be planned
	}
	present, err := schedules.Decode(ref, hash)
	if err == nil {
		err = compiles(present)
	}
	if err != nil {
		member.Broken = err.Error()
		return nil //nolint:nilerr // the script tells
	}
	if !present.EndedAt.IsZero() || !e.wants(notLookedAt) {
		return nil
	}
	line, err := e.o.Schedules.Timeline(ctx, present)
	if task.CodeOf(err) == task.CodeUnavailable || ctx.Err() != nil {
		return err
	}
	if err != nil { // of its history
		e.notLooked(member.Member+" was not looked at: "+err.Error(), notLookedAt)
		return nil //nolint:nilerr // it is noted
	}
	tick, _ := line.Next(present.Cursor)
	member.Upcoming = tick.At
	return nil
}

// compiles returns an error, with CodeUnreadable, if the ticks of a definition cannot be computed.
func compiles(s schedule.Schedule) error {
	if _, err := schedule.NewTimeline(s, nil); err != nil {
		return task.Errorf(task.CodeUnreadable, "its definition cannot be read: %v", err)
	}
	return nil
}

// liveTicks is the live ticks of a schedule.
func (e *examination) liveTicks(p int, ref task.Ref) collection {
	live := e.o.Layout.Keys.Partition(p).Live(ref)
	return e.pages(ref.String(), []string{liveEnded}, e.o.Layout.DB.ZScan, string(live), examinePage, func(
		ctx context.Context, names []string,
	) error {
		looked, err := e.inTurn(ctx, names, examinePage, []string{liveEnded}, func(some []string) error {
			reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLive{
				Live: live, Checks: e.wanted, Repair: e.Repair, Member: ref, Wake: e.o.Layout.Keys.Wake(p), Names: some,
			})
			for _, f := range reply.Found {
				e.found(f.Check, f.Member, f.Words)
			}
			return err
		})
		e.looked(looked, liveEnded)
		return err
	})
}

// ledger is the ledger of a schedule, as a collection of one page. It is compared with the definitions of the schedule.
// They are read one after the other, so it looks twice before it says that something is missing.
func (e *examination) ledger(ref task.Ref) collection {
	look := func(ctx context.Context, _ uint64) ([]collection, uint64, error) {
		e.entries++
		holes, failure, err := e.compare(ctx, ref)
		if err == nil && (failure != nil || len(holes) > 0) {
			if err := e.lookAgain(ctx); err != nil {
				return nil, 0, err
			}
			holes, failure, err = e.compare(ctx, ref)
		}
		switch {
		case err != nil:
			return nil, 0, err
		case failure != nil:
			e.notLooked(ref.String()+" was not looked at: "+failure.Error(), ledgerHoles)
			return nil, 0, nil //nolint:nilerr // it is noted
		}
		e.looked(1, ledgerHoles)
		for _, words := range holes {
			e.found(ledgerHoles, ref.String(), words)
		}
		return nil, 0, nil
	}
	return collection{name: ref.String(), checks: []string{ledgerHoles}, look: look}
}

// compare compares the ledger of a schedule with its definitions. It returns the holes of the ledger, or why it or the
// schedule cannot be read. Error: CodeUnavailable.
func (e *examination) compare(ctx context.Context, ref task.Ref) (holes []string, failure, _ error) {
	p := e.o.Layout.PartitionOf(ref)
	now, err := e.o.Layout.Now(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	holes, err = e.o.Audit(ctx, ref, now.Add(-auditPeriod), now)
	switch code := task.CodeOf(err); {
	case code == task.CodeUnavailable || ctx.Err() != nil:
		return nil, nil, err
	case code == schedule.CodeNotFound:
		listed := e.o.Layout.DB.ZScore(ctx, string(e.o.Layout.Keys.Partition(p).Schedules()), ref.String()).Err()
		if errors.Is(listed, redis.Nil) { // deleted meanwhile
			return nil, nil, nil
		}
		return nil, cmp.Or(listed, errors.New("its definition is lost")), nil
	}
	return holes, err, nil
}
