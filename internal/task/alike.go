package task

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"
	"time"
)

// AlikeBesides reports whether a definition means the same as that of a task, besides the payload: a default of the
// task may be left out in one of them. That holds for what is submitted. For a schedule's task it makes a difference
// whether its policy is spelled out: see MustEndBeforeTick.
func (t Types) AlikeBesides(there Task, d Definition) bool {
	defaults := there.defaultRetry()
	return reflect.DeepEqual(t.spelledOut(there.Definition, defaults), t.spelledOut(d, defaults))
}

// SamePayload returns a function that reports whether another payload means the same as this one: the members of
// objects may have another order. Numbers are compared as they are written, since 64 bits do not hold all of them.
func SamePayload(there json.RawMessage) func(json.RawMessage) bool {
	decoded := sync.OnceValues(func() (any, error) { return decodeJSON(there) })
	return func(other json.RawMessage) bool {
		if bytes.Equal(there, other) {
			return true
		}
		a, errA := decoded()
		b, errB := decodeJSON(other)
		return errA == nil && errB == nil && reflect.DeepEqual(a, b)
	}
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

func decodeJSON(text json.RawMessage) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}
