package task

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Alike reports whether two definitions of one task mean the same: the members of objects in the payload may have
// another order, and a default may be left out in one of them. Numbers are compared as they are written, since 64 bits
// do not hold all of them.
func (t Types) Alike(a, b Definition) bool {
	return sameJSON(a.Payload, b.Payload) && reflect.DeepEqual(t.spelledOut(a), t.spelledOut(b))
}

// spelledOut returns a definition with the defaults that apply to it, and without its payload.
func (t Types) spelledOut(d Definition) Definition {
	d = d.Normalize()
	d.Timeout = t.Timeout(d)
	d.Retry.MaxAttempts = d.Retry.Attempts()
	if len(d.Retry.Delays) == 0 {
		d.Retry.Delays, d.Retry.Backoff = nil, d.Retry.Backoff.Resolved()
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
