package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// timeLayout is how times are answered: always with three decimals, so that they sort as text.
const timeLayout = "2006-01-02T15:04:05.000Z"

// formatTime is "" for a time that has not come.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

func parseTime(field, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, task.Invalid(field, "%q is not a time such as 2026-01-02T15:04:05Z", s)
	}
	return t.UTC().Truncate(time.Millisecond), nil
}

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
		return 0, task.Invalid(field, "%q is not a duration such as 1m30s", s)
	}
	return d, nil
}

// reader collects the times and durations of a request, and the first error among them.
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
	if r.err == nil {
		r.err = err
	}
}

// definitionOf is the task a submission asks for, except for its namespace (see callerIn). Package control checks limits
// and what excludes what.
func definitionOf(s Submission) (task.Definition, error) {
	var r reader
	d := task.Definition{
		Ref:       task.Ref{ID: s.ID},
		Type:      s.Type,
		Queue:     s.Queue,
		Payload:   s.Payload,
		RunAt:     r.time("run_at", s.RunAt),
		Delay:     r.duration("delay", s.Delay),
		Timeout:   r.span("timeout", s.Timeout),
		Retry:     r.retry(s.Retry),
		Retention: r.span("retention", s.Retention),
		Owner:     s.Owner,
		Labels:    s.Labels,
	}
	return d, r.err
}

func (r *reader) retry(in Retry) task.Retry {
	out := task.Retry{
		MaxAttempts: in.MaxAttempts,
		MaxElapsed:  r.span("retry.max_elapsed", in.MaxElapsed),
		Backoff: task.Backoff{
			Initial: r.span("retry.backoff.initial", in.Backoff.Initial),
			Factor:  in.Backoff.Factor,
			Max:     r.span("retry.backoff.max", in.Backoff.Max),
			Jitter:  in.Backoff.Jitter,
		},
	}
	for i, s := range in.Delays {
		out.Delays = append(out.Delays, r.duration(fmt.Sprintf("retry.delays[%d]", i), s))
	}
	return out
}

// changeOf is what a PATCH asks for.
func changeOf(in TaskChange) (control.TaskChange, error) {
	var r reader
	out := control.TaskChange{Payload: in.Payload}
	if in.RunAt != "" {
		out.RunAt = new(r.time("run_at", in.RunAt))
	}
	if in.Delay != "" {
		out.Delay = new(r.duration("delay", in.Delay))
	}
	if in.Queue != "" {
		out.Queue = &in.Queue
	}
	return out, r.err
}

func statesOf(in States) []task.State {
	out := make([]task.State, len(in))
	for i, s := range in {
		out[i] = task.State(s)
	}
	return out
}

// taskOf is a task as the API shows it: with the defaults that apply to it filled in.
func (e *endpoints) taskOf(t task.Task) Task {
	out := Task{
		ID:                t.ID,
		Namespace:         t.Namespace,
		Type:              t.Type,
		Queue:             t.Queue,
		State:             State(t.State),
		Attempt:           t.Attempt,
		MaxAttempts:       t.MaxAttempts,
		RunAt:             formatTime(t.DueAt),
		CreatedAt:         formatTime(t.CreatedAt),
		QueuedAt:          formatTime(t.QueuedAt),
		StartedAt:         formatTime(t.StartedAt),
		FinishedAt:        formatTime(t.FinishedAt),
		CancelRequestedAt: formatTime(t.CancelRequested),
		Node:              t.Node,
		Progress:          t.Progress,
		ProgressNote:      t.ProgressNote,
		Checkpoint:        t.Checkpoint,
		Result:            t.Result,
		Error:             t.Error,
		Payload:           t.Payload,
		Owner:             t.Owner,
		Labels:            t.Labels,
		Damage:            t.Damage,
	}
	if t.Type != "" { // else nobody knows its definition
		out.Timeout, out.Retry = formatDuration(e.Types.Timeout(t.Definition)), retryOf(t.Policy())
	}
	if t.Retention > 0 {
		out.Retention = formatDuration(t.Retention)
	}
	if id, name, ok := schedule.OfTask(t.Ref); ok {
		tick, _, _ := schedule.ParseTickName(name) // zero, and so left out, if it is none
		out.Schedule, out.Tick = id, formatTime(tick)
	}
	return out
}

// retryOf is a policy as somebody could have sent it; what is left out stays so.
func retryOf(r task.Retry) Retry {
	out := Retry{MaxAttempts: r.MaxAttempts, MaxElapsed: formatSpan(r.MaxElapsed), Backoff: backoffOf(r.Backoff)}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, formatDuration(d))
	}
	return out
}

func backoffOf(b task.Backoff) Backoff {
	return Backoff{Initial: formatSpan(b.Initial), Factor: b.Factor, Max: formatSpan(b.Max), Jitter: b.Jitter}
}

func attemptOf(a task.Attempt) Attempt {
	return Attempt{
		Number: a.Number, Node: a.Node, StartedAt: formatTime(a.StartedAt), FinishedAt: formatTime(a.FinishedAt),
		Outcome: Outcome(a.Outcome), Error: a.Error,
	}
}

func lineOf(l task.LogLine) LogLine {
	return LogLine{Cursor: l.Cursor, Attempt: l.Attempt, Stream: l.Stream, At: formatTime(l.At), Text: l.Text}
}

func eventOf(e task.Event) Event {
	out := Event{
		Type: e.Type, Namespace: e.Ref.Namespace, Task: e.Ref.ID, State: State(e.State), Attempt: e.Attempt,
		Node: e.Node, At: formatTime(e.At), Queue: e.Queue, TaskType: e.TaskType, Owner: e.Owner,
		RunAt: formatTime(e.DueAt), Error: e.Error,
	}
	if e.Type == progressEvent {
		out.Progress, out.ProgressNote = &e.Progress, e.Note
	}
	return out
}

func nodeOf(n cluster.Node) Node {
	return Node{
		ID: n.ID, Host: n.Host, IP: n.IP, Version: n.Version, Roles: list(n.Roles), State: NodeState(n.State),
		Capacity: n.Capacity, Running: n.Running, Partitions: list(n.Partitions), Queues: weights(n.Queues), Types: n.Types, Via: n.Via,
		CPU: n.CPU, Memory: n.Memory, StartedAt: formatTime(n.StartedAt), LastBeat: formatTime(n.LastBeat),
	}
}

func queueOf(q control.QueueInfo) Queue {
	return Queue{
		Name: q.Name, Paused: q.Paused, PausedBy: q.PausedBy, Limit: q.Limit, Waiting: q.Waiting, Size: q.Size, Pending: q.Pending, Active: q.Active, Archived: q.Archived,
		Processed: q.Processed, Failed: q.Failed, Latency: formatDuration(q.Latency.Round(time.Millisecond)),
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
