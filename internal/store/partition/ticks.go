package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Due is the schedules whose ticks have to be planned now.
type Due struct {
	Agendas []Agenda
	Now     time.Time // Redis's time of the read
	Next    time.Time // when the next schedule is due; zero if none is
}

// Agenda is what schedule.MakePlan needs to plan the ticks of one due schedule.
type Agenda struct {
	schedule.Agenda
	Ref      task.Ref
	Queue    string // of its tasks; "" if it was not asked for
	Created  time.Time
	revision int
}

// Due reads up to limit schedules whose ticks have to be planned now, and with queues also the queues of their tasks. It
// postpones an unreadable one by some seconds and goes on. Errors: ErrFenced, CodeUnavailable, or an error of Redis.
func (l *Leader) Due(ctx context.Context, limit int, queues bool) (Due, error) {
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.DueSchedules{
		Lease: l.keys.Lease(), Ticks: l.keys.Ticks(), Fence: l.fence, Limit: limit, Queues: queues,
	})
	if err != nil {
		return Due{}, fenced(err)
	}
	d := Due{Now: reply.Now, Next: reply.Next}
	for _, due := range reply.Due {
		a, err := l.agenda(ctx, due, d.Now)
		if task.CodeOf(err) == task.CodeUnavailable || errors.Is(err, context.Canceled) {
			return Due{}, err // Redis failed; the schedule may be readable
		}
		if err != nil {
			if err := l.skip(ctx, due.Member, err); err != nil {
				return Due{}, err
			}
			continue
		}
		d.Agendas = append(d.Agendas, a)
	}
	return d, nil
}

// unreadablePause is how long an unreadable schedule is left alone, so that it does not hold up the others. Once somebody
// has repaired it, it must tick soon.
const unreadablePause = 5 * time.Second

// ErrDamaged is the result of Fire for a schedule with a damaged key. Nothing was decided, and the schedule is due in some
// seconds.
var ErrDamaged = errors.New("what Redis has of the schedule is damaged")

// skip makes a schedule due in some seconds that cannot be read because of why, which it logs once a minute. Error:
// ErrFenced, or an error of Redis.
func (l *Leader) skip(ctx context.Context, member string, why error) error {
	if l.skipped.Due(member) {
		l.o.Layout.Log.ErrorContext(ctx, "skipping unreadable schedule", "schedule", member, "error", why)
	}
	_, err := redisx.Run(ctx, l.o.Layout.DB, lua.PostponeSchedule{
		Lease: l.keys.Lease(), Ticks: l.keys.Ticks(), Fence: l.fence, Member: member, Delay: unreadablePause,
	})
	return fenced(err)
}

// agenda decodes one due schedule, and reads its history if ticks of an earlier revision are undecided. now is the time of
// Redis.
func (l *Leader) agenda(ctx context.Context, due lua.DueSchedulesDue, now time.Time) (Agenda, error) {
	ref, err := task.ParseRef(due.Member)
	if err != nil {
		return Agenda{}, err
	}
	present, err := codec.DecodeSchedule(ref, map[string]string{
		"def": due.Def, "revision": due.Revision, "cursor": due.Cursor, "from": due.From, "created": due.Created,
		"ended": due.Ended, "paused": due.Paused, "rest": due.Rest, "runs": due.Runs,
	})
	if err != nil {
		return Agenda{}, err
	}
	line, err := l.o.Schedules.Timeline(ctx, present)
	if err != nil {
		return Agenda{}, err
	}
	a := Agenda{Ref: ref, Queue: due.Queue, Created: present.CreatedAt, revision: present.Revision}
	a.Agenda = schedule.Agenda{
		Timeline: line, Present: line[len(line)-1].Table, Misfire: present.Misfire, Cursor: present.Cursor, Now: now,
		LastPause: present.LastPause, Done: !present.EndedAt.IsZero(),
	}
	if until, full := codec.DecodeHeld(due.Held); full != "" {
		a.Held, a.HeldUntil = fmt.Sprintf("held back while the queue %s was full", full), until
	}
	return a, nil
}

// Planned is a plan for a schedule's ticks, and the agenda it was made from.
type Planned struct {
	Agenda Agenda
	Plan   schedule.Plan
	Full   string // the queue at its capacity, for which no tick is decided; "" for none
}

// HoldBack is the plan for a schedule whose queue is full: it decides no tick until later, so only those go on that wait
// for the task before them. When there is room, the misfire policy decides about the others, and the ledger says why
// they were held back, whoever leads then.
func HoldBack(a Agenda) Planned {
	plan := schedule.Plan{Upto: a.Cursor, Next: a.Now.Add(schedule.HoldPause)}
	return Planned{Agenda: a, Plan: plan, Full: a.Queue}
}

// Fired is the result of applying a plan. Err is ErrFenced, schedules.ErrMoved, ErrDamaged, or an error of Redis.
type Fired struct {
	Ticked []Ticked  // in the order of the decisions, ticks that had waited for their turn first
	At     time.Time // Redis's time when the plan was applied
	Err    error
}

// Ticked is a tick and its outcome.
type Ticked struct {
	Name    string
	Outcome schedule.Outcome
}

// Fire applies plans in one round trip and returns a result for each, in order. Each plan is applied by its own run of a
// script, all or nothing: the tasks, the ledger, the schedule's cursor and when the schedule is due next.
func (l *Leader) Fire(ctx context.Context, planned []Planned) []Fired {
	calls := make([]lua.Fire, len(planned))
	for i, p := range planned {
		calls[i] = l.fireCall(p)
	}
	fired := make([]Fired, len(planned))
	for i, result := range redisx.RunEach[lua.FireReply](ctx, l.o.Layout.DB, calls) {
		fired[i] = firedOf(planned[i].Agenda.Ref, result)
		if redisx.IsDamage(fired[i].Err) {
			fired[i].Err = cmp.Or(l.skip(ctx, planned[i].Agenda.Ref.String(), fired[i].Err), ErrDamaged)
		}
	}
	return fired
}

func (l *Leader) fireCall(p Planned) lua.Fire {
	a, plan := p.Agenda, p.Plan
	decisions := make([]lua.FireDecision, len(plan.Decisions))
	for i, d := range plan.Decisions {
		decisions[i] = lua.FireDecision{
			Tick: d.Tick, Name: schedule.TickName(d.Tick), Action: d.Action, Due: d.Due, Delay: d.Delay, Reason: d.Reason,
		}
	}
	return lua.Fire{
		Lease: l.keys.Lease(), Schedule: l.keys.Schedule(a.Ref), Fence: l.fence, Member: a.Ref, Revision: a.revision,
		Cursor: a.Cursor, Upto: plan.Upto, Upcoming: plan.Next, Forgotten: plan.Forgotten, Full: p.Full,
		Events: l.o.Layout.Keys.Events(), Control: l.o.Layout.Keys.Control(), Wake: l.o.Layout.Keys.Wake(l.number), Changes: l.o.Layout.Keys.Changes(),
		Decisions: decisions,
	}
}

func firedOf(ref task.Ref, result redisx.Result[lua.FireReply]) Fired {
	if redisx.RefusedWith(result.Err, lua.CodeChanged) {
		return Fired{Err: fmt.Errorf("schedule %s: %w", ref, schedules.ErrMoved)}
	}
	if result.Err != nil {
		return Fired{Err: fenced(result.Err)}
	}
	f := Fired{At: result.Reply.Now}
	for _, d := range result.Reply.Decided {
		f.Ticked = append(f.Ticked, Ticked(d))
	}
	return f
}
