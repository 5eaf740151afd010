package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// OfSchedule returns what the next tick of a schedule waits for, what must change first at the beginning.
func OfSchedule(f ScheduleFacts) []Reason {
	s := f.Schedule
	all := f.stopped()
	if !f.WaitsTick.IsZero() {
		all = append(all, f.overlap())
	}
	if !s.EndedAt.IsZero() || f.Next.IsZero() && len(all) == 0 { // its leader is about to end it
		return append(all, f.ended())
	}
	if len(all) == 0 {
		all = f.next()
	}
	return join(all, f.attended(), f.paused())
}

// stopped says that the schedule is paused.
func (f ScheduleFacts) stopped() []Reason {
	s := f.Schedule
	if s.PausedAt.IsZero() {
		return nil
	}
	resume := fmt.Sprintf("%s schedule resume %s. %s", ctl(s.Ref), s.ID, s.Misfire.AfterPause())
	if s.PausedItself() {
		return []Reason{{
			Code: PausedByFailures, Since: s.PausedAt, LastError: s.PauseNote,
			Detail: fmt.Sprintf("The schedule has paused itself: %d tasks in a row failed.", s.Failures),
			Do: fmt.Sprintf("See why they failed: %s task list --schedule %s --state failed. Then resume it: %s",
				ctl(s.Ref), s.ID, resume),
		}}
	}
	r := Reason{Code: SchedulePaused, Since: s.PausedAt, Detail: "The schedule is paused", Do: "Resume it: " + resume}
	if s.PausedBy != "" {
		r.Detail += ", by " + s.PausedBy
	}
	if s.PauseNote != "" {
		r.Detail += ". The note says: " + strings.TrimSuffix(s.PauseNote, ".")
	}
	r.Detail += "."
	return []Reason{r}
}

// overlap says for which task a tick waits.
func (f ScheduleFacts) overlap() Reason {
	s := f.Schedule
	r := Reason{
		Code: Overlap, Since: f.WaitsTick,
		Detail: fmt.Sprintf("The tick of %s waits, by the overlap policy %s.", moment(f.WaitsTick), s.Overlap),
		Do:     "Wait: it goes on at once when no task of the schedule is left.",
	}
	if ahead := s.Live; ahead > 0 {
		r.Ahead = &ahead
	}
	if f.Live != "" {
		r.Detail = fmt.Sprintf("The tick of %s waits until the task %s has ended, by the overlap policy %s.",
			moment(f.WaitsTick), f.Live, s.Overlap)
		r.Do = fmt.Sprintf("See what that task does: %s task why %s.", ctl(s.Ref), f.Live)
	}
	return r
}

// ended says why there is no further tick.
func (f ScheduleFacts) ended() Reason {
	s := f.Schedule
	r := Reason{
		Code: Ended, Since: s.EndedAt, Detail: "The schedule has ended: its definition has no further tick.",
		Do: fmt.Sprintf("Nothing, or give it new times: %s schedule put %s.", ctl(s.Ref), s.ID),
	}
	switch {
	case s.MaxRuns > 0 && s.Runs >= s.MaxRuns:
		r.Detail = fmt.Sprintf("The schedule has ended: its max_runs is %d.", s.MaxRuns)
	case !s.EndAt.IsZero() && !s.EndAt.After(f.Now):
		r.Detail = fmt.Sprintf("The schedule has ended: its end_at is %s.", moment(s.EndAt))
	}
	if s.Runs == 0 {
		r.Detail += " No tick of it ever ran."
	}
	return r
}

// next is what the next tick of a schedule waits for that is not paused, and none of whose ticks waits for a task.
func (f ScheduleFacts) next() []Reason {
	if f.Next.After(f.Now) {
		return join([]Reason{{
			Code: NotDue, Since: f.Schedule.Cursor, NextAttemptAt: f.Next,
			Detail: fmt.Sprintf("The next tick is at %s.", moment(f.Next)),
			Do:     f.waitOrTrigger(),
		}}, f.handOver())
	}
	all := f.handOver()
	if f.Crowded {
		all = append(all, Reason{
			Code:   RedisFull,
			Detail: "Redis is almost full, so its leader holds ticks back. The misfire policy decides about them later.",
			Do:     "Free memory, or raise maxmemory of Redis. See how full it is: dtsctl doctor.",
		})
	}
	if f.Full {
		all = append(all, f.full(f.Next))
	}
	if len(all) > 0 {
		return all
	}
	return []Reason{{
		Code: Delivery, Since: f.Next,
		Detail: fmt.Sprintf("The tick of %s is due, and its leader is about to decide it.", moment(f.Next)),
		Do:     "Wait: nothing holds it up.",
	}}
}

