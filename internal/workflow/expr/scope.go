package expr

import (
	"slices"
	"time"
)

// Type is the declared type of a param.
type Type string

// The types of params.
const (
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	List    Type = "list"
	Object  Type = "object"
)

// Any is the type of what has none before it is read. No param can have it.
const Any Type = "any"

// Scope says what the expressions at one place may name. Fields of the run can always be read.
type Scope struct {
	Params map[string]Type
	Steps  []string // ids of the steps that have verdicts when the expression is evaluated, in any order
	Prev   string   // the step that prev means, one of Steps; "": none
	Texts  bool     // a string of a template stays one, also if it is nothing but an expression
}

// Values are what the names of a scope stand for. Only what is named is looked at: Steps needs those of Template.Steps.
type Values struct {
	Params map[string]any // as of encoding/json, or Go numbers; one that is missing or nil is null
	Run    Run
	Steps  map[string]Step
	Work   *Work // of all evaluations that share one CostLimit; nil: each has its own
}

// Work counts the work of evaluations. The zero value is ready for use.
type Work struct{ units uint64 }

// Units returns the work so far, in the units of CostLimit.
func (w *Work) Units() int { return int(w.units) }

// isDone reports whether the evaluations have worked as much as they may.
func (w *Work) isDone() bool { return w != nil && w.units > CostLimit }

func (w *Work) add(units uint64) {
	if w != nil {
		w.units += units
	}
}

// Run is what expressions can read of a run.
type Run struct {
	ID       string
	Workflow string
	Revision int
	Attempt  int
	Created  time.Time
	Started  time.Time
	Tick     time.Time // zero: none, and run.tick is when the run was created
}

// Step is what expressions can read of a step.
type Step struct {
	State   string
	Error   string
	Attempt int
	Task    string
	Output  string // read as JSON if it is JSON, as text if not; "": null
}

// momentLayout is the form of moments in all JSON of DTS.
const momentLayout = "2006-01-02T15:04:05.000Z"

var runFields = map[string]field[Run]{
	"id":       {String, func(r Run) any { return r.ID }},
	"workflow": {String, func(r Run) any { return r.Workflow }},
	"revision": {Integer, func(r Run) any { return r.Revision }},
	"attempt":  {Integer, func(r Run) any { return r.Attempt }},
	"created":  {String, func(r Run) any { return moment(r.Created) }},
	"started":  {String, func(r Run) any { return moment(r.Started) }},
	"tick":     {String, func(r Run) any { return moment(r.tick()) }},
}

var stepFields = map[string]field[Step]{
	"state":   {String, func(s Step) any { return s.State }},
	"error":   {String, func(s Step) any { return s.Error }},
	"attempt": {Integer, func(s Step) any { return s.Attempt }},
	"task":    {String, func(s Step) any { return s.Task }},
	"output":  {Any, func(s Step) any { return output(s.Output) }},
}

// field is what can be read of T: its type, and its value as value takes it.
type field[T any] struct {
	typ  Type
	read func(T) any
}

// name is a name that an expression reads, such as steps.a.output.
type name struct{ root, member, field string }

// The roots of names.
const (
	rootParams = "params"
	rootRun    = "run"
	rootSteps  = "steps"
	rootPrev   = "prev"
)

var roots = []string{rootParams, rootRun, rootSteps, rootPrev}

// String is the name as it is written.
func (n name) String() string {
	text := n.root + member(n.member)
	if n.field != "" {
		text += member(n.field)
	}
	return text
}

// of returns what the name stands for, as value takes it.
func (n name) of(v Values) any {
	switch n.root {
	case rootParams:
		return v.Params[n.member]
	case rootRun:
		return runFields[n.member].read(v.Run)
	default:
		return stepFields[n.field].read(v.Steps[n.member])
	}
}

func (r Run) tick() time.Time {
	if r.Tick.IsZero() {
		return r.Created
	}
	return r.Tick
}

func moment(t time.Time) string { return t.UTC().Format(momentLayout) }

func (s Scope) has(step string) bool { return slices.Contains(s.Steps, step) }
