package task

import (
	"slices"
	"strings"
	"time"
)

// Once says what becomes of a submission while there are others with the same key. Its task has the id
// "<key>@k<name>", and the name is the id that the client gives, or a ULID: so all of a key are in one partition.
type Once struct {
	Mode   OnceMode
	Key    string
	Wait   time.Duration // of OnceDebounce: how long nothing further may come before the task is due
	Max    time.Duration // of OnceDebounce: it is due that long after the first submission at the latest; 0: no limit
	Every  time.Duration // of OnceThrottle: at most one task is due in that time
	Excess Excess        // of OnceThrottle: what becomes of a further submission
}

// OnceMode is what Once does.
type OnceMode string

// The modes.
const (
	OnceSingleton     OnceMode = "singleton"      // the answer is the task that has not ended
	OnceLatest        OnceMode = "latest"         // one task runs; one that waits becomes the new submission
	OnceDebounce      OnceMode = "debounce"       // the task that waits becomes the new submission, and is due later
	OnceThrottle      OnceMode = "throttle"       // at most one is due in a time
	OnceCancelRunning OnceMode = "cancel_running" // as OnceLatest, and the running task is asked to stop
)

// OnceModes lists every mode.
var OnceModes = []OnceMode{OnceSingleton, OnceLatest, OnceDebounce, OnceThrottle, OnceCancelRunning}

// Excess is what becomes of a submission for which a throttle leaves no room.
type Excess string

// The values of Excess. The default is ExcessDrop.
const (
	ExcessDrop  Excess = "drop"  // no task is created
	ExcessDelay Excess = "delay" // it is due as soon as it may be
)

// OnceOutcome is what became of a submission with Once.
type OnceOutcome string

// The outcomes.
const (
	OnceCreated  OnceOutcome = "created"  // a task, which waits for none of its key
	OnceExisting OnceOutcome = "existing" // nothing: the answer is a task that has not ended, or that it created before
	OnceReplaced OnceOutcome = "replaced" // a task that waits has become this submission
	OnceDelayed  OnceOutcome = "delayed"  // a task, which waits for the end of another one, or for its turn
	OnceSkipped  OnceOutcome = "skipped"  // nothing: the answer is the newest task of the key
)

// OnceOutcomes lists every outcome.
var OnceOutcomes = []OnceOutcome{OnceCreated, OnceExisting, OnceReplaced, OnceDelayed, OnceSkipped}

const (
	// NewerSubmission is who cancels a task for a submission with its key, as errors have it.
	NewerSubmission = "a newer submission"
	// OnceKeyLimit is the length of the longest key.
	OnceKeyLimit = 100
	// onceMark is between the key and the name of a task. No name of a tick begins so, nor that of a follow-up.
	onceMark = "@k"
)

// Keyed returns the name of a task of that key that has the name id within it.
func (r Ref) Keyed(key string) Ref {
	r.ID = key + onceMark + r.ID
	return r
}

// Key returns the key with which a task was submitted, and its name within that. ok is false for other tasks.
func (r Ref) Key() (key, name string, ok bool) {
	key, name, ok = strings.Cut(r.ID, onceMark)
	return key, name, ok && !strings.Contains(key, "@") && !strings.Contains(name, "@")
}

// WaitsForAnother reports whether a task is due when another one with its key has ended. Until then, DueAt is a
// placeholder: HorizonLimit after its creation. A task that was cancelled meanwhile keeps it.
func (t Task) WaitsForAnother() bool {
	return t.Once != nil && t.Once.Mode != OnceSingleton && t.DueAt.Sub(t.CreatedAt) == HorizonLimit
}

// normalize returns a copy with the defaults.
func (o *Once) normalize() *Once {
	if o == nil {
		return nil
	}
	n := *o
	if n.Mode == OnceThrottle && n.Excess == "" {
		n.Excess = ExcessDrop
	}
	return &n
}

