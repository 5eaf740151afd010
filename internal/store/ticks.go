package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// ErrMoved: the schedule is not as it was when the leader looked; it has to look again.
var ErrMoved = errors.New("the schedule has changed in the meantime")

// Due is what a look for schedules that are due brought.
type Due struct {
	Agendas []Agenda
	Now     time.Time // Redis's time of the look
	Next    time.Time // when the next schedule is to be looked at; zero if none waits
}

// Agenda is a schedule whose time has come.
type Agenda struct {
	schedule.Agenda
	Ref      task.Ref
	revision int
}

// dueFields are the fields that due.lua answers of each schedule, behind its name.
var dueFields = []string{"revision", "cursor", "from", "created", "ended", "paused", "rest", "runs", "def"}

// Due reads up to limit schedules that have to be looked at.
func (l *Leader) Due(ctx context.Context, limit int) (Due, error) {
	k := l.s.keys
	reply, err := l.s.db.Run(ctx, l.s.scripts.due, []string{k.lease(l.p), k.ticks(l.p)}, l.fence, limit, k.partition(l.p))
	if err != nil {
		return Due{}, fenced(err)
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 3 {
		return Due{}, fmt.Errorf("unexpected answer of due: %v", reply)
	}
	now, _ := parts[0].(int64)
	list, _ := parts[2].([]any)
	d := Due{Now: fromMS(now), Next: nextOf(parts[1])}
	size := 1 + len(dueFields)
	for i := 0; i+size <= len(list); i += size {
		a, err := l.agenda(ctx, list[i:i+size], d.Now)
		if task.CodeOf(err) == task.CodeUnavailable || errors.Is(err, context.Canceled) {
			return Due{}, err // it is Redis that is at fault, not the schedule
		}
		if err != nil {
			l.s.log.ErrorContext(ctx, "passing over a schedule for a minute", "schedule", text(list[i]), "error", err)
			_, err := l.s.db.Run(ctx, l.s.scripts.postpone, []string{k.lease(l.p), k.ticks(l.p)},
				l.fence, text(list[i]), time.Minute.Milliseconds())
			if err != nil {
				return Due{}, fenced(err)
			}
			continue
		}
		d.Agendas = append(d.Agendas, a)
	}
	return d, nil
}

// agenda reads what due.lua says of one schedule.
func (l *Leader) agenda(ctx context.Context, values []any, now time.Time) (Agenda, error) {
	ref, err := task.ParseRef(text(values[0]))
	if err != nil {
		return Agenda{}, err
	}
	h := make(map[string]string, len(dueFields))
	for i, name := range dueFields {
		h[name] = text(values[i+1])
	}
	is, err := decodeSchedule(ref, h)
	if err != nil {
		return Agenda{}, err
	}
	var older []schedule.Revision
	if is.Cursor.Before(is.UpdatedAt) { // what was due before is decided by the times of an earlier revision
		if older, err = l.s.older(ctx, ref); err != nil {
			return Agenda{}, err
		}
	}
	line, err := schedule.Line(is, older)
	if err != nil {
		return Agenda{}, err
	}
	return Agenda{Ref: ref, revision: is.Revision, Agenda: schedule.Agenda{
		Timeline: line, Present: line[len(line)-1].Table, Misfire: is.Misfire, Cursor: is.Cursor, Now: now, Rest: is.Rest,
		Done: !is.EndedAt.IsZero(),
	}}, nil
}

// Planned is what a leader has decided about a schedule.
type Planned struct {
	Agenda Agenda
	Plan   schedule.Plan
}

// Fired is what came of it. Err is ErrFenced, ErrMoved, or what Redis says.
type Fired struct {
	Ticked []Ticked
	At     time.Time // Redis's time of it
	Err    error
}

// Ticked is what became of one tick.
type Ticked struct {
	Name    string
	Outcome schedule.Outcome
}

// Fire makes plans so, in one round trip, each by a script of its own: the tasks, the ledger, the schedule's cursor and
// the time of the next look, all at once. It answers for each plan, in order, what became of its ticks, and of one that
// had waited for its turn.
func (l *Leader) Fire(ctx context.Context, planned []Planned) []Fired {
	calls := make([]redisx.Call, len(planned))
	for i, p := range planned {
		calls[i] = l.fireCall(p.Agenda, p.Plan)
	}
	fired := make([]Fired, len(planned))
	for i, reply := range l.s.db.RunEach(ctx, l.s.scripts.fire, calls) {
		fired[i] = parseFired(planned[i].Agenda.Ref, reply)
	}
	return fired
}

func (l *Leader) fireCall(a Agenda, plan schedule.Plan) redisx.Call {
	k := l.s.keys
	next, forgotten := "", ""
	if !plan.Next.IsZero() {
		next = strconv.FormatInt(plan.Next.UnixMilli(), 10)
	}
	if !plan.Forgotten.IsZero() {
		forgotten = strconv.FormatInt(plan.Forgotten.UnixMilli(), 10)
	}
	return redisx.Call{
		Keys: []string{k.lease(l.p), k.schedule(l.p, a.Ref)},
		Args: []any{
			l.fence, a.Ref.String(), a.revision, a.Cursor.UnixMilli(), plan.Upto.UnixMilli(), next, decisionLines(plan), forgotten,
			schedule.WaitingLimit, schedule.LedgerLimit, a.Now.Add(-schedule.LedgerHorizon).UnixMilli(), k.events(), k.control(), k.wake(),
		},
	}
}

func parseFired(ref task.Ref, reply redisx.Reply) Fired {
	if redisx.RefusedWith(reply.Err, "CHANGED") {
		return Fired{Err: fmt.Errorf("schedule %s: %w", ref, ErrMoved)}
	}
	if reply.Err != nil {
		return Fired{Err: fenced(reply.Err)}
	}
	parts, _ := reply.Value.([]any)
	if len(parts) == 0 {
		return Fired{Err: fmt.Errorf("unexpected answer of fire: %v", reply.Value)}
	}
	now, _ := parts[0].(int64)
	f := Fired{At: fromMS(now)}
	for i := 1; i+1 < len(parts); i += 2 {
		f.Ticked = append(f.Ticked, Ticked{Name: text(parts[i]), Outcome: schedule.Outcome(text(parts[i+1]))})
	}
	return f
}

// decisionLines writes decisions as fire.lua reads them.
func decisionLines(plan schedule.Plan) string {
	var b strings.Builder
	for _, d := range plan.Decisions {
		fmt.Fprintf(&b, "%d %s %s %d %d %s\n", d.Tick.UnixMilli(), schedule.TickName(d.Tick), d.Action, d.Due.UnixMilli(),
			d.Delay.Milliseconds(), d.Reason)
	}
	return b.String()
}
