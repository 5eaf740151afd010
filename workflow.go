package dts

import "time"

// TypeWorkflow is the type of tasks that are runs of workflows. Leaders carry these on, and no worker has a handler for
// it.
const TypeWorkflow = "workflow"

// Workflow is work in steps. [Client.Run] starts a run of it, and [Client.PutWorkflow] keeps it under a name.
// Steps that do not need each other run side by side. Each is a task, which workers run as any other. Only Steps is
// required.
//
// Texts in what a workflow says may have expressions, as "${{ steps.load.output.rows }}" or "${{ params.day }}". A text
// that is nothing else becomes the value itself. docs/workflows.md explains them.
type Workflow struct {
	Description string
	Owner       string            // whoever answers for it; also of those of its steps that have none
	Labels      map[string]string // also of those of its steps that have none
	Params      map[string]Parameter
	Steps       Steps
	OnFailure   Steps // run once all of Steps have ended, if the run is going to fail; at most 20
	Finally     Steps // run once all others have ended, whatever became of them; at most 20
	Failure     FailurePolicy
	AtOnce      int // how many tasks of one run may be under way at once; 0: no bound
	MaxRuns     int // how many runs of one that is put may run at once, others wait; 0: no bound
	// Deadline is how long a run may take, at most 30 days; 0 means 7 days. Then its steps are cancelled, and it fails
	// once they have ended: a task that does not stop ends by its Timeout.
	Deadline  time.Duration
	Closing   time.Duration // how long OnFailure may take, and Finally after it, until it is cancelled; 0: 10 minutes
	Retention time.Duration // how long a run and its steps are kept; 0 means 24 h, or 7 days if it failed
	Output    any           // the result of a run that succeeds: becomes JSON, with expressions; nil: none
}

// FailurePolicy says what a failure does to the other steps of a run.
type FailurePolicy string

// What a failure does. "" means FailureFinish.
const (
	FailureFinish FailurePolicy = "finish" // nothing: steps that do not depend on it go on
	FailureStop   FailurePolicy = "stop"   // the others are cancelled
)

// Parameter declares a parameter of the runs of a workflow.
type Parameter struct {
	Type     ParameterType
	Required bool     // a run without it is refused
	Default  any      // its value in a run without it; nil: null
	Enum     []any    // the values that it can have; nil: all
	Pattern  string   // of a string: the whole of it matches this regular expression (RE2)
	Min, Max *float64 // of an integer or a number
}

// ParameterType is the type of a parameter.
type ParameterType string

// The types of parameters.
const (
	ParameterString  ParameterType = "string"
	ParameterInteger ParameterType = "integer"
	ParameterNumber  ParameterType = "number"
	ParameterBoolean ParameterType = "boolean"
	ParameterList    ParameterType = "list"
	ParameterObject  ParameterType = "object"
)

// Step is a task of a workflow, or it waits, or it decides which of the steps behind it go on. It has an ID, and one of
// Type, Wait and Decide.
type Step struct {
	ID    string   // a small letter and up to 59 more, digits and _; its task is "<run>@.<step>"
	Needs []string // ids of the steps that come before it; none: it runs at once. Chain sets it
	Rule  Rule     // which ends of those have it run; "" means RuleSuccess
	// When is an expression, without ${{ }}, for when the rule has the step run: if it is false, the step is skipped.
	When string

	// The task is as of a [Submission]. Payload may have expressions.
	Type    string
	Payload any
	// Set puts expressions into Payload where Go has another type than string, by the names that fields have in JSON:
	// {"limit": dts.Param("limit"), "range.first": "${{ prev.output.first }}"}.
	Set map[string]string
	// AllowFailure: its failure counts as success, for the steps that need it and for the run. A cancellation does not,
	// nor does a StartBy that was missed, which is one.
	AllowFailure bool
	Queue        string
	Timeout      time.Duration
	Retry        Retry
	Owner        string
	Labels       map[string]string
	StartBy      time.Duration // how long after its release a worker may begin it, else it is cancelled; 0 for no bound
	Priority     int
	FairKey      string
	FairWeight   int
	LimitKey     string
	Cost         int // 0 means 1
	Slots        int // 0 means 1
	Select       string
	Prefer       []Preference
	Route        Route

	Wait   *Wait    // what it waits for
	Decide []Choice // the branches: the first one whose When is true is taken
}

