// Package codec encodes and decodes tasks, schedules and their records as Redis holds them. Times are whole ms since 1970,
// durations whole ms. Fields that are left out have their default.
package codec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// head is the first line of a stored definition. Fields that are left out have their default; times and durations are in
// ms.
type head struct {
	Type      string            `json:"type"`
	Queue     string            `json:"queue,omitempty"`
	RunAt     int64             `json:"at,omitempty"`
	Delay     int64             `json:"delay,omitempty"`
	Timeout   int64             `json:"timeout,omitempty"`
	Attempts  int               `json:"attempts,omitempty"`
	Elapsed   int64             `json:"elapsed,omitempty"` // retry.max_elapsed
	Backoff   *backoff          `json:"backoff,omitempty"`
	Delays    []int64           `json:"delays,omitempty"`
	Retention int64             `json:"retention,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

type backoff struct {
	Initial int64    `json:"initial,omitempty"`
	Factor  float64  `json:"factor,omitempty"`
	Max     int64    `json:"max,omitempty"`
	Jitter  *float64 `json:"jitter,omitempty"`
}

// EncodeDefinition writes a definition as Redis holds it: the head as one line of JSON, a line break, the payload. The
// name is not part of it. Equal definitions are equal byte for byte (JSON objects are written with sorted keys). Error: d
// holds something that JSON cannot.
func EncodeDefinition(d task.Definition) (string, error) {
	h := head{
		Type: d.Type, Timeout: d.Timeout.Milliseconds(), Delay: d.Delay.Milliseconds(),
		Attempts: d.Retry.MaxAttempts, Elapsed: d.Retry.MaxElapsed.Milliseconds(), Retention: d.Retention.Milliseconds(),
		Owner: d.Owner, Labels: d.Labels,
	}
	if d.Queue != task.DefaultQueue {
		h.Queue = d.Queue
	}
	if !d.RunAt.IsZero() {
		h.RunAt = d.RunAt.UnixMilli()
	}
	if b := d.Retry.Backoff; b != (task.Backoff{}) {
		h.Backoff = &backoff{b.Initial.Milliseconds(), b.Factor, b.Max.Milliseconds(), b.Jitter}
	}
	for _, delay := range d.Retry.Delays {
		h.Delays = append(h.Delays, delay.Milliseconds())
	}
	line, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encoding task %s: %w", d.Ref, err)
	}
	return string(line) + "\n" + string(d.Payload), nil
}

// DecodeHead reads the first line of a stored definition: everything but the payload. Error: the line is not JSON of the
// stored form.
func DecodeHead(ref task.Ref, line []byte) (task.Definition, error) {
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return task.Definition{}, fmt.Errorf("task %s: its definition cannot be read: %w", ref, err)
	}
	d := task.Definition{
		Ref: ref, Type: h.Type, Queue: h.Queue, RunAt: FromMS(h.RunAt), Delay: ms(h.Delay), Timeout: ms(h.Timeout),
		Retention: ms(h.Retention), Owner: h.Owner, Labels: h.Labels,
		Retry: task.Retry{MaxAttempts: h.Attempts, MaxElapsed: ms(h.Elapsed)},
	}
	if d.Queue == "" {
		d.Queue = task.DefaultQueue
	}
	if b := h.Backoff; b != nil {
		d.Retry.Backoff = task.Backoff{Initial: ms(b.Initial), Factor: b.Factor, Max: ms(b.Max), Jitter: b.Jitter}
	}
	for _, delay := range h.Delays {
		d.Retry.Delays = append(d.Retry.Delays, ms(delay))
	}
	return d, nil
}

// DecodeDefinition reads what EncodeDefinition wrote; ref is the task's name. Error: the first line is not JSON of the
// stored form.
func DecodeDefinition(ref task.Ref, def string) (task.Definition, error) {
	line, payload, _ := strings.Cut(def, "\n")
	d, err := DecodeHead(ref, []byte(line))
	d.Payload = json.RawMessage(payload)
	return d, err
}

// DecodeTask reads a task from its hash. A hash without max_attempts (all but retried tasks) or without due (a task that
// was created and not touched since) gets them from its definition. Error: the definition cannot be read.
func DecodeTask(ref task.Ref, h map[string]string) (task.Task, error) {
	d, err := DecodeDefinition(ref, h["def"])
	if err != nil {
		return task.Task{}, err
	}
	t := task.Task{
		Definition: d, State: task.State(h["state"]), Node: h["node"], Run: h["run"], Result: h["result"], Error: h["error"],
		Attempt: int(Number(h["attempt"])), MaxAttempts: int(Number(h["max_attempts"])), Progress: int(Number(h["progress"])),
		CreatedAt: FromMS(Number(h["created"])), DueAt: FromMS(Number(h["due"])), QueuedAt: FromMS(Number(h["queued"])),
		StartedAt: FromMS(Number(h["started"])), FinishedAt: FromMS(Number(h["finished"])),
		CancelRequested: FromMS(Number(h["cancel"])), FirstDueAt: FromMS(Number(h["first_due"])),
	}
	if t.MaxAttempts == 0 {
		t.MaxAttempts = d.Retry.Attempts()
	}
	if t.DueAt.IsZero() {
		t.DueAt = d.FirstDue(t.CreatedAt)
	}
	return t, nil
}

// attemptRecord is an entry of the list of attempts, as lua/include/attempts.lua writes it. Started and Finished are ms
// since 1970.
type attemptRecord struct {
	Number   int          `json:"number"`
	Node     string       `json:"node"`
	Started  int64        `json:"started"`
	Finished int64        `json:"finished"`
	Outcome  task.Outcome `json:"outcome"`
	Error    string       `json:"error"`
}

// DecodeAttempt reads an entry of a task's list of attempts. Error: it is not JSON of the stored form.
func DecodeAttempt(entry string) (task.Attempt, error) {
	var r attemptRecord
	if err := json.Unmarshal([]byte(entry), &r); err != nil {
		return task.Attempt{}, fmt.Errorf("an attempt's record cannot be read: %w", err)
	}
	return task.Attempt{
		Number: r.Number, Node: r.Node, StartedAt: FromMS(r.Started), FinishedAt: FromMS(r.Finished),
		Outcome: r.Outcome, Error: r.Error,
	}, nil
}

// eventRecord is a message on the events channel, as lua/include/events.lua writes it. At and Due are ms since 1970.
type eventRecord struct {
	Type     string     `json:"type"`
	Ref      string     `json:"ref"`
	State    task.State `json:"state"`
	Attempt  int        `json:"attempt"`
	Node     string     `json:"node"`
	At       int64      `json:"at"`
	Due      int64      `json:"due"`
	Head     head       `json:"head"`
	Progress int        `json:"progress"`
	Error    string     `json:"error"`
	Line     *struct {
		Stream string `json:"stream"`
		Text   string `json:"text"`
	} `json:"line"`
}

// DecodeEvent reads a message on the events channel. Error: it is not JSON of the published form, or names no task.
func DecodeEvent(message string) (task.Event, error) {
	var r eventRecord
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return task.Event{}, fmt.Errorf("an event cannot be read: %w", err)
	}
	ref, err := task.ParseRef(r.Ref)
	if err != nil {
		return task.Event{}, err
	}
	e := task.Event{
		Type: r.Type, Ref: ref, State: r.State, Attempt: r.Attempt, Node: r.Node, At: FromMS(r.At), DueAt: FromMS(r.Due),
		Queue: r.Head.Queue, TaskType: r.Head.Type, Owner: r.Head.Owner, Progress: r.Progress, Error: r.Error,
	}
	if e.Queue == "" {
		e.Queue = task.DefaultQueue
	}
	if r.Line != nil {
		e.Stream, e.Text = r.Line.Stream, r.Line.Text
	}
	return e, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// FromMS is the time, in UTC, n ms after the start of 1970; 0 is the zero time.
func FromMS(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Number reads an integer that a script wrote in decimal. Text that is not an integer, "" included, is 0.
func Number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// Text is a value of a reply of Redis if it is text, else "".
func Text(v any) string {
	s, _ := v.(string)
	return s
}
