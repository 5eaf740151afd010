package task

import "time"

// Defaults of fields that a submission leaves out.
const (
	DefaultNamespace = "default"
	DefaultQueue     = "default"

	DefaultMaxAttempts    = 25
	DefaultBackoffInitial = time.Second
	DefaultBackoffFactor  = 2.0
	DefaultBackoffMax     = time.Hour
	DefaultSnooze         = 24 * time.Hour // for so long an attempt may be snoozed after the first one was due, without retry.max_elapsed

	// DefaultSpread is the greatest share that is added at random to a wait that a target asked for. A jitter of the
	// policy takes its place.
	DefaultSpread = 0.1

	// Commands are tried less often, as are tasks of before the present defaults (see Task.Earlier).
	CommandType          = "shell"
	CommandMaxAttempts   = 4
	CommandBackoffMax    = 10 * time.Minute
	CommandBackoffJitter = 0.1

	// DefaultTimeout is the timeout of types that have no default of their own: see Types.
	DefaultTimeout = 10 * time.Minute

	// DefaultRetention is for tasks that succeeded or were cancelled; failed ones stay for DefaultFailedRetention, so
	// that somebody can look at them after the weekend.
	DefaultRetention       = 24 * time.Hour
	DefaultFailedRetention = 7 * 24 * time.Hour
)

// Limits on what may be submitted. A submission over a limit is refused, and the error names the field.
const (
	IDLimit        = 200                       // characters of an id, a namespace or a queue name
	TypeLimit      = 100                       // characters
	PayloadLimit   = 256 << 10                 // bytes of compact JSON
	DepthLimit     = 100                       // levels of nested arrays and objects in a payload
	OwnerLimit     = 200                       // bytes
	LabelsLimit    = 32                        // labels of one task
	LabelLimit     = 200                       // bytes of the name or of the value of a label
	AttemptsLimit  = 1000                      // of retry.max_attempts, and after which none is snoozed or interrupted
	LeastSnooze    = time.Second               // of the wait for which a handler puts its task off
	DelaysLimit    = 100                       // entries of retry.delays
	BackoffLimit   = 30 * 24 * time.Hour       // of a wait between two attempts
	TimeoutLimit   = 7 * 24 * time.Hour        // of the time of one attempt
	RetentionLimit = 365 * 24 * time.Hour      // of the time a task is kept after its end
	HorizonLimit   = 10 * 365 * 24 * time.Hour // how far ahead a task may be due
)

// A node reports again the ends of attempts that it has reported lately, if Redis may have lost them.
const (
	ReportedFor   = time.Minute // for so long at least
	ReportedLimit = 10_000      // ends of one node
)

// InlinePayloadLimit is the size, in bytes, of the longest payload that is stored together with the rest of a definition.
const InlinePayloadLimit = 1 << 10

// Limits on what a task leaves behind. Longer texts are cut and end with CutMark; of longer lists, the oldest entries go.
const (
	ResultLimit       = 16 << 10 // bytes
	ProgressNoteLimit = 200      // bytes
	ErrorLimit        = 2 << 10  // bytes
	HistoryLimit      = 100      // attempts in the history
	LogLimit          = 1000     // log lines
	LogLineLimit      = 4 << 10  // bytes of one line
)

// CheckpointLimit is the size, in bytes, of the longest checkpoint, as compact JSON. Longer ones are refused.
const CheckpointLimit = 64 << 10

// EffectiveRetention returns how long the task is kept once it has ended in the given state.
func (d Definition) EffectiveRetention(end State) time.Duration {
	switch {
	case d.Retention > 0:
		return d.Retention
	case end == Failed:
		return DefaultFailedRetention
	}
	return DefaultRetention
}

// FirstDue returns when the first attempt is due, for a task created at the given time: never before that time.
func (d Definition) FirstDue(created time.Time) time.Time {
	if d.RunAt.After(created) {
		return d.RunAt
	}
	return created.Add(d.Delay)
}

// AsideKept is how long Redis keeps what a repair has put aside because nobody could read it.
const AsideKept = 30 * 24 * time.Hour
