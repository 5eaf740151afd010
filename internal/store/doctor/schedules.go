package doctor

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	schedulesPage = 20
	auditPeriod   = time.Hour // of which ledgers are compared with the definitions
)

const (
	unreadable  = "schedule-unreadable"
	liveEnded   = "live-ended"
	ledgerHoles = "ledger-holes"
)

var scheduleChecks = []string{unreadable, "schedule-not-looked-at", "schedule-drift", "schedule-leftovers"}

// scheduleRooms are the rooms of a partition that have schedules.
func (e *examination) scheduleRooms(p int) []room {
	db, k := e.o.Layout.DB, e.o.Layout.Keys.Partition(p)
	all := append([]string{liveEnded, ledgerHoles}, scheduleChecks...)
	return []room{
		e.pageRoom("schedules", all, db.ZScan, string(k.Schedules()), schedulesPage, func(ctx context.Context, names []string) error {
			e.looked(len(names), scheduleChecks...)
			if err := e.examineSchedules(ctx, p, names); err != nil {
				return err
			}
			return e.eachSchedule(ctx, p, names)
		}),
		e.pageRoom("ticks", scheduleChecks, db.ZScan, string(k.Ticks()), schedulesPage, func(ctx context.Context, names []string) error {
			return e.examineSchedules(ctx, p, names)
		}),
	}
}

// examineSchedules examines schedules of a partition, and repairs them.
func (e *examination) examineSchedules(ctx context.Context, p int, members []string) error {
	if len(members) == 0 {
		return nil
	}
	reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineSchedules{
		Schedules: e.o.Layout.Keys.Partition(p).Schedules(), Checks: e.wanted, Repair: e.Repair, Wake: e.o.Layout.Keys.Wake(p), Members: members,
	})
	for _, f := range reply.Found {
		e.found(f.Check, f.Member, f.Words)
	}
	return err
}

// eachSchedule looks at what schedules have of their own: live ticks and a ledger.
func (e *examination) eachSchedule(ctx context.Context, p int, members []string) error {
	var refs []task.Ref
	for _, member := range members {
		ref, err := task.ParseRef(member)
		if err != nil {
			e.found(unreadable, member, "is no name")
			continue
		}
		refs = append(refs, ref)
	}
	if e.wants(liveEnded) {
		for _, ref := range refs {
			if err := e.examineLive(ctx, p, ref); err != nil {
				return err
			}
		}
	}
	if e.wants(ledgerHoles, unreadable) {
		return e.audit(ctx, refs)
	}
	return nil
}

// examineLive examines the live ticks of a schedule, and repairs them.
func (e *examination) examineLive(ctx context.Context, p int, ref task.Ref) error {
	live := e.o.Layout.Keys.Partition(p).Live(ref)
	for from, first := uint64(0), true; first || from != 0; first = false {
		names, next, err := e.page(ctx, e.o.Layout.DB.ZScan, string(live), from, examinePage)
		if err != nil {
			return err
		}
		if from = next; len(names) == 0 {
			continue
		}
		e.looked(len(names), liveEnded)
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLive{
			Live: live, Checks: e.wanted, Repair: e.Repair, Member: ref, Wake: e.o.Layout.Keys.Wake(p), Names: names,
		})
		if err != nil {
			return err
		}
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
	}
	return nil
}

// audit compares the ledgers of schedules with their definitions. It reads them one after the other, so it looks twice before it says that
// something is missing.
func (e *examination) audit(ctx context.Context, refs []task.Ref) error {
	e.looked(len(refs), ledgerHoles)
	suspects, err := e.compare(ctx, refs, func(task.Ref, error, []string) {})
	if err != nil || len(suspects) == 0 {
		return err
	}
	if err := clock.Sleep(ctx, secondLook); err != nil {
		return err
	}
	_, err = e.compare(ctx, suspects, func(ref task.Ref, err error, holes []string) {
		if err != nil {
			e.found(unreadable, ref.String(), "cannot be read: "+err.Error())
		}
		for _, words := range holes {
			e.found(ledgerHoles, ref.String(), words)
		}
	})
	return err
}

// compare compares the ledgers of schedules with their definitions. It returns those that cannot be read, or whose ledgers have holes, and
// calls tell for each of them. Error: CodeUnavailable.
func (e *examination) compare(ctx context.Context, refs []task.Ref, tell func(task.Ref, error, []string)) ([]task.Ref, error) {
	var suspects []task.Ref
	for _, ref := range refs {
		now, err := e.o.Layout.Now(ctx, e.o.Layout.PartitionOf(ref))
		if err != nil {
			return nil, err
		}
		holes, err := e.o.Audit(ctx, ref, now.Add(-auditPeriod), now)
		switch code := task.CodeOf(err); {
		case code == task.CodeUnavailable || ctx.Err() != nil:
			return nil, err
		case code == task.CodeScheduleNotFound: // deleted meanwhile
		case err != nil || len(holes) > 0:
			suspects = append(suspects, ref)
			tell(ref, err, holes)
		}
	}
	return suspects, nil
}
