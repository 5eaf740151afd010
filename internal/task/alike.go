package task

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Alike reports whether a definition means the same as that of a task: the members of objects in the payload may have
// another order, and a default of the task may be left out in one of them. Numbers are compared as they are written,
// since 64 bits do not hold all of them.
func (t Types) Alike(there Task, d Definition) bool {
	defaults := there.defaultRetry()
	return sameJSON(there.Payload, d.Payload) &&
		reflect.DeepEqual(t.spelledOut(there.Definition, defaults), t.spelledOut(d, defaults))
}

// spelledOut returns a definition with the defaults in place of what it leaves out, and without its payload.
func (t Types) spelledOut(d Definition, defaults Retry) Definition {
	d = d.Normalize()
	d.Timeout = t.Timeout(d)
	if d.Retry = d.Retry.resolved(defaults); len(d.Retry.Delays) == 0 {
		d.Retry.Delays = nil
	}
	if len(d.Labels) == 0 {
		d.Labels = nil
	}
	if !d.RunAt.IsZero() {
		d.RunAt = time.UnixMilli(d.RunAt.UnixMilli()) // equal times are equal values
	}
	d.Payload = nil
	return d
}

// sameJSON reports whether two texts hold the same JSON value.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	valueA, errA := decodeJSON(a)
	valueB, errB := decodeJSON(b)
	return errA == nil && errB == nil && reflect.DeepEqual(valueA, valueB)
}

func decodeJSON(text json.RawMessage) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}
