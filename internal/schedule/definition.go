package schedule

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Definition defines a schedule. Zero values mean the defaults.
type Definition struct {
	task.Ref
	Spec
	MaxRuns        int // the schedule ends after this many runs; 0: no limit
	Misfire        Misfire
	Overlap        Overlap
	PauseOnFailure int // the schedule pauses after this many tasks in a row have failed; 0: never
	Owner          string
	Description    string
	Labels         map[string]string
	Task           task.Definition // defines the task of every tick; without id and due time
}

// Limits on a definition and on requests. What exceeds a limit is refused, and the error names the field.
const (
	IDLimit          = 160                    // characters of an id; the id of a task of the schedule is longer
	RulesLimit       = 20                     // rules of one schedule
	ExcludeLimit     = 200                    // exclusions of one schedule
	ExpressionLimit  = 200                    // characters of a cron expression or exclusion
	IntervalMin      = 100 * time.Millisecond // the shortest Rule.Every
	IntervalLimit    = 10 * 365 * 24 * time.Hour
	JitterLimit      = 24 * time.Hour
	WindowLimit      = 365 * 24 * time.Hour // of Misfire.Window
	MaxLimit         = 1000                 // of Misfire.Max
	MaxRunsLimit     = 1_000_000_000
	FailuresLimit    = 1000                                                // of PauseOnFailure
	NoteLimit        = 500                                                 // bytes of the note of a pause
	TickRoom         = len("@20060102T150405.000000Z") + len(ManualSuffix) // by how much the id of a task is longer
	DescriptionLimit = 1000                                                // bytes
	BackfillLimit    = 1000                                                // ticks of one backfill
)

// Normalize sets a missing namespace to the default, compacts the payload and cuts times to whole ms. Call it before
// Validate.
func (d Definition) Normalize() Definition {
	if d.Namespace == "" {
		d.Namespace = task.DefaultNamespace
	}
	d.StartAt = d.StartAt.UTC().Truncate(time.Millisecond)
	d.EndAt = d.EndAt.UTC().Truncate(time.Millisecond)
	d.Task.Namespace = d.Namespace
	d.Task = d.Task.Normalize()
	d.Task.Ref = task.Ref{}
	return d
}

// Validate checks a normalized definition. Its error is a *task.Error with CodeInvalid and the field; the message says what
// would be valid. It names all fields that are invalid. The result does not depend on the time: see Timetable.Fires.
func (d Definition) Validate() error {
	checks := []func() error{
		d.ValidateTexts,
		d.validateTask,
		func() error { _, err := Compile(d.Spec, d.Ref, time.Time{}); return err },
		d.validateLimits,
		d.Misfire.validate,
		d.validateOverlap,
	}
	return task.JoinChecks(checks)
}

// ValidateID checks the id of a schedule. Error: CodeInvalid.
func ValidateID(id string) error {
	if len(id) > IDLimit {
		return task.Invalid("id", "is %d characters long, at most %d are allowed", len(id), IDLimit)
	}
	return task.ValidateNewID(id)
}

// ValidateTexts checks the id, the namespace, the owner, the labels and the description. The rules of all but the description
// are those of a task. Error: CodeInvalid.
func (d Definition) ValidateTexts() error {
	probe := task.Definition{Ref: d.Ref, Type: "any", Queue: task.DefaultQueue, Payload: json.RawMessage("{}"), Owner: d.Owner, Labels: d.Labels}
	return task.Join(
		ValidateID(d.ID), probe.Validate(time.Time{}), task.ValidateText("description", d.Description, DescriptionLimit),
	)
}

// validateTask checks the definition of the task.
func (d Definition) validateTask() error {
	template := d.Task
	template.Ref = task.Ref{Namespace: task.DefaultNamespace, ID: "any"} // ValidateTexts checks the schedule's
	if !template.RunAt.IsZero() || template.Delay != 0 {
		return task.Invalid("task.run_at", "leave out run_at and delay: the task of a tick is due at the tick")
	}
	return task.Join(d.Task.ValidateRoom(len(d.ID)+TickRoom), InTask(template.Validate(time.Time{})))
}

// InTask returns a copy of a *task.Error in which "task." stands in front of the field. It returns any other error, and one
// without a field, as it is.
func InTask(err error) error { return task.Within("task", err) }

func (d Definition) validateLimits() error {
	var runs, failures error
	if d.MaxRuns < 0 || d.MaxRuns > MaxRunsLimit {
		runs = task.Invalid("max_runs", "%d must be 1 to %d", d.MaxRuns, MaxRunsLimit)
	}
	if d.PauseOnFailure < 0 || d.PauseOnFailure > FailuresLimit {
		failures = task.Invalid("pause_on_failure", "%d must be 1 to %d", d.PauseOnFailure, FailuresLimit)
	}
	return task.Join(runs, failures)
}

func (m Misfire) validate() error {
	m = m.WithDefaults()
	switch {
	case !slices.Contains([]MisfirePolicy{MisfireSkip, MisfireOnce, MisfireAll}, m.Policy):
		return task.Invalid("misfire.policy", "%q must be skip, once or all", m.Policy)
	case m.Window < 0:
		return task.Invalid("misfire.window", "%s is negative", m.Window)
	case m.Window%time.Millisecond != 0:
		return task.Invalid("misfire.window", "%s is not a whole number of milliseconds", m.Window)
	case m.Window > WindowLimit:
		return task.Invalid("misfire.window", "%s is too long, at most %s is allowed", m.Window, WindowLimit)
	case m.Max < 1 || m.Max > MaxLimit:
		return task.Invalid("misfire.max", "%d must be 1 to %d", m.Max, MaxLimit)
	}
	return nil
}

func (d Definition) validateOverlap() error {
	overlaps := []Overlap{OverlapAllow, OverlapSkip, OverlapQueue, OverlapReplace}
	if !slices.Contains(overlaps, d.EffectiveOverlap()) {
		return task.Invalid("overlap", "%q must be allow, skip, queue or replace", d.Overlap)
	}
	return nil
}
