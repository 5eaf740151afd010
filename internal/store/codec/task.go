// Package codec encodes and decodes tasks, schedules and their records as Redis holds them. Times are whole ms since 1970,
// durations whole ms. Fields that are left out have their default.
package codec

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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
// name is not part of it, and neither is the trace: see WithTrace. Equal definitions are equal byte for byte (JSON
// objects are written with sorted keys). Error: d holds something that JSON cannot.
//
// This is also the canonical form of a definition, of which the SHA-1 is kept of tasks that were changed or deleted, and which nodes of
// all releases compare: it never changes. A new field comes last, and is left out where it has its default. See SameContent.
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

// SplitPayload separates a definition that EncodeDefinition wrote into what is stored in its place and its payload if that is stored
// apart, as split_payload in lua/include/definition.lua does; else the payload is "".
func SplitPayload(def string) (stored, payload string) {
	head, payload, _ := strings.Cut(def, "\n")
	if len(payload) <= task.InlinePayloadLimit {
		return def, ""
	}
	return head + "\n@" + Digest(payload), payload
}

// Digest is the SHA-1 of a text as Redis writes it.
func Digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DecodeHead reads the first line of a stored definition: everything but the payload. Error: the line is not JSON of the
// stored form.
func DecodeHead(ref task.Ref, line []byte) (task.Definition, error) {
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return task.Definition{Ref: ref}, fmt.Errorf("its definition cannot be read: %w", err)
	}
	d := task.Definition{
		Ref: ref, Type: h.Type, Queue: h.Queue, RunAt: FromMS(h.RunAt), Delay: ms(h.Delay), Timeout: ms(h.Timeout),
		Retention: ms(h.Retention), Owner: h.Owner, Labels: h.Labels,
		Retry: task.Retry{MaxAttempts: h.Attempts, MaxElapsed: ms(h.Elapsed)},
		Trace: traceOf(line),
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

// Record is a task as Redis holds it.
type Record struct {
	Definition string    // the time of its creation (13 digits), the head, a line break, and the payload or a note that it is long
	Payload    string    // if it is long, else ""
	State      string    // see DecodeState; "" if the task was never claimed
	NoState    string    // why the state is not known; "" if State says it
	Due        time.Time // when a scheduled task is due
	Result     string
	Error      string
	Checkpoint string
	Unproved   bool // a payload that is there is taken for JSON: whoever decodes it notices if it is none

	RetriesSince time.Time // since when the present defaults of retries hold; tasks that were created before have earlier ones
}

// createdDigits is the number of digits at the beginning of a stored definition: the time of the creation in ms.
const createdDigits = 13

// Split separates a stored definition into the time of its creation and the definition. ok is false if it is neither.
func Split(record string) (created time.Time, def string, ok bool) {
	if len(record) < createdDigits || Number(record[:createdDigits]) == 0 {
		return time.Time{}, "", false
	}
	return FromMS(Number(record[:createdDigits])), record[createdDigits:], true
}

// DecodeTask reads a task. What cannot be read is left out, and Damage says so.
func DecodeTask(ref task.Ref, r Record) task.Task {
	t := task.Task{Definition: task.Definition{Ref: ref}, State: task.Scheduled, Result: r.Result, Error: r.Error}
	if err := decodeDefinition(&t, r); err != nil {
		t.Damage = err.Error()
	}
	err := DecodeState(&t, r.State)
	if r.NoState != "" {
		err = errors.New(r.NoState)
	}
	if err != nil {
		t.State, t.Damage = task.Unreadable, cmp.Or(t.Damage, err.Error())
	}
	if t.State == task.Scheduled && !r.Due.IsZero() {
		t.DueAt = r.Due
	}
	if r.Checkpoint != "" && json.Valid([]byte(r.Checkpoint)) { // without one, the attempt starts from the beginning
		t.Checkpoint = json.RawMessage(r.Checkpoint)
	}
	return t
}

// decodeDefinition reads the definition of a task and its payload, and what follows from it while the task has no state. Error: the
// definition cannot be read.
func decodeDefinition(t *task.Task, r Record) error {
	created, def, ok := Split(r.Definition)
	if !ok {
		return fmt.Errorf("its definition %q cannot be read", task.CutMiddle(r.Definition, damageLimit))
	}
	d, err := DecodeDefinition(t.Ref, def)
	if err := cmp.Or(err, CheckNames(d)); err != nil {
		return err
	}
	if r.Payload != "" {
		d.Payload = json.RawMessage(r.Payload)
	}
	t.Damage = damageOf(d.Payload, r.Unproved)
	if t.Damage != "" || len(d.Payload) == 0 {
		d.Payload = nil
	}
	t.Definition, t.CreatedAt, t.DueAt, t.Earlier = d, created, d.FirstDue(created), created.Before(r.RetriesSince)
	t.MaxAttempts = t.Policy().MaxAttempts
	return nil
}

// CheckNames returns an error if the type or the queue of a stored definition is no name.
func CheckNames(d task.Definition) error {
	switch {
	case d.Type == "":
		return errors.New("its definition has no type")
	case !isName(d.Type), !isName(d.Queue):
		return fmt.Errorf("its definition cannot be read: the type %q or the queue %q is no name",
			task.CutMiddle(d.Type, damageLimit), task.CutMiddle(d.Queue, damageLimit))
	}
	return nil
}

// CheckRecord returns an error if a stored definition cannot be read as DecodeTask reads it: a long payload, which is
// stored apart, does not count.
func CheckRecord(ref task.Ref, record string) error {
	r := Record{Definition: record}
	if _, payload, _ := strings.Cut(record, "\n"); strings.HasPrefix(payload, "@") {
		r.Payload = "null"
	}
	t := task.Task{Definition: task.Definition{Ref: ref}}
	if err := decodeDefinition(&t, r); err != nil || t.Damage == "" {
		return err
	}
	return errors.New(t.Damage)
}

// CheckPayload returns an error if a long payload, which is stored apart, is not JSON.
func CheckPayload(payload string) error {
	if damage := damageOf([]byte(payload), false); damage != "" {
		return errors.New(damage)
	}
	return nil
}

// isName reports whether a text has only signs that names of types and queues may have.
func isName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}) < 0
}

