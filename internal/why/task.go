package why

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

// OfTask returns what a task waits for, what must change first at the beginning. One that runs, or has ended, waits for
// nothing, unless it is to stop or its worker is silent.
func OfTask(f TaskFacts) []Reason {
	switch t := f.Task; {
	case t.State.Final():
		return nil
	case t.State == task.Running:
		return f.toEnd()
	case t.Damage != "":
		return []Reason{{
			Code: Unreadable, Detail: "It does not run, as it cannot be read: " + t.Damage + ".",
			Do: "See what is damaged: dtsctl doctor.",
		}}
	case t.State == task.Queued:
		return f.queued()
	case f.misplaced() != nil:
		return f.misplaced()
	case t.DueAt.After(f.Now):
		return f.early()
	}
	reasons := f.orOnItsWay(f.handOver(), f.attended(), f.unmatched(), f.paused(), f.allPaused(), f.limited(), f.busy())
	for i := range reasons {
		if code := reasons[i].Code; code == SlotsTaken || code == Delivery || code == Limited {
			reasons[i].Detail += f.turn()
		}
	}
	return reasons
}

// early is what a task waits for whose time has not come. Slots that are taken now say nothing about that time.
func (f TaskFacts) early() []Reason {
	t := f.Task
	r := Reason{
		Code: NotDue, Since: t.CreatedAt, NextAttemptAt: t.DueAt,
		Detail: fmt.Sprintf("It is due at %s.", moment(t.DueAt)),
		Do:     fmt.Sprintf("Wait, or run it now: %s task change %s --delay 0s.", ctl(t.Ref), t.ID),
	}
	switch {
	case t.Attempt > 0:
		r.Since = f.Last.FinishedAt
		f.further(&r)
	case t.After != "":
		const text = "It waits for the end of %s, which was submitted with the same key, %q, before."
		r.Code, r.NextAttemptAt, r.Detail = SameKey, time.Time{}, fmt.Sprintf(text, t.After, t.Once.Key)
		r.Do = fmt.Sprintf("Wait, or end that task: %s task cancel %s.", ctl(t.Ref), t.After)
	case t.WaitsForAnother():
		const text = "It waits for the end of another task with its key, %q."
		r.Code, r.NextAttemptAt, r.Detail = SameKey, time.Time{}, fmt.Sprintf(text, t.Once.Key)
		r.Do = "Wait: its leader lets it go when that task has ended."
	case t.Once != nil && t.Once.Mode != task.OnceSingleton:
		const text = "Wait: it was submitted with the mode %s of the key %q, which says when it is due."
		r.Do = fmt.Sprintf(text, t.Once.Mode, t.Once.Key)
	}
	return join([]Reason{r}, f.handOver(), f.attended(), f.unmatched(), f.paused())
}

// further says of a reason that it is about a further attempt, and why there is one.
func (f TaskFacts) further(r *Reason) {
	t, due := f.Task, moment(f.Task.DueAt)
	switch f.Last.Outcome {
	case task.OutcomeSnoozed:
		const text = "It asked to run again later: attempt %d is due at %s. Attempt %d does not count"
		r.Detail = fmt.Sprintf(text, t.Attempt+1, due, t.Attempt)
		if t.Error != "" {
			r.Detail += ": " + t.Error
		}
		r.Detail += "."
	case task.OutcomeInterrupted:
		const text = "Attempt %d is due at %s. The worker of attempt %d shut down, so that one does not count."
		r.Detail = fmt.Sprintf(text, t.Attempt+1, due, t.Attempt)
	case task.OutcomeMoved:
		const text = "Attempt %d is due at %s. Attempt %d was given up so that another worker goes on, and does not count."
		r.Detail = fmt.Sprintf(text, t.Attempt+1, due, t.Attempt)
	default:
		r.Code, r.LastError = Retry, t.Error
		r.Detail = fmt.Sprintf("Attempt %d of %d is due at %s. Attempt %d did not succeed: %s.",
			t.Attempt+1, t.MaxAttempts, due, t.Attempt, cmp.Or(t.Error, string(f.Last.Outcome), "nobody knows why"))
	}
}

// queued is what a task waits for that a leader has claimed.
func (f TaskFacts) queued() []Reason {
	switch {
	case f.Place == Taken && f.Blocked == nil:
		return f.orOnItsWay(f.gathered())
	case f.Task.Placed != "":
		return f.placed()
	case f.Place == Pending && f.Blocked == nil: // it needs no leader any more
		return f.orOnItsWay(f.attended(), f.paused(), f.crowded())
	}
	return f.orOnItsWay(f.handOver(), f.attended(), f.paused(), f.crowded())
}

// busy returns whether all slots are taken of the nodes to which the task may go.
func (f TaskFacts) busy() []Reason {
	if f.Task.MovedFrom != "" {
		return f.moved()
	}
	if _, ok := f.reach(); ok {
		return f.occupied()
	}
	return f.crowded()
}

// orOnItsWay joins reasons. If there are none, the task is on its way.
func (f TaskFacts) orOnItsWay(parts ...[]Reason) []Reason {
	if all := join(parts...); len(all) > 0 {
		return all
	}
	r := Reason{Code: Delivery, Since: f.Task.DueAt, Ahead: f.Ahead, Do: "Wait: nothing holds it up."}
	switch {
	case f.Task.State != task.Queued:
		r.Detail = "It is due, and its leader is about to hand it over."
	case f.Place == Taken:
		r.Since = f.Task.QueuedAt
		const text = "%s has taken it, and is about to begin it. If that worker has died, the leader hands it over again."
		r.Detail = fmt.Sprintf(text, taker(f.Task))
	case f.Place == Pending:
		r.Since = f.Task.QueuedAt
		r.Detail = fmt.Sprintf("It is in the queue %q, and a worker is about to take it.", f.Queue)
	default:
		r.Since = f.Task.QueuedAt
		r.Detail = "Its leader has claimed it, and is about to put it into its queue."
	}
	if f.Task.State == task.Queued && !f.LookAt.IsZero() {
		r.Detail += fmt.Sprintf(" The leader looks after it at %s.", moment(f.LookAt))
	}
	return []Reason{r}
}

