package control

import (
	"context"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
)

// ScheduleFilter narrows a list of schedules; its namespace is the caller's, which may be EveryNamespace.
type ScheduleFilter = schedules.Filter

// SchedulePage is a part of a list of schedules.
type SchedulePage = schedules.Page

// GetSchedule returns one schedule. Error: schedule.CodeNotFound.
func (c *Control) GetSchedule(ctx context.Context, who Caller, id string) (schedule.Schedule, error) {
	if _, err := c.begin(ctx, who, "getSchedule", who.Ref(id)); err != nil {
		return schedule.Schedule{}, err
	}
	return c.store.Schedules.Get(ctx, who.Ref(id))
}

// ListSchedules returns up to limit schedules, by name, from a cursor on ("": from the start). A page can be shorter
// than limit and not be the last one. The caller's namespace may be EveryNamespace. Error: CodeInvalid for the
// cursor.
func (c *Control) ListSchedules(
	ctx context.Context, who Caller, f ScheduleFilter, limit int, cursor string,
) (SchedulePage, error) {
	if _, err := c.begin(ctx, who, "listSchedules"); err != nil {
		return SchedulePage{}, err
	}
	f.Namespace = who.Namespace
	return c.store.Schedules.List(ctx, f, limit, cursor)
}

// PauseSchedule keeps a schedule from creating tasks; note says why, and an empty one leaves the note as it is.
// Errors: schedule.CodeNotFound, CodeInvalid for the note.
func (c *Control) PauseSchedule(ctx context.Context, who Caller, id, note string) (schedule.Schedule, error) {
	if _, err := c.begin(ctx, who, "pauseSchedule", who.Ref(id)); err != nil {
		return schedule.Schedule{}, err
	}
	if err := checkNote(note); err != nil {
		return schedule.Schedule{}, err
	}
	return c.store.Schedules.Pause(ctx, who.Ref(id), note, who.By())
}

// checkNote checks what somebody says of a pause or of a cancellation. Error: CodeInvalid.
func checkNote(note string) error {
	return task.ValidateLine("note", note, schedule.NoteLimit, "write one line of text")
}

// ResumeSchedule lets a paused schedule create tasks again; the misfire policy decides about the ticks of the pause.
// Error: schedule.CodeNotFound.
func (c *Control) ResumeSchedule(ctx context.Context, who Caller, id string) (schedule.Schedule, error) {
	if _, err := c.begin(ctx, who, "resumeSchedule", who.Ref(id)); err != nil {
		return schedule.Schedule{}, err
	}
	resumed, err := c.store.Schedules.Resume(ctx, who.Ref(id), who.By())
	if err == nil {
		c.store.TellLook(ctx, who.Ref(id))
	}
	return resumed, err
}

// Triggered is a run by hand, and what it replaces.
type Triggered = schedules.Triggered

// TriggerSchedule runs a schedule now, paused or not. The outcome of the returned entry is Triggered, or Queued if the
// overlap policy lets it wait. Errors: schedule.CodeNotFound; schedule.CodeBusy, if the overlap policy refuses it;
// CodeQueueFull; CodeUnavailable while Redis is nearly full; CodeOverloaded. A caller with the Key of an earlier
// request gets its entry.
func (c *Control) TriggerSchedule(ctx context.Context, who Caller, id string) (Triggered, error) {
	return c.trigger(ctx, who, id, false)
}

// PreviewTrigger returns what TriggerSchedule would return, and changes nothing. The name of the run has the time of
// the preview. Errors: those of TriggerSchedule.
func (c *Control) PreviewTrigger(ctx context.Context, who Caller, id string) (Triggered, error) {
	return c.trigger(ctx, who, id, true)
}

func (c *Control) trigger(ctx context.Context, who Caller, id string, dry bool) (Triggered, error) {
	p, err := c.begin(ctx, who, "triggerSchedule", who.Ref(id))
	if err != nil {
		return Triggered{}, err
	}
	defer p.leave()
	s, now, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return Triggered{}, err
	}
	if err := p.room.enter(ctx, s.Task); err != nil {
		return Triggered{}, err
	}
	asker := schedules.Asker{By: who.By(), Key: who.Key}
	if dry {
		return c.store.Schedules.PreviewTrigger(ctx, s.Ref, now, asker)
	}
	run, err := c.store.Schedules.Trigger(ctx, s.Ref, now, asker)
	p.room.taken(0, run.HasTask)
	return run, err
}
