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

// keeps says whether a task in that state goes on.
func (tasks DeleteTasks) keeps(s task.State) bool {
	return tasks == DeleteNone || tasks == DeleteWaiting && s == task.Running
}

// Deleted counts what happened to them.
type Deleted struct {
	Cancelled int
	Stopping  int // were running, and were asked to stop
	Left      int // go on
}

// deleteNote is the note of a schedule whose deletion stopped half-way.
const deleteNote = "being deleted"

// deleteChunk is how many tasks a deletion reads at once.
const deleteChunk = 500

// DeleteSchedule deletes a schedule with its ledger and history; tasks says what happens to its tasks. It pauses the
// schedule first, so that no new task comes in between. A deletion that failed half-way may be repeated. A definition that cannot be read goes, too.
// Error: schedule.CodeNotFound.
func (c *Control) DeleteSchedule(ctx context.Context, who Caller, id string, tasks DeleteTasks) (Deleted, error) {
	if _, err := c.begin(ctx, who, "deleteSchedule", who.Ref(id)); err != nil {
		return Deleted{}, err
	}
	for {
		if _, err := c.store.Schedules.Pause(ctx, who.Ref(id), deleteNote, who.By()); err != nil && task.CodeOf(err) != task.CodeUnreadable {
			return Deleted{}, err
		}
		deleted, err := c.endTasks(ctx, who, id, tasks)
		if err != nil {
			return deleted, err
		}
		err = c.store.Schedules.Delete(ctx, who.Ref(id))
		if !errors.Is(err, schedules.ErrNotPaused) { // else somebody has resumed it: once more
			return deleted, err
		}
	}
}

// endTasks cancels those tasks of a schedule that a deletion does not keep.
func (c *Control) endTasks(ctx context.Context, who Caller, id string, tasks DeleteTasks) (Deleted, error) {
	var d Deleted
	unfinished := TaskFilter{
		Namespace: who.Namespace, Schedule: id, States: []task.State{task.Scheduled, task.Queued, task.Running},
	}
	for cursor := ""; ; {
		page, err := c.store.Tasks.List(ctx, unfinished, deleteChunk, cursor)
		if err != nil {
			return d, err
		}
		for _, t := range page.Tasks {
			if tasks.keeps(t.State) {
				d.Left++
				continue
			}
			if err := c.endTask(ctx, who, t.ID, &d); err != nil {
				return d, err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return d, nil
		}
	}
}

// endTask cancels a task, unless it has ended by itself, and counts what happened to it.
func (c *Control) endTask(ctx context.Context, who Caller, id string, d *Deleted) error {
	t, err := c.cancel(ctx, who.By(), who.Ref(id))
	code := task.CodeOf(err)
	switch {
	case err == nil && t.State == task.Running:
		d.Stopping++
	case err == nil:
		d.Cancelled++
	case code != task.CodeFinished && code != task.CodeTaskNotFound:
		return err
	}
	return nil
}