// damageLimit is how many bytes of what cannot be read are quoted.
const damageLimit = 100

// damageOf says what is wrong with a payload; "" for one that is left out. An unproved one may be no JSON.
func damageOf(payload []byte, unproved bool) string {
	switch {
	case len(payload) == 0:
		return ""
	case payload[0] == '@': // which no JSON begins with
		return "its payload is lost: Redis has the SHA-1 of a long payload, and not the payload; " +
			"while it waits, dtsctl task change ID --payload gives it another"
	case unproved || json.Valid(payload):
		return ""
	}
	return fmt.Sprintf("its payload %q is not JSON", task.CutMiddle(string(payload), damageLimit))
}

// DecodeState reads a state, as lua/include/state.lua writes it, into a task; "" changes nothing. Error: it does not begin with
// a state and an attempt.
func DecodeState(t *task.Task, text string) error {
	if text == "" {
		return nil
	}
	f := strings.Fields(text)
	if len(f) < 2 || !task.State(f[0]).Valid() || !isNumber(f[1]) {
		return fmt.Errorf("its state %q cannot be read", task.CutMiddle(text, damageLimit))
	}
	field := func(i int) string {
		if i < len(f) && f[i] != "0" {
			return f[i]
		}
		return ""
	}
	at := func(i int) time.Time { return FromMS(Number(field(i))) }
	t.State, t.Attempt = task.State(f[0]), int(Number(f[1]))
	if n := int(Number(field(2))); n > 0 {
		t.MaxAttempts = n
	}
	t.FirstDueAt, t.QueuedAt, t.StartedAt = at(3), at(5), at(6)
	if due := at(4); !due.IsZero() {
		t.DueAt = due
	}
	if t.FirstDueAt.IsZero() && t.State != task.Scheduled { // the newest attempt is the first one
		t.FirstDueAt = t.DueAt
	}
	t.Run, t.CancelRequested = field(7), at(9)
	t.Progress, t.ProgressNote = decodeProgress(field(8))
	t.FinishedAt, t.Outcome = at(10), task.Outcome(field(11))
	t.Node = NodeOf(t.Run)
	return nil
}

// isNumber reports whether a text is a number from 0 on, in decimal.
func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0
}

// NodeOf returns the node that made a run token; "" for none.
func NodeOf(run string) string { return run[:max(strings.LastIndexByte(run, '#'), 0)] }

// decodeProgress reads the progress in a state: a percentage, and a colon and a note behind it if there is one. What cannot be read
// is left out.
func decodeProgress(field string) (percent int, note string) {
	number, encoded, _ := strings.Cut(field, ":")
	note, _ = url.PathUnescape(encoded)
	if percent = int(Number(number)); percent < 0 || percent > 100 {
		percent = 0
	}
	return percent, note
}

// FormatState writes a state as lua/include/state.lua does. The number of attempts and the time of the first one are 0 if
// the definition, or the due time, says them.
func FormatState(t task.Task) string {
	fields := []string{
		string(t.State), strconv.Itoa(t.Attempt), strconv.Itoa(t.MaxAttempts), msText(t.FirstDueAt), msText(t.DueAt), msText(t.QueuedAt),
		msText(t.StartedAt), cmp.Or(t.Run, "0"), strconv.Itoa(t.Progress), msText(t.CancelRequested), msText(t.FinishedAt),
		cmp.Or(string(t.Outcome), "0"),
	}
	for len(fields) > 2 && fields[len(fields)-1] == "0" {
		fields = fields[:len(fields)-1]
	}
	return strings.Join(fields, " ")
}

func msText(t time.Time) string { return strconv.FormatInt(toMS(t), 10) }

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

// DecodeAttempt reads an entry of a task's list of attempts. Error: it is not JSON of the stored form, or lacks what each
// attempt has.
func DecodeAttempt(entry string) (task.Attempt, error) {
	var r attemptRecord
	if err := json.Unmarshal([]byte(entry), &r); err != nil {
		return task.Attempt{}, fmt.Errorf("an attempt's record cannot be read: %w", err)
	}
	a := task.Attempt{
		Number: r.Number, Node: r.Node, StartedAt: FromMS(r.Started), FinishedAt: FromMS(r.Finished),
		Outcome: r.Outcome, Error: r.Error,
	}
	return a, CheckAttempt(a)
}

// CheckAttempt returns an error if an attempt lacks what each one has. One that runs has no outcome yet.
func CheckAttempt(a task.Attempt) error {
	if a.Number > 0 && !a.StartedAt.IsZero() && (a.Outcome == "" || a.Outcome.Valid()) {
		return nil
	}
	return fmt.Errorf("attempt %d has no number, no start or no outcome", a.Number)
}

// CheckCheckpoint returns an error if a checkpoint is not JSON.
func CheckCheckpoint(checkpoint string) error {
	if !json.Valid([]byte(checkpoint)) {
		return errors.New("a checkpoint is not JSON")
	}
	return nil
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
	Note     string     `json:"note"`
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
		Queue: r.Head.Queue, TaskType: r.Head.Type, Owner: r.Head.Owner, Progress: r.Progress, Note: r.Note, Error: r.Error,
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
