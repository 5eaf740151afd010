package workflow

import (
	"encoding/json"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Definition defines a workflow. Zero values mean the defaults. Package expr says what expressions are.
type Definition struct {
	task.Ref
	Owner       string
	Description string
	Labels      map[string]string
	Params      []Param
	Failure     Failure
	Deadline    time.Duration   // from the begin of a run; 0: DefaultDeadline
	Closing     time.Duration   // for OnFailure, and again for Finally; 0: DefaultClosing
	AtOnce      int             // tasks of one run that are released and have not ended; 0: no bound
	MaxRuns     int             // runs that run at once; 0: no bound
	Retention   time.Duration   // of runs with their steps; 0: as of tasks
	Steps       []Step          // in any order
	OnFailure   []Step          // released when the run is going to fail, and all of Steps have verdicts
	Finally     []Step          // released when all others have verdicts, whatever these are
	Output      json.RawMessage // the result of a run: JSON with expressions; nil: none
}

// Failure says what a failure does to the other steps of its run.
type Failure string

// What a failure does.
const (
	FailureFinish Failure = "finish" // nothing: what can still run, runs. The default
	FailureStop   Failure = "stop"   // the others are cancelled
)

// Step is a node of the graph of a workflow. It has a task, waits, or decides.
type Step struct {
	ID           string
	Needs        []string         // ids of steps that come before; none: it is released at once
	Rule         Rule             // "": RuleSuccess
	When         string           // an expression, for when the rule releases the step: false skips it; "": true
	AllowFailure bool             // its failure counts as success, for what needs it and the run; cancelled does not
	Task         *task.Definition // without name, delay and retention; its payload is JSON with expressions
	Wait         *Wait
	Decide       []Choice
}

// Choice is a branch of a step that decides: of those that need the step, the ones that the first branch that holds
// names go on, and those that only other branches name are skipped.
type Choice struct {
	When string   // an expression; "": the last branch, which is taken if no other one holds
	Then []string // ids of steps that need the one that decides
}

// Limits on a definition, and its defaults.
const (
	IDLimit          = 100 // characters of an id
	StepIDLimit      = 60  // characters
	StepsLimit       = 1000
	AroundLimit      = 20 // steps of OnFailure, and of Finally
	NeedsLimit       = 200
	EdgesLimit       = 10_000
	ChoicesLimit     = 20
	WaitsLimit       = 100 // steps that wait
	ParamsLimit      = 50
	AtOnceLimit      = 10_000
	MaxRunsLimit     = 10_000
	DescriptionLimit = 1000        // bytes
	SizeLimit        = 256 << 10   // bytes of a definition as JSON
	SpanMin          = time.Second // of a deadline, and of the time for closing
	DeadlineLimit    = 30 * 24 * time.Hour
	ClosingLimit     = 24 * time.Hour
	DefaultDeadline  = 7 * 24 * time.Hour
	DefaultClosing   = 10 * time.Minute
)

// EffectiveDeadline returns how long after its begin a run is ended.
func (d Definition) EffectiveDeadline() time.Duration {
	if d.Deadline == 0 {
		return DefaultDeadline
	}
	return d.Deadline
}

// EffectiveClosing returns how long OnFailure may take, and Finally after it.
func (d Definition) EffectiveClosing() time.Duration {
	if d.Closing == 0 {
		return DefaultClosing
	}
	return d.Closing
}

// EffectiveRule returns the rule of a step.
func (s Step) EffectiveRule() Rule {
	if s.Rule == "" {
		return RuleSuccess
	}
	return s.Rule
}
