package task

import (
	"cmp"
	"encoding/json"
	"time"
)

// Type is what a node knows of the tasks of one type without running them.
type Type struct {
	// Timeout of an attempt whose definition names none; 0 means DefaultTimeout. It must not be longer than
	// DefaultTimeout: a node that does not know the type waits that long before it counts an attempt as lost, and
	// so never takes a running attempt from a worker that does know it.
	Timeout time.Duration
	// CheckPayload says what is invalid about the payload of a new task: CodeInvalid, naming the field. nil accepts
	// every payload.
	CheckPayload func(payload json.RawMessage) error
}

// Types holds the types that this node knows, by name. Tasks of other types are valid too: a node of another version
// may run them. What a type leaves to its defaults is never stored, so nodes may differ in what they know.
type Types map[string]Type

// Timeout is how long one attempt of a task may take.
func (t Types) Timeout(d Definition) time.Duration {
	return cmp.Or(d.Timeout, t[d.Type].Timeout, DefaultTimeout)
}

// CheckPayload checks the payload of a new task of the named type. Error: CodeInvalid.
func (t Types) CheckPayload(name string, payload json.RawMessage) error {
	check := t[name].CheckPayload
	if check == nil {
		return nil
	}
	return check(payload)
}