// validateOnce checks what the definition of a submission says about others with its key. Error: CodeInvalid.
func (d Definition) validateOnce() error {
	o := d.Once
	if o == nil {
		return nil
	}
	return Within("once", JoinChecks([]func() error{
		o.validateMode,
		func() error { return ValidateOnceKey(o.Key) },
		func() error { return o.validateFor(OnceDebounce, "wait", o.Wait, HorizonLimit) },
		func() error { return o.validateFor(OnceDebounce, "max", o.Max, HorizonLimit) },
		func() error { return o.validateFor(OnceThrottle, "every", o.Every, HorizonLimit) },
		func() error { return o.validateWindows(d.kept()) },
		func() error {
			if o.Mode != OnceSingleton && (d.Delay != 0 || !d.RunAt.IsZero()) {
				return Invalid("mode", "%s says when the task is due: leave out delay and run_at", o.Mode)
			}
			return nil
		},
	}))
}

// kept is how long the task is kept after it has succeeded.
func (d Definition) kept() time.Duration {
	if d.Retention == 0 {
		return DefaultRetention
	}
	return d.Retention
}

func (o *Once) validateMode() error {
	if !slices.Contains(OnceModes, o.Mode) {
		return Invalid("mode", "%q must be singleton, latest, debounce, throttle or cancel_running", o.Mode)
	}
	return nil
}

// ValidateOnceKey checks the key of a Once. Error: CodeInvalid.
func ValidateOnceKey(key string) error {
	if len(key) > OnceKeyLimit {
		return Invalid("key", "is %d characters long, at most %d are allowed", len(key), OnceKeyLimit)
	}
	if !isName(key) {
		return Invalid("key", "%q must be 1 to %d characters of %s", key, OnceKeyLimit, nameAlphabet)
	}
	return nil
}

// validateFor checks a duration that only one mode has.
func (o *Once) validateFor(mode OnceMode, field string, d, limit time.Duration) error {
	if d != 0 && o.Mode != mode {
		return Invalid(field, "belongs to mode %s", mode)
	}
	return validateSpan(field, d, limit)
}

// validateWindows checks what the mode needs. kept is how long its tasks are kept after their end: what a throttle
// knows goes with the newest one.
func (o *Once) validateWindows(kept time.Duration) error {
	switch {
	case o.Mode == OnceDebounce && o.Wait == 0:
		return Invalid("wait", "is missing: say how long nothing further may come before the task is due, as 5s")
	case o.Mode == OnceDebounce && o.Max != 0 && o.Max < o.Wait:
		return Invalid("max", "%s is shorter than wait, %s", o.Max, o.Wait)
	case o.Mode == OnceThrottle && o.Every == 0:
		return Invalid("every", "is missing: say in which time at most one task may be due, as 1m")
	case o.Mode == OnceThrottle && o.Every > kept:
		return Invalid("every", "%s is longer than the task is kept after its end, %s: raise retention", o.Every, kept)
	case o.Mode != OnceThrottle && o.Excess != "":
		return Invalid("excess", "belongs to mode throttle")
	case o.Mode == OnceThrottle && o.Excess != ExcessDrop && o.Excess != ExcessDelay:
		return Invalid("excess", "%q must be drop or delay", o.Excess)
	}
	return nil
}

// validateOwnID checks the id of a task that a client submits.
func (d Definition) validateOwnID() error {
	if d.Once == nil {
		return ValidateNewID(d.ID)
	}
	name, ok := strings.CutPrefix(d.ID, d.Once.Key+onceMark)
	if !ok {
		return Invalid("id", "%q must begin with %s", d.ID, d.Once.Key+onceMark)
	}
	if err := ValidateNewID(name); err != nil {
		return err
	}
	if len(d.ID) > IDLimit {
		const text = "is %d characters too long: together with the key, at most %d are allowed"
		return Invalid("id", text, len(d.ID)-IDLimit, IDLimit)
	}
	return nil
}
