package why

import (
	"fmt"

	"github.com/dts-sched/dts/internal/task"
)

// TaskNow says in a sentence what a task does now.
func TaskNow(t task.Task) string {
	switch t.State {
	case task.Running:
		if t.Type == task.WorkflowType { // its leader carries it on
			const text = "It runs since %s: attempt %d. What its steps wait for: %s flow why %s."
			return fmt.Sprintf(text, moment(t.StartedAt), t.Attempt, ctl(t.Ref), t.ID)
		}
		return fmt.Sprintf("It runs since %s on the node %s: attempt %d of %d.",
			moment(t.StartedAt), t.Node, t.Attempt, t.MaxAttempts)
	case task.Succeeded:
		return fmt.Sprintf("It has succeeded at %s, in attempt %d of %d.", moment(t.FinishedAt), t.Attempt, t.MaxAttempts)
	case task.Failed:
		text := fmt.Sprintf("It has failed at %s, in attempt %d of %d", moment(t.FinishedAt), t.Attempt, t.MaxAttempts)
		if t.Error != "" {
			text += ": " + t.Error
		}
		return text + "."
	case task.Cancelled:
		text := fmt.Sprintf("It was cancelled at %s", moment(t.FinishedAt))
		if t.Expired() {
			text += fmt.Sprintf(", as no worker had begun it within %s after it was due", t.StartBy)
		}
		return text + "."
	case task.Queued:
		const text = "It waits for a worker since %s: attempt %d of %d.%s"
		return fmt.Sprintf(text, moment(t.QueuedAt), t.Attempt, t.MaxAttempts, startBy(t))
	}
	return fmt.Sprintf("It waits for attempt %d of %d.%s", t.Attempt+1, t.MaxAttempts, startBy(t))
}

// startBy says until when a worker must begin a task; "" if there is no such time.
func startBy(t task.Task) string {
	switch by := t.StartsBy(); {
	case t.StartBy == 0 || !t.Waiting():
		return ""
	case by.IsZero():
		return fmt.Sprintf(" If no worker begins it within %s after it is due, it is cancelled then.", t.StartBy)
	default:
		return fmt.Sprintf(" If no worker begins it by %s, it is cancelled then.", moment(by))
	}
}

// QueueNow says how much waits in a queue, and how much of that nothing holds up; "" if that is not known.
func QueueNow(f QueueFacts) string {
	total := f.total()
	switch {
	case f.PendingUnknown:
		return ""
	case total == 0:
		return "Nothing waits in it."
	}
	text := fmt.Sprintf("%s waiting in it.", tasksAre(total))
	if free := f.free(); free > 0 && free < total {
		text += fmt.Sprintf(" Nothing holds %d of them up.", free)
	}
	return text
}

// ScheduleNow says in a sentence what a schedule has done.
func ScheduleNow(f ScheduleFacts) string {
	s := f.Schedule
	text := fmt.Sprintf("Its ticks are decided up to %s.", moment(s.Cursor))
	switch {
	case s.Live == 1:
		text += " One of its tasks has not ended."
	case s.Live > 1:
		text += fmt.Sprintf(" %d of its tasks have not ended.", s.Live)
	}
	return text
}
