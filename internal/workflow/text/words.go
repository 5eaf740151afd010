package text

import "encoding/json"

// workflowText is a workflow.Definition in the words of files. Durations are texts such as 1h30m.
type workflowText struct {
	Description string               `json:"description,omitempty"`
	Owner       string               `json:"owner,omitempty"`
	Labels      map[string]string    `json:"labels,omitempty"`
	Params      map[string]paramText `json:"params,omitempty"`
	Failure     string               `json:"failure,omitempty"`
	Deadline    string               `json:"deadline,omitempty"`
	Closing     string               `json:"closing,omitempty"`
	AtOnce      int                  `json:"at_once,omitempty"`
	MaxRuns     int                  `json:"max_runs,omitempty"`
	Retention   string               `json:"retention,omitempty"`
	Steps       []stepText           `json:"steps"`
	OnFailure   []stepText           `json:"on_failure,omitempty"`
	Finally     []stepText           `json:"finally,omitempty"`
	Output      json.RawMessage      `json:"output,omitempty"`
}

// paramText is a workflow.Param.
type paramText struct {
	Type     string            `json:"type"`
	Required bool              `json:"required,omitempty"`
	Default  json.RawMessage   `json:"default,omitempty"`
	Enum     []json.RawMessage `json:"enum,omitempty"`
	Pattern  string            `json:"pattern,omitempty"`
	Min      *float64          `json:"min,omitempty"`
	Max      *float64          `json:"max,omitempty"`
}

// stepText is a workflow.Step.
type stepText struct {
	ID           string       `json:"id"`
	Needs        []string     `json:"needs,omitempty"`
	Rule         string       `json:"rule,omitempty"`
	When         string       `json:"when,omitempty"`
	AllowFailure bool         `json:"allow_failure,omitempty"`
	Task         *taskText    `json:"task,omitempty"`
	Decide       []choiceText `json:"decide,omitempty"`
}

// choiceText is a workflow.Choice.
type choiceText struct {
	When string   `json:"when,omitempty"`
	Then []string `json:"then"`
}

// taskText is the task of a step. Its fields are those of a submission.
type taskText struct {
	Type       string            `json:"type"`
	Queue      string            `json:"queue,omitempty"`
	Payload    json.RawMessage   `json:"payload,omitempty"`
	Timeout    string            `json:"timeout,omitempty"`
	Retry      *retryText        `json:"retry,omitempty"`
	Owner      string            `json:"owner,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	StartBy    string            `json:"start_by,omitempty"`
	Priority   int               `json:"priority,omitempty"`
	FairKey    string            `json:"fair_key,omitempty"`
	FairWeight int               `json:"fair_weight,omitempty"`
}

// retryText is a task.Retry.
type retryText struct {
	MaxAttempts int          `json:"max_attempts,omitempty"`
	MaxElapsed  string       `json:"max_elapsed,omitempty"`
	Backoff     *backoffText `json:"backoff,omitempty"`
	Delays      []string     `json:"delays,omitempty"`
}

// backoffText is a task.Backoff.
type backoffText struct {
	Initial string   `json:"initial,omitempty"`
	Factor  float64  `json:"factor,omitempty"`
	Max     string   `json:"max,omitempty"`
	Jitter  *float64 `json:"jitter,omitempty"`
}
