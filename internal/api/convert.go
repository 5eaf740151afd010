package api

import (
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

func parseTime(field, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, task.Invalid(field, "%q is not a time such as 2026-01-02T15:04:05Z", s)
	}
	return definition.Moment(wire.Time{Time: t}), nil
}

// reader collects the times and durations of a request, and the errors among them.
type reader struct{ err error }

func (r *reader) time(field, s string) time.Time {
	t, err := parseTime(field, s)
	r.note(err)
	return t
}

// span reads a duration for which 0 stands for the default, so that nobody can ask for it.
func (r *reader) span(field, s string) time.Duration {
	d, err := task.ParseSpan(field, s)
	r.note(err)
	return d
}

func (r *reader) duration(field, s string) time.Duration {
	d, err := task.ParseDuration(field, s)
	r.note(err)
	return d
}

func (r *reader) note(err error) {
	r.err = task.Join(r.err, err)
}

// changeOf is what a PATCH asks for.
func changeOf(in wire.TaskChange) (control.TaskChange, error) {
	var r reader
	out := control.TaskChange{Payload: in.Payload}
	if in.RunAt != nil {
		out.RunAt = new(definition.Moment(*in.RunAt))
	}
	if in.Delay != nil {
		out.Delay = new(r.duration("delay", *in.Delay))
	}
	out.Queue, out.Priority, out.FairKey, out.FairWeight = in.Queue, in.Priority, in.FairKey, in.FairWeight
	out.LimitKey, out.Cost, out.Slots, out.Select = in.LimitKey, in.Cost, in.Slots, in.Select
	if in.Prefer != nil {
		out.Prefer = new(definition.Wishes(*in.Prefer))
	}
	if in.Route != nil {
		by, key := definition.Route(*in.Route)
		out.Route, out.RouteKey = &by, key
	}
	return out, r.err
}

func statesOf(in wire.States) []task.State {
	out := make([]task.State, len(in))
	for i, s := range in {
		out[i] = task.State(s)
	}
	return out
}

// TaskOf is a task as the API shows it: with the defaults that apply to it filled in. types tells the timeout of a task that
// names none.
func TaskOf(t task.Task, types task.Types) wire.Task {
	out := wire.Task{
		ID:                t.ID,
		Namespace:         t.Namespace,
		Type:              t.Type,
		Queue:             queueName(t.Queue),
		State:             wire.State(t.State),
		Attempt:           t.Attempt,
		MaxAttempts:       t.MaxAttempts,
		CreatedAt:         wire.At(t.CreatedAt),
		QueuedAt:          wire.AtIfAny(t.QueuedAt),
		StartedAt:         wire.AtIfAny(t.StartedAt),
		FinishedAt:        wire.AtIfAny(t.FinishedAt),
		CancelRequestedAt: wire.AtIfAny(t.CancelRequested),
		MoveRequestedAt:   wire.AtIfAny(t.MoveRequested),
		MoveRequestedBy:   wire.Given(t.MoveBy),
		MoveTo:            wire.Given(t.MoveTo),
		Node:              wire.Given(t.Node),
		Progress:          t.Progress,
		ProgressNote:      wire.Given(t.ProgressNote),
		Checkpoint:        t.Checkpoint,
		Result:            wire.Given(t.Result),
		Error:             wire.Given(t.Error),
		Payload:           t.Payload,
		Owner:             wire.Given(t.Owner),
		Labels:            wire.LabelsOf(t.Labels),
		OnEnd:             definition.FollowUp(t.OnEnd),
		Parent:            definition.Parent(t.Parent),
		Once:              definition.Once(t.Once),
		Priority:          wire.Given(t.Priority),
		FairKey:           wire.Given(t.FairKey),
		FairWeight:        wire.Given(t.FairWeight),
		LimitKey:          wire.Given(t.LimitKey),
		Cost:              wire.Given(t.Cost),
		Damage:            wire.Given(t.Damage),
	}
	out.Select, out.Prefer, out.Route, out.Slots = definition.Reach(t.Definition)
	if !t.WaitsForAnother() {
		out.RunAt = wire.At(t.DueAt)
	}
	if out.Once != nil {
		out.Once.After = wire.Given(t.After)
	}
	if t.Type != "" { // else nobody knows its definition
		out.Timeout, out.Retry = task.FormatDuration(types.Timeout(t.Definition)), wire.Value(definition.Retry(t.Policy()))
	}
	if t.Retention > 0 {
		out.Retention = definition.Span(t.Retention)
	}
	out.StartBy = definition.Span(t.StartBy)
	if id, name, ok := schedule.OfTask(t.Ref); ok {
		tick, _, _ := schedule.ParseTickName(name) // zero, and so left out, if it is none
		out.Schedule, out.Tick = &id, wire.AtIfAny(tick)
	}
	return out
}

// queueName is the queue of a task, "" for a run of a workflow: no client can name what that goes through.
func queueName(queue string) string {
	if queue == task.WorkflowQueue {
		return ""
	}
	return queue
}

func attemptOf(a task.Attempt) wire.Attempt {
	return wire.Attempt{
		Number: a.Number, Node: a.Node, StartedAt: wire.At(a.StartedAt), FinishedAt: wire.AtIfAny(a.FinishedAt),
		Outcome: wire.Given(wire.Outcome(a.Outcome)), Error: wire.Given(a.Error),
	}
}

func lineOf(l task.LogLine) wire.LogLine {
	return wire.LogLine{Cursor: l.Cursor, Attempt: l.Attempt, Stream: l.Stream, At: wire.At(l.At), Text: l.Text}
}

func eventOf(e task.Event) wire.Event {
	out := wire.Event{
		Type: e.Type, Namespace: e.Ref.Namespace, Task: e.Ref.ID, State: wire.State(e.State), Attempt: e.Attempt,
		Node: wire.Given(e.Node), At: wire.At(e.At), Queue: queueName(e.Queue), TaskType: e.TaskType, Owner: wire.Given(e.Owner),
		RunAt: wire.AtIfAny(e.DueAt), Error: wire.Given(e.Error),
	}
	if e.Type == progressEvent {
		out.Progress, out.ProgressNote = &e.Progress, wire.Given(e.Note)
	}
	return out
}

func queueOf(q control.QueueInfo) wire.Queue {
	return wire.Queue{
		Name: q.Name, Paused: q.Paused, PausedBy: wire.Given(q.PausedBy), PausedAt: wire.AtIfAny(q.PausedAt),
		PauseNote: wire.Given(q.PauseNote), Capacity: wire.Given(q.Capacity), Limit: wire.Given(q.Capacity), Waiting: q.Waiting,
		Size: q.Size, Pending: q.Pending, Active: q.Active, Archived: q.Archived, Processed: q.Processed, Failed: q.Failed,
		Latency: task.FormatDuration(q.Latency.Round(time.Millisecond)), Oldest: wire.Given(inMilliseconds(q.Oldest)),
		Pace: new(paceOf(q.Pace)),
	}
}

// list makes sure that an empty list is answered as [], not null.
func list[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

func weights(in map[string]int) map[string]int {
	if in == nil {
		return map[string]int{}
	}
	return in
}

// each converts a list.
func each[A, B any](in []A, convert func(A) B) []B {
	out := make([]B, len(in))
	for i := range in {
		out[i] = convert(in[i])
	}
	return out
}