// Wait says what a step waits for: one of For, Until, Signal and Approval. It takes no worker meanwhile.
type Wait struct {
	For   time.Duration // after what it needs has ended, at most 30 days
	Until string        // a moment, as "2026-11-30T18:00:00Z"; can have expressions, as "${{ params.at }}"
	// Signal is the name of a signal that somebody gives to the run, as by [Client.SignalRun]. Its data is the output of
	// the step.
	Signal    string
	Approval  *Approval     // a question to people. The output of the step is their [Answer]
	Timeout   time.Duration // of a signal or an approval, at most 30 days; 0: it waits until the run ends
	OnTimeout OnTimeout
}

// Approval is a question to people, which [Client.ApproveStep] and [Client.RejectStep] answer. A rejection fails the
// step.
type Approval struct {
	By   []string             // whom it asks, by names or roles. It is shown, and not checked
	Form map[string]Parameter // what whoever approves fills in
}

// OnTimeout says what becomes of a step that has waited too long.
type OnTimeout string

// What becomes of such a step. "" means TimeoutFail.
const (
	TimeoutFail     OnTimeout = "fail"     // it fails
	TimeoutSkip     OnTimeout = "skip"     // it is skipped
	TimeoutContinue OnTimeout = "continue" // it succeeds, without an output
)

// Choice is a branch of a step that decides. Of the steps that need it, those that the branch names go on, and those
// that only other branches name are skipped.
type Choice struct {
	When string   // an expression, without ${{ }}; the last branch has none: it is for when no other one is true
	Then []string // ids of steps that need the one that decides
}

// Rule says which ends of the steps that it needs have a step run. A step that was cancelled, or never ran because of a
// failure, counts as failed.
type Rule string

// The rules. If the steps end otherwise, the step is skipped, or StepUpstreamFailed where it wants success.
const (
	RuleSuccess        Rule = "success"                  // none failed, and one at least succeeded; the default
	RuleAllSuccess     Rule = "all_success"              // all succeeded
	RuleAllFailed      Rule = "all_failed"               // all failed
	RuleAllDone        Rule = "all_done"                 // all have ended
	RuleAllSkipped     Rule = "all_skipped"              // all were skipped
	RuleAllDoneSuccess Rule = "all_done_min_one_success" // all have ended, none was skipped, and one succeeded
	RuleOneSuccess     Rule = "one_success"              // one succeeded; does not wait for the others
	RuleOneFailed      Rule = "one_failed"               // one failed; does not wait for the others
	RuleOneDone        Rule = "one_done"                 // one succeeded or failed; does not wait for the others
	RuleFailure        Rule = "failure"                  // all have ended, and one failed
	RuleNoneFailed     Rule = "none_failed"              // all have ended, and none failed
	RuleNoneSkipped    Rule = "none_skipped"             // all have ended, and none was skipped
)

// Output is the expression for what the handler of a step has returned: "${{ steps.load.output }}". Its value has the
// type of the JSON that it is. ".rows" behind output is a field of it.
func Output(step string) string { return "${{ steps." + step + ".output }}" }

// Param is the expression for a parameter of the run: "${{ params.day }}".
func Param(name string) string { return "${{ params." + name + " }}" }

// With returns the payload of a run with parameters: a struct or a map whose JSON is an object, or nil. It is for what
// [Client.Run] has no words for, as an ID or a delay:
//
//	client.Submit(ctx, dts.Submission{ID: "etl-1125", Type: dts.TypeWorkflow, Payload: etl.With(params)})
//
// [ScheduleDefinition] and [FollowUp] can have it, too.
func (w Workflow) With(params any) any { return start{workflow: w, params: params} }
