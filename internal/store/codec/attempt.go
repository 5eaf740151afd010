package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dts-sched/dts/internal/task"
)

// attemptRecord is an entry of the list of attempts, as lua/include/attempts.lua writes it. Started and Finished are ms
// since 1970.
type attemptRecord struct {
	Number   int          `json:"number"`
	Node     string       `json:"node"`
	Started  int64        `json:"started"`
	Finished int64        `json:"finished"`
	Outcome  task.Outcome `json:"outcome"`
	Error    string       `json:"error"`
}

// DecodeAttempt reads an entry of a task's list of attempts. Error: it is not JSON of the stored form, or lacks what
// each attempt has.
func DecodeAttempt(entry string) (task.Attempt, error) {
	var r attemptRecord
	if err := json.Unmarshal([]byte(entry), &r); err != nil {
		return task.Attempt{}, fmt.Errorf("an attempt's record cannot be read: %w", err)
	}
	a := task.Attempt{
		Number: r.Number, Node: r.Node, StartedAt: FromMS(r.Started), FinishedAt: FromMS(r.Finished),
		Outcome: r.Outcome, Error: r.Error,
	}
	return a, CheckAttempt(a)
}

// CheckAttempt returns an error if an attempt lacks what each one has. One that runs has no outcome yet.
func CheckAttempt(a task.Attempt) error {
	if a.Number > 0 && !a.StartedAt.IsZero() && (a.Outcome == "" || a.Outcome.Valid()) {
		return nil
	}
	return fmt.Errorf("attempt %d has no number, no start or no outcome", a.Number)
}

// CheckCheckpoint returns an error if a checkpoint is not JSON.
func CheckCheckpoint(checkpoint string) error {
	if !json.Valid([]byte(checkpoint)) {
		return errors.New("a checkpoint is not JSON")
	}
	return nil
}
