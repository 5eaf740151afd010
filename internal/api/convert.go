package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
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
	return momentOf(wire.Time{Time: t}), nil
}

// momentOf is a time of a request in whole ms.
func momentOf(t wire.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// formatDuration writes 10m0s as 10m, as people do.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func parseDuration(field, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, task.Invalid(field, "%q is not a duration such as 1m30s or 48h", s)
	}
	return d, nil
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
	d := r.duration(field, s)
	if s != "" && d == 0 {
		r.note(task.Invalid(field, "must be more than 0"))
	}
	return d
}

func (r *reader) duration(field, s string) time.Duration {
	d, err := parseDuration(field, s)
	r.note(err)
	return d
}

func (r *reader) note(err error) {
	r.err = task.Join(r.err, err)
}

// DefinitionOf is the task that a submission asks for; "" stands for the caller's namespace. Package control checks limits
// and what excludes what. Error: CodeInvalid for a duration.
func DefinitionOf(s wire.Submission) (task.Definition, error) {
	var r reader
	d := task.Definition{
		Ref:       task.Ref{Namespace: wire.Value(s.Namespace), ID: wire.Value(s.ID)},
		Type:      s.Type,
		Queue:     wire.Value(s.Queue),
		Payload:   s.Payload,
		RunAt:     momentOf(wire.Value(s.RunAt)),
		Delay:     r.duration("delay", wire.Value(s.Delay)),
		Timeout:   r.span("timeout", wire.Value(s.Timeout)),
		Retry:     r.retry(wire.Value(s.Retry)),
		Retention: r.span("retention", wire.Value(s.Retention)),
		Owner:     wire.Value(s.Owner),
		Labels:    wire.Value(s.Labels),
	}
	return d, r.err
}

func (r *reader) retry(in wire.Retry) task.Retry {
	backoff := wire.Value(in.Backoff)
	out := task.Retry{
		MaxAttempts: wire.Value(in.MaxAttempts),
		MaxElapsed:  r.span("retry.max_elapsed", wire.Value(in.MaxElapsed)),
		Backoff: task.Backoff{
			Initial: r.span("retry.backoff.initial", wire.Value(backoff.Initial)),
			Factor:  wire.Value(backoff.Factor),
			Max:     r.span("retry.backoff.max", wire.Value(backoff.Max)),
			Jitter:  backoff.Jitter,
		},
	}
	for i, s := range in.Delays {
		out.Delays = append(out.Delays, r.duration(fmt.Sprintf("retry.delays[%d]", i), s))
	}
	return out
}

// changeOf is what a PATCH asks for.
func changeOf(in wire.TaskChange) (control.TaskChange, error) {
	var r reader
	out := control.TaskChange{Payload: in.Payload}
	if in.RunAt != nil {
		out.RunAt = new(momentOf(*in.RunAt))
	}
	if in.Delay != nil {
		out.Delay = new(r.duration("delay", *in.Delay))
	}
	out.Queue = in.Queue
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
		Queue:             t.Queue,
		State:             wire.State(t.State),
		Attempt:           t.Attempt,
		MaxAttempts:       t.MaxAttempts,
		RunAt:             wire.At(t.DueAt),
		CreatedAt:         wire.At(t.CreatedAt),
		QueuedAt:          wire.AtIfAny(t.QueuedAt),
		StartedAt:         wire.AtIfAny(t.StartedAt),
		FinishedAt:        wire.AtIfAny(t.FinishedAt),
		CancelRequestedAt: wire.AtIfAny(t.CancelRequested),
		Node:              wire.Given(t.Node),
		Progress:          t.Progress,
		ProgressNote:      wire.Given(t.ProgressNote),
		Checkpoint:        t.Checkpoint,
		Result:            wire.Given(t.Result),
		Error:             wire.Given(t.Error),
		Payload:           t.Payload,
		Owner:             wire.Given(t.Owner),
		Labels:            wire.LabelsOf(t.Labels),
		Damage:            wire.Given(t.Damage),
	}
	if t.Type != "" { // else nobody knows its definition
		out.Timeout, out.Retry = formatDuration(types.Timeout(t.Definition)), wire.Value(retryOf(t.Policy()))
	}
	if t.Retention > 0 {
		out.Retention = spanOf(t.Retention)
	}
	if id, name, ok := schedule.OfTask(t.Ref); ok {
		tick, _, _ := schedule.ParseTickName(name) // zero, and so left out, if it is none
		out.Schedule, out.Tick = &id, wire.AtIfAny(tick)
	}
	return out
}

// retryOf is a policy as somebody could have sent it; what is left out stays so.
func retryOf(r task.Retry) *wire.Retry {
	out := wire.Retry{MaxAttempts: wire.Given(r.MaxAttempts), MaxElapsed: spanOf(r.MaxElapsed), Backoff: backoffOf(r.Backoff)}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, formatDuration(d))
	}
	if out.MaxAttempts == nil && out.MaxElapsed == nil && out.Backoff == nil && out.Delays == nil {
		return nil
	}
	return &out
}

func backoffOf(b task.Backoff) *wire.Backoff {
	return wire.Given(wire.Backoff{Initial: spanOf(b.Initial), Factor: wire.Given(b.Factor), Max: spanOf(b.Max), Jitter: b.Jitter})
}

// spanOf is nil for a duration that nobody gave.
func spanOf(d time.Duration) *wire.Duration {
	if d == 0 {
		return nil
	}
	return new(formatDuration(d))
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
		Node: wire.Given(e.Node), At: wire.At(e.At), Queue: e.Queue, TaskType: e.TaskType, Owner: wire.Given(e.Owner),
		RunAt: wire.AtIfAny(e.DueAt), Error: wire.Given(e.Error),
	}
	if e.Type == progressEvent {
		out.Progress, out.ProgressNote = &e.Progress, wire.Given(e.Note)
	}
	return out
}

func nodeOf(n cluster.Node) wire.Node {
	return wire.Node{
		ID: n.ID, Host: n.Host, IP: n.IP, Version: n.Version, Roles: list(n.Roles), State: wire.NodeState(n.State),
		Capacity: n.Capacity, Running: n.Running, Partitions: list(n.Partitions), Queues: weights(n.Queues), Types: n.Types,
		Via: wire.Given(n.Via), CPU: n.CPU, Memory: n.Memory, Pid: wire.Given(n.PID), Address: wire.Given(n.Address()),
		StartedAt: wire.At(n.StartedAt), LastBeat: wire.At(n.LastBeat),
	}
}

func queueOf(q control.QueueInfo) wire.Queue {
	return wire.Queue{
		Name: q.Name, Paused: q.Paused, PausedBy: wire.Given(q.PausedBy), PausedAt: wire.AtIfAny(q.PausedAt),
		PauseNote: wire.Given(q.PauseNote), Limit: wire.Given(q.Limit), Waiting: q.Waiting,
		Size: q.Size, Pending: q.Pending, Active: q.Active, Archived: q.Archived, Processed: q.Processed, Failed: q.Failed,
		Latency: formatDuration(q.Latency.Round(time.Millisecond)), Oldest: wire.Given(inMilliseconds(q.Oldest)),
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