// taker names who has taken a task from its queue.
func taker(t task.Task) string {
	if t.Placed == "" {
		return "A worker"
	}
	return "The node " + t.Placed
}

// toEnd is what a running task waits for to end: nothing, unless its worker is silent or it was asked to stop or move.
// Its worker extends its lease three times while that lasts.
func (f TaskFacts) toEnd() []Reason {
	var all []Reason
	left := f.LeaseUntil.Sub(f.Now)
	if !f.LeaseUntil.IsZero() && left < f.Lease/3 {
		all = append(all, f.silent())
		if left <= 0 {
			all = append(all, f.handOver()...)
		}
	}
	switch t := f.Task; {
	case t.CancelRequested.IsZero() && !t.MoveRequested.IsZero():
		all = append(all, Reason{
			Code: Moving, Since: t.MoveRequested,
			Detail: fmt.Sprintf("It was asked %sto move%s, and its handler on the node %s has not given it up.",
				by(t.MoveBy), toNode(t.MoveTo), t.Node),
			Do: "Wait. A handler that does not look whether it is asked just goes on.",
		})
	case t.CancelRequested.IsZero():
		all = append(all, f.drained()...)
	case t.Type == task.WorkflowType:
		all = append(all, Reason{
			Code: Stopping, Since: t.CancelRequested,
			Detail: "It was asked to stop, and some of its steps have not ended.",
			Do:     fmt.Sprintf("See which: %s flow why %s.", ctl(t.Ref), t.ID),
		})
	default:
		all = append(all, Reason{
			Code: Stopping, Since: t.CancelRequested,
			Detail: fmt.Sprintf("It was asked to stop, and the node %s has not said that it has stopped.", t.Node),
			Do:     "Wait for the grace period of its node. Then the node kills it.",
		})
	}
	return all
}

// drained says that the node of a running task is drained.
func (f TaskFacts) drained() []Reason {
	for _, w := range f.Workers {
		if w.ID != f.Task.Node || !w.Alive || w.Cordon == nil || !w.Cordon.Drain || f.Task.Type == task.WorkflowType {
			continue
		}
		r := Reason{
			Code: Moving, Since: w.Cordon.Since,
			Detail: fmt.Sprintf("Its node %s is drained%s, and its handler has not given it up.", w.ID, w.Cordon.why()),
			Do:     "Wait. A handler that does not look whether it is asked to move just goes on.",
		}
		if f.Stays {
			const text = "Its node %s is drained%s. Tasks of the type %q cannot move, so it runs there until its end."
			r.Detail = fmt.Sprintf(text, w.ID, w.Cordon.why(), f.Task.Type)
			const do = "Wait, or stop it: %s task cancel %s. If its node stops before, another one begins the next attempt."
			r.Do = fmt.Sprintf(do, ctl(f.Task.Ref), f.Task.ID)
		}
		return []Reason{r}
	}
	return nil
}

// moved says where a task goes that its node has given up.
func (f TaskFacts) moved() []Reason {
	t := f.Task
	if t.MovedFrom == "" {
		return nil
	}
	goes := "any other node that can run it"
	if t.MoveTo != "" {
		goes = "the node " + t.MoveTo
	}
	room := "a free slot"
	if r, _ := f.reach(); r.Holds() > 1 {
		room = fmt.Sprintf("%d free slots", r.Holds())
	}
	const text = "The node %s has given it up. It goes to %s if that has %s within %s, else wherever it may run."
	r := Reason{
		Code: Moving, Since: t.DueAt, Do: "Wait: nothing else holds it up.",
		Detail: fmt.Sprintf(text, t.MovedFrom, goes, room, task.FormatDuration(route.MoveWait)),
	}
	if !t.MoveRequested.IsZero() {
		r.Detail += fmt.Sprintf(" That was asked for %sat %s.", by(t.MoveBy), moment(t.MoveRequested))
	}
	return []Reason{r}
}

// by says who did something, with a blank behind it; "" if nobody knows.
func by(who string) string {
	if who == "" {
		return ""
	}
	return "by " + who + " "
}

// toNode says to which node a task is to go, with a blank before it; "" for any.
func toNode(node string) string {
	if node == "" {
		return ""
	}
	return " to " + node
}

// silent says that the worker of a running task does not answer.
func (f TaskFacts) silent() Reason {
	r := Reason{
		Code: WorkerSilent,
		Detail: fmt.Sprintf("The node %s has not extended its lease of the task, which ends at %s. "+
			"If it does not by then, the leader ends the attempt as lost, and the next one is due at once.",
			f.Task.Node, moment(f.LeaseUntil)),
		Do: "Look at the node: dtsctl node list.",
	}
	for _, w := range f.Workers {
		if w.ID == f.Task.Node && !w.Alive {
			r.Since = w.LastBeat
		}
	}
	return r
}

// ctl is how dtsctl is called for something in a namespace.
func ctl(ref task.Ref) string {
	if ref.Namespace == task.DefaultNamespace {
		return "dtsctl"
	}
	return "dtsctl -n " + ref.Namespace
}

func join(parts ...[]Reason) []Reason {
	var all []Reason
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}