// waitOrTrigger is what to do until the next tick of a schedule that is not paused, and none of whose ticks waits. The
// overlap policy decides what a run by hand does meanwhile: see lua/trigger_schedule.lua.
func (f ScheduleFacts) waitOrTrigger() string {
	s := f.Schedule
	trigger := fmt.Sprintf("%s schedule trigger %s.", ctl(s.Ref), s.ID)
	overlap := s.EffectiveOverlap()
	switch {
	case s.Live == 0:
		return "Wait, or run it now: " + trigger
	case overlap == schedule.OverlapSkip && f.Live != "":
		return fmt.Sprintf("Wait. The overlap policy skip refuses a run by hand until the task %s has ended. "+
			"Or cancel that task: %s task cancel %s. Then run it now: %s", f.Live, ctl(s.Ref), f.Live, trigger)
	case overlap == schedule.OverlapAllow && s.Live >= schedule.LiveLimit:
		return fmt.Sprintf("Wait. It cannot be run by hand before one of its %d tasks has ended. "+
			"See them: %s task list --schedule %s.", s.Live, ctl(s.Ref), s.ID)
	case overlap == schedule.OverlapReplace:
		return "Wait, or run it now, which cancels its tasks that have not ended: " + trigger
	case overlap == schedule.OverlapQueue:
		return "Wait, or run it when its tasks have ended: " + trigger
	}
	return "Wait, or run it now: " + trigger
}

// BesideSchedule returns what does not hold up the next tick of a schedule, and may need somebody: that a task fails,
// and is tried again.
func BesideSchedule(f ScheduleFacts) []Reason {
	again, s := f.Retry, f.Schedule
	if again.Task == "" {
		return nil
	}
	r := Reason{
		Code: Retry, Since: again.EndedAt, NextAttemptAt: again.DueAt, LastError: again.Error,
		Detail: fmt.Sprintf("The next attempt of the task %s has begun, or waits for a worker.", again.Task),
		Do:     fmt.Sprintf("See what the task does: %s task why %s.", ctl(s.Ref), again.Task),
	}
	if !again.DueAt.IsZero() {
		r.Detail = fmt.Sprintf("The task %s tries again at %s.", again.Task, moment(again.DueAt))
	}
	r.Detail += fmt.Sprintf(" Attempt %d did not succeed: %s.", again.Attempts, strings.TrimSuffix(again.Error, "."))
	if again.Outdated {
		r.Detail += " " + upper(outdated(again)) + "."
		r.Do = fmt.Sprintf("Cancel the task: %s task cancel %s. Then trigger the schedule: %s schedule trigger %s.",
			ctl(s.Ref), again.Task, ctl(s.Ref), s.ID)
	}
	return []Reason{r}
}

// OutdatedTask warns that a task still runs by an earlier definition of the schedule, as warnings are written; "" if
// none is known that does.
func OutdatedTask(s schedule.Schedule, again schedule.Retry) string {
	if !again.Outdated {
		return ""
	}
	return fmt.Sprintf("%s: cancel it (%s task cancel %s), then trigger the schedule (%s schedule trigger %s)",
		outdated(again), ctl(s.Ref), again.Task, ctl(s.Ref), s.ID)
}

func outdated(again schedule.Retry) string {
	of := "an earlier revision"
	if again.Revision > 0 {
		of = fmt.Sprintf("revision %d", again.Revision)
	}
	return "a task of " + of + " still tries again with the old definition"
}

// upper is a sentence with a great first letter.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// full says that the queue of a tick is at its capacity.
func (f ScheduleFacts) full(tick time.Time) Reason {
	r := f.atCapacity()
	r.Since = tick
	r.Detail += fmt.Sprintf(" Ticks from %s on are held back until it has room.", moment(tick))
	return r
}

// atCapacity says that a queue is at its capacity.
func (p Path) atCapacity() Reason {
	return Reason{
		Code: QueueFull, Ahead: p.Ahead,
		Detail: fmt.Sprintf("The queue %q is at its capacity of waiting tasks (%d).", p.Queue, p.Capacity),
		Do: fmt.Sprintf("See why they wait: dtsctl queue why %s. Or raise the capacity: dtsctl queue capacity %s N.",
			p.Queue, p.Queue),
	}
}
