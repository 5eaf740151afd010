// Package words has the words that definitions of workflows have in files, and in the API.
package words

import "encoding/json"

// Workflow is a workflow.Definition. Durations are texts such as 1h30m.
type Workflow struct {
	Description string            `json:"description,omitempty"`
	Owner       string            `json:"owner,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Params      map[string]Param  `json:"params,omitempty"`
	Failure     string            `json:"failure,omitempty"`
	Deadline    string            `json:"deadline,omitempty"`
	Closing     string            `json:"closing,omitempty"`
	AtOnce      int               `json:"at_once,omitempty"`
	MaxRuns     int               `json:"max_runs,omitempty"`
	Retention   string            `json:"retention,omitempty"`
	Steps       []Step            `json:"steps"`
	OnFailure   []Step            `json:"on_failure,omitempty"`
	Finally     []Step            `json:"finally,omitempty"`
	Output      json.RawMessage   `json:"output,omitempty"`
}

// Param is a workflow.Param.
type Param struct {
	Type     string            `json:"type"`
	Required bool              `json:"required,omitempty"`
	Default  json.RawMessage   `json:"default,omitempty"`
	Enum     []json.RawMessage `json:"enum,omitempty"`
	Pattern  string            `json:"pattern,omitempty"`
	Min      *float64          `json:"min,omitempty"`
	Max      *float64          `json:"max,omitempty"`
}

// Step is a workflow.Step.
type Step struct {
	ID           string   `json:"id"`
	Needs        []string `json:"needs,omitempty"`
	Rule         string   `json:"rule,omitempty"`
	When         string   `json:"when,omitempty"`
	AllowFailure bool     `json:"allow_failure,omitempty"`
	Task         *Task    `json:"task,omitempty"`
	Wait         *Wait    `json:"wait,omitempty"`
	Decide       []Choice `json:"decide,omitempty"`
}

// Wait is a workflow.Wait.
type Wait struct {
	For       string    `json:"for,omitempty"`
	Until     string    `json:"until,omitempty"`
	Signal    string    `json:"signal,omitempty"`
	Approval  *Approval `json:"approval,omitempty"`
	Timeout   string    `json:"timeout,omitempty"`
	OnTimeout string    `json:"on_timeout,omitempty"`
}

// Approval is a workflow.Approval.
type Approval struct {
	By   []string         `json:"by,omitempty"`
	Form map[string]Param `json:"form,omitempty"`
}

// Choice is a workflow.Choice.
type Choice struct {
	When string   `json:"when,omitempty"`
	Then []string `json:"then"`
}

// Task is the task of a step. Its fields are those of a submission.
type Task struct {
	Type       string            `json:"type"`
	Queue      string            `json:"queue,omitempty"`
	Payload    json.RawMessage   `json:"payload,omitempty"`
	Timeout    string            `json:"timeout,omitempty"`
	Retry      *Retry            `json:"retry,omitempty"`
	Owner      string            `json:"owner,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	StartBy    string            `json:"start_by,omitempty"`
	Priority   int               `json:"priority,omitempty"`
	FairKey    string            `json:"fair_key,omitempty"`
	FairWeight int               `json:"fair_weight,omitempty"`
	LimitKey   string            `json:"limit_key,omitempty"`
	Cost       int               `json:"cost,omitempty"`
	Slots      int               `json:"slots,omitempty"`
	Select     string            `json:"select,omitempty"`
	Prefer     []Preference      `json:"prefer,omitempty"`
	Route      *Route            `json:"route,omitempty"`
}

// Preference is a route.Wish. Left out, the weight is 1.
type Preference struct {
	Select string `json:"select"`
	Weight *int   `json:"weight,omitempty"`
}

// Route is a route.Route with the key by which it chooses.
type Route struct {
	By     string   `json:"by,omitempty"`
	Key    string   `json:"key,omitempty"`
	Order  []string `json:"order,omitempty"`
	Sticky string   `json:"sticky,omitempty"`
	Load   *Load    `json:"load,omitempty"`
}

// Load is a route.Load.
type Load struct {
	CPU      float64 `json:"cpu,omitempty"`
	Memory   float64 `json:"memory,omitempty"`
	Slots    float64 `json:"slots,omitempty"`
	Response float64 `json:"response,omitempty"`
}

// Retry is a task.Retry.
type Retry struct {
	MaxAttempts int      `json:"max_attempts,omitempty"`
	MaxElapsed  string   `json:"max_elapsed,omitempty"`
	Backoff     *Backoff `json:"backoff,omitempty"`
	Delays      []string `json:"delays,omitempty"`
}

// Backoff is a task.Backoff.
type Backoff struct {
	Initial string   `json:"initial,omitempty"`
	Factor  float64  `json:"factor,omitempty"`
	Max     string   `json:"max,omitempty"`
	Jitter  *float64 `json:"jitter,omitempty"`
}
