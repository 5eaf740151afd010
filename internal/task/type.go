package task

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// Type holds what a node must know about the tasks of one type without running them.
type Type struct {
	// Timeout is the timeout of an attempt whose definition has none; 0 means DefaultTimeout. It must not be longer than
	// DefaultTimeout: a node that does not know the type waits for that time before it counts an attempt as lost, and so
	// never takes a running attempt from a worker that knows the type.
	Timeout time.Duration
	// CheckPayload checks the payload of a new task. Its error has CodeInvalid and the field, or is that of ctx: a large
	// payload may wait for its turn. nil accepts every payload.
	CheckPayload func(ctx context.Context, payload json.RawMessage) error
	// PausesKey reports whether a valid payload asks that the limits of the task's keys are paused, so that the task needs
	// a key. nil: none does.
	PausesKey func(payload json.RawMessage) bool
	// Setting is the name of the setting with which a node runs tasks of the type; "" if every worker does.
	Setting string
}

// Types holds the types that this node knows, by name. Tasks of other types are valid too: a node of another version may run
// them. The defaults of a type are never stored in a task, so nodes may know different types.
type Types map[string]Type

// Timeout returns the time that one attempt of a task may take.
func (t Types) Timeout(d Definition) time.Duration {
	return cmp.Or(d.Timeout, t[d.Type].Timeout, DefaultTimeout)
}

// CheckPayload checks the payload of a new task of the named type. Errors: CodeInvalid, and that of ctx.
func (t Types) CheckPayload(ctx context.Context, name string, payload json.RawMessage) error {
	check := t[name].CheckPayload
	if check == nil {
		return nil
	}
	return check(ctx, payload)
}

// CheckKey checks that a new task whose payload pauses the limits of its keys has a key. Error: CodeInvalid.
func (t Types) CheckKey(d Definition) error {
	pauses := t[d.Type].PausesKey
	if d.LimitKey != "" || pauses == nil || !pauses(d.Payload) {
		return nil
	}
	return Invalid("limit_key", "is missing: payload.pause pauses the limit of a key")
}
