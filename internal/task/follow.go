package task

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// FollowUp is a task that follows the end of another one, once for each attempt with which it ends.
type FollowUp struct {
	When When
	Task Definition // without a name; its Delay begins with that end, and a nil Payload stands for the Parent as JSON
}

// When says after which ends of a task its follow-up comes.
type When string

// WhenSucceeded, WhenFailed and WhenEnded are all values. A cancelled task has ended.
const (
	WhenSucceeded When = "succeeded"
	WhenFailed    When = "failed"
	WhenEnded     When = "ended"
)

// Whens lists every value.
var Whens = []When{WhenSucceeded, WhenFailed, WhenEnded}

// follows reports whether a follow-up comes after an end in that state.
func (w When) follows(s State) bool { return w == WhenEnded || string(w) == string(s) }

// Parent is how a task ended that another one follows. Its JSON is the payload of a follow-up that has none of its own.
type Parent struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Attempt   int    `json:"attempt"` // with which it ended; 0 if it was cancelled before the first one
	State     State  `json:"state"`
	// Result and Error have at most ResultLimit and ErrorLimit bytes. They are "" for none, or if the task was tried again
	// meanwhile.
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

const (
	// FollowUpsLimit is how many follow-ups can follow each other after a task.
	FollowUpsLimit = 4
	// FollowUpLimit is the length, in bytes, of the longest payload of a follow-up, as compact JSON.
	FollowUpLimit = 16 << 10
	// FollowUpRoom is by how much the id of a follow-up can be longer than that of its parent.
	FollowUpRoom = len(followUpMark) + 5
)

// followUpMark is between the id of a task and the attempt, in the ids of follow-ups. No name of a tick begins so.
const followUpMark = "@e"

// FollowUp returns the name of the task that follows this one when it ends with that attempt. Both are in one
// partition.
func (r Ref) FollowUp(attempt int) Ref {
	r.ID += followUpMark + strconv.Itoa(attempt)
	return r
}

// Follows returns the name of the task that a follow-up follows, and with which attempt that ended. ok is false for
// other tasks.
func (r Ref) Follows() (parent Ref, attempt int, ok bool) {
	at := strings.LastIndex(r.ID, followUpMark)
	if at <= 0 {
		return Ref{}, 0, false
	}
	attempt, err := strconv.Atoi(r.ID[at+len(followUpMark):])
	return Ref{r.Namespace, r.ID[:at]}, attempt, err == nil && attempt >= 0
}

// Tick returns the id of the schedule that created the task, and the name of the tick. ok is false for other tasks,
// as those that follow the task of a tick.
func (r Ref) Tick() (schedule, name string, ok bool) {
	schedule, name, ok = strings.Cut(r.ID, "@")
	if !ok || strings.ContainsAny(name[:min(1, len(name))], ".ek") || strings.Contains(name, "@") {
		return "", "", false
	}
	return schedule, name, true
}

// IsTickOf reports whether it is the name of a task that a schedule has created, in whatever namespace.
func (r Ref) IsTickOf(schedule string) bool {
	id, _, ok := r.Tick()
	return ok && id == schedule
}

// Follow returns the definition of the task that follows t, which ended with that attempt in that state; false if none
// does. t may have been tried again since.
func (t Task) Follow(attempt int, state State) (Definition, bool) {
	if t.OnEnd == nil || !t.OnEnd.When.follows(state) {
		return Definition{}, false
	}
	d := t.OnEnd.Task
	d.Ref = t.FollowUp(attempt)
	d.Parent = &Parent{Namespace: t.Namespace, ID: t.ID, Attempt: attempt, State: state}
	if t.Attempt == attempt && t.State == state {
		d.Parent.Result, d.Parent.Error = t.Result, t.Error
	}
	if d.Owner == "" {
		d.Owner = t.Owner
	}
	if d.Labels == nil {
		d.Labels = t.Labels
	}
	if d.Payload == nil {
		d.Payload, _ = json.Marshal(d.Parent) // of texts and a number
	}
	d.Trace = t.Trace
	return d.Normalize(), true
}

// normalize returns a copy with compact payloads.
func (f *FollowUp) normalize() *FollowUp {
	if f == nil {
		return nil
	}
	n := *f
	if n.Task.Payload != nil {
		n.Task.Payload = compacted(n.Task.Payload)
	}
	n.Task.FairWeight = normalOne(n.Task.FairWeight)
	n.Task.Cost = normalOne(n.Task.Cost)
	n.Task.OnEnd = n.Task.OnEnd.normalize()
	return &n
}

// validateOnEnd checks what follows a task, depth levels below the one that is submitted. Error: CodeInvalid.
func (d Definition) validateOnEnd(depth int) error {
	if d.OnEnd == nil {
		return nil
	}
	if depth >= FollowUpsLimit {
		return Invalid("on_end", "is the %dth follow-up in a row: at most %d are allowed", depth+1, FollowUpsLimit)
	}
	return Within("on_end", JoinChecks([]func() error{
		func() error {
			if !slices.Contains(Whens, d.OnEnd.When) {
				return Invalid("when", "%q must be succeeded, failed or ended", d.OnEnd.When)
			}
			return nil
		},
		func() error { return Within("task", d.OnEnd.Task.validateFollowUp(depth+1)) },
	}))
}

func (d Definition) validateFollowUp(depth int) error {
	return JoinChecks([]func() error{
		func() error { return ValidateType(d.Type) },
		func() error {
			if d.Queue == "" {
				return nil
			}
			return d.ValidateQueue()
		},
		func() error {
			switch {
			case d.Payload == nil:
				return nil
			case len(d.Payload) > FollowUpLimit:
				return Invalid("payload", "is %d bytes long, at most %d are allowed in a follow-up", len(d.Payload), FollowUpLimit)
			}
			return ValidatePayload(d.Payload)
		},
		func() error { return validateSpan("delay", d.Delay, HorizonLimit) },
		func() error { return validateSpan("timeout", d.Timeout, TimeoutLimit) },
		func() error { return validateSpan("retention", d.Retention, RetentionLimit) },
		func() error { return validateSpan("start_by", d.StartBy, HorizonLimit) },
		d.validateRetry,
		func() error { return ValidateText("owner", d.Owner, OwnerLimit) },
		func() error { return validateLabels(d.Labels) },
		func() error { return d.validateOnEnd(depth) },
		d.validateTurn,
		d.validateRun,
	})
}

// FollowUps returns the follow-ups of a task, each of which follows the one before.
func (d Definition) FollowUps() (all []Definition) {
	for next := d.OnEnd; next != nil; next = next.Task.OnEnd {
		all = append(all, next.Task)
	}
	return all
}

// ValidateRoom checks that the ids of the follow-ups of a task, whose own id has at most that many characters, are not
// too long. Error: CodeInvalid.
func (d Definition) ValidateRoom(length int) error {
	if limit := IDLimit - len(d.FollowUps())*FollowUpRoom; length > limit && d.OnEnd != nil {
		return Invalid("id", "is %d characters too long for the ids of its follow-ups", length-limit)
	}
	return nil
}

// Within returns an error in whose fields a name and a dot come first.
func Within(name string, err error) error {
	var invalid *Error
	if !errors.As(err, &invalid) || invalid.Field == "" {
		return err
	}
	moved := *invalid
	moved.Field, moved.Others = name+"."+invalid.Field, nil
	for _, other := range invalid.Others {
		o := *other
		o.Field = name + "." + other.Field
		moved.Others = append(moved.Others, &o)
	}
	return &moved
}
