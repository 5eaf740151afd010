// Package codec encodes and decodes tasks, schedules and their records as Redis holds them. Times are whole ms since
// 1970, durations whole ms. Fields that are left out have their default.
package codec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Record is a task as Redis holds it.
type Record struct {
	Definition string    // the time of its creation (13 digits), the head, a line break, and the payload or its digest
	Payload    string    // if it is long, else ""
	State      string    // see DecodeState; "" if the task was never claimed
	NoState    string    // why the state is not known; "" if State says it
	Due        time.Time // when a scheduled task is due
	Result     string
	Error      string
	Checkpoint string
	Unproved   bool // a payload that is there is taken for JSON: whoever decodes it notices if it is none

	RetriesSince time.Time // since when the present defaults of retries hold; older tasks have earlier ones
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

// decodeDefinition reads the definition of a task and its payload, and what follows from it while the task has no
// state. Error: the definition cannot be read.
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
	case !isName(d.Type), !isName(d.Queue) && (d.Type != task.WorkflowType || d.Queue != task.WorkflowQueue):
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
