package control

import (
	"context"
	"errors"

	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
)

// DeleteTasks says what happens to those tasks of a deleted schedule that have not ended.
type DeleteTasks string

// What can happen to them.
const (
	DeleteWaiting DeleteTasks = "waiting" // those that are not running are cancelled; running ones go on
	DeleteAll     DeleteTasks = "all"     // running ones are asked to stop as well
	DeleteNone    DeleteTasks = "none"    // all go on
)

// TaskFate is what happens to a task of a deleted schedule that has not ended.
type TaskFate string

// The fates.
const (
	TaskCancelled TaskFate = "cancelled" // it was not running
	TaskStopping  TaskFate = "stopping"  // it was running, and was asked to stop
	TaskLeft      TaskFate = "left"      // it goes on
)

// fate says what happens to a task in that state.
func (tasks DeleteTasks) fate(s task.State) TaskFate {
	switch {
	case tasks == DeleteNone, tasks == DeleteWaiting && s == task.Running:
		return TaskLeft
	case s == task.Running:
		return TaskStopping
	}
	return TaskCancelled
}

// Deleted says what happened to them.
type Deleted struct {
	Cancelled int
	Stopping  int
	Left      int
	Waiting   int           // ticks that waited for their turn, and get no task
	Examples  []DeletedTask // the first 10 tasks
}

// DeletedTask is a task of a deleted schedule.
type DeletedTask struct {
	ID    string
	State task.State // before
	Fate  TaskFate
}

// deletedExamples is how many examples a Deleted has at most.
const deletedExamples = 10

// note counts what happened to a task.
func (d *Deleted) note(t task.Task, fate TaskFate) {
	switch fate {
	case TaskCancelled:
		d.Cancelled++
	case TaskStopping:
		d.Stopping++
	case TaskLeft:
		d.Left++
	}
	if len(d.Examples) < deletedExamples {
		d.Examples = append(d.Examples, DeletedTask{t.ID, t.State, fate})
	}
}

// deleteNote is the note of a schedule whose deletion stopped half-way.
const deleteNote = "being deleted"

// deleteChunk is how many tasks a deletion reads at once.
const deleteChunk = 500

// DeleteSchedule deletes a schedule with its ledger and history; tasks says what happens to its tasks. It pauses the
// schedule first, so that no new task comes in between. A deletion that failed half-way may be repeated. A definition
// that cannot be read goes, too. Error: schedule.CodeNotFound.
func (c *Control) DeleteSchedule(ctx context.Context, who Caller, id string, tasks DeleteTasks) (Deleted, error) {
	if _, err := c.begin(ctx, who, "deleteSchedule", who.Ref(id)); err != nil {
		return Deleted{}, err
	}
	for {
		paused, err := c.store.Schedules.Pause(ctx, who.Ref(id), deleteNote, who.By())
		if err != nil && task.CodeOf(err) != task.CodeUnreadable {
			return Deleted{}, err
		}
		deleted := Deleted{Waiting: paused.Waiting}
		err = c.eachUnfinished(ctx, who.Ref(id), func(t task.Task) error {
			return c.endTask(ctx, who, t, tasks.fate(t.State), &deleted)
		})
		if err != nil {
			return deleted, err
		}
		err = c.store.Schedules.Delete(ctx, who.Ref(id), who.By())
		if !errors.Is(err, schedules.ErrNotPaused) { // else somebody has resumed it: once more
			return deleted, err
		}
	}
}

// PreviewDelete returns what DeleteSchedule would return, and changes nothing. Errors: those of DeleteSchedule.
func (c *Control) PreviewDelete(ctx context.Context, who Caller, id string, tasks DeleteTasks) (Deleted, error) {
	if _, err := c.begin(ctx, who, "deleteSchedule", who.Ref(id)); err != nil {
		return Deleted{}, err
	}
	s, _, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err == nil {
		s, err = c.store.Schedules.CountTasks(ctx, s)
	}
	if err != nil && task.CodeOf(err) != task.CodeUnreadable {
		return Deleted{}, err
	}
	deleted := Deleted{Waiting: s.Waiting}
	err = c.eachUnfinished(ctx, who.Ref(id), func(t task.Task) error {
		deleted.note(t, tasks.fate(t.State))
		return nil
	})
	return deleted, err
}

// eachUnfinished calls do with the tasks of a schedule that have not ended.
func (c *Control) eachUnfinished(ctx context.Context, ref task.Ref, do func(task.Task) error) error {
	unfinished := TaskFilter{
		Namespace: ref.Namespace, Schedule: ref.ID, States: []task.State{task.Scheduled, task.Queued, task.Running},
	}
	for cursor := ""; ; {
		page, err := c.store.Listing.List(ctx, unfinished, deleteChunk, cursor)
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			if err := do(t); err != nil {
				return err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

// endTask ends a task as it is meant to, unless it has ended by itself, and notes what happened to it.
func (c *Control) endTask(ctx context.Context, who Caller, t task.Task, meant TaskFate, d *Deleted) error {
	if meant == TaskLeft {
		d.note(t, meant)
		return nil
	}
	ended, err := c.cancel(ctx, who.By(), t.Ref)
	code := task.CodeOf(err)
	switch {
	case err == nil && ended.State == task.Running:
		d.note(t, TaskStopping)
	case err == nil:
		d.note(t, TaskCancelled)
	case code != task.CodeFinished && code != task.CodeTaskNotFound:
		return err
	}
	return nil
}
