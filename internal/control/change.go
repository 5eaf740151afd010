package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// TaskChange is what to change of a task that waits. Nil fields stay as they are.
type TaskChange struct {
	RunAt      *time.Time
	Delay      *time.Duration // from now, by the time of Redis; not together with RunAt
	Queue      *string
	Payload    json.RawMessage
	Priority   *int
	FairKey    *string // another one has the weight 1, unless FairWeight names one; "" removes it
	FairWeight *int    // from 1 on
	LimitKey   *string // "" removes it
	Cost       *int    // from 1 on
	Slots      *int
	Select     *string // "" removes it
	Prefer     *[]route.Wish
	Route      *route.Route // with the RouteKey; the zero value removes it
	RouteKey   string
}

// ChangeTask changes a task that waits for its time or for a worker. Errors: CodeTaskNotFound, CodeNotWaiting,
// CodeInvalid, CodeChanged if somebody else changed it at the same moment, and CodeUnreadable if its definition, state
// or payload cannot be read; the payload may be unreadable if the change has another one.
func (c *Control) ChangeTask(ctx context.Context, who Caller, id string, change TaskChange) (task.Task, error) {
	if _, err := c.begin(ctx, who, "changeTask", who.Ref(id)); err != nil {
		return task.Task{}, err
	}
	if err := refuseStep(who.Ref(id), "its definition says what it is"); err != nil {
		return task.Task{}, err
	}
	t, err := c.store.Tasks.Find(ctx, who.Ref(id))
	if err != nil {
		return task.Task{}, err
	}
	if t.Type == "" || t.State == task.Unreadable || t.Damage != "" && change.Payload == nil {
		return task.Task{}, task.Errorf(task.CodeUnreadable, "task %q cannot be changed: %s", t.ID, t.Damage)
	}
	changed := change.apply(t.Definition)
	if changed.Reach, changed.RouteKey, err = change.reach(t.Definition); err != nil {
		return task.Task{}, err
	}
	changed = changed.Normalize()
	if err := c.checkTask(ctx, changed); err != nil {
		return task.Task{}, err
	}
	recalled := 0
	if t.State == task.Queued {
		recalled = t.Attempt
	}
	due := tasks.NewDue{RunAt: change.RunAt, Delay: change.Delay}
	got, err := c.store.Tasks.Change(ctx, t.Definition, changed, due, recalled)
	if err == nil && recalled > 0 {
		c.forgetDelivery(ctx, t) // in the queue in which it was until now
	}
	return got, err
}

// apply returns the definition with the change in it.
func (change TaskChange) apply(d task.Definition) task.Definition {
	if change.RunAt != nil || change.Delay != nil { // Validate refuses both together, as in a submission
		d.RunAt, d.Delay = time.Time{}, 0
	}
	if change.RunAt != nil {
		d.RunAt = *change.RunAt
	}
	if change.Delay != nil {
		d.Delay = *change.Delay
	}
	if change.Queue != nil {
		d.Queue = *change.Queue
	}
	if change.Payload != nil {
		d.Payload = change.Payload
	}
	if change.Priority != nil {
		d.Priority = *change.Priority
	}
	if change.FairKey != nil && *change.FairKey != d.FairKey { // the weight was that of the key before
		d.FairKey, d.FairWeight = *change.FairKey, 0
	}
	if change.FairWeight != nil {
		d.FairWeight = *change.FairWeight
	}
	if change.LimitKey != nil {
		d.LimitKey = *change.LimitKey
	}
	if change.Cost != nil {
		d.Cost = *change.Cost
	}
	return d
}

// reach returns where the task may run with the change in it. Errors: CodeInvalid, and CodeUnreadable if it cannot be
// read where it may run now, and the change does not replace all of it.
func (change TaskChange) reach(d task.Definition) (reach, key string, _ error) {
	if change.Select == nil && change.Prefer == nil && change.Route == nil && change.Slots == nil {
		return d.Reach, d.RouteKey, nil
	}
	spec, err := route.SpecOf(d.Reach, d.RouteKey)
	if err != nil && (change.Select == nil || change.Prefer == nil || change.Route == nil) {
		return "", "", task.Errorf(task.CodeUnreadable,
			"task %q cannot be changed: where it may run cannot be read; give select, prefer and route together", d.ID)
	}
	if change.Select != nil {
		spec.Select = *change.Select
	}
	if change.Prefer != nil {
		spec.Prefer = *change.Prefer
	}
	if change.Route != nil {
		spec.Route, spec.Key = *change.Route, change.RouteKey
	}
	if change.Slots != nil {
		spec.Slots = *change.Slots
	}
	changed, err := spec.Reach()
	return changed.String(), spec.Key, err
}
