package task

import (
	"errors"
	"fmt"
)

// Code is the kind of an error. Codes are part of the API: programs match them, so they do not change. The wording of a
// message may.
type Code string

// The codes of errors, but for those of schedules, locks and queues, which are where these are.
const (
	CodeInvalid       Code = "invalid"           // a field of the request is invalid; Field names it
	CodeTaskNotFound  Code = "task_not_found"    // the namespace has no task with this id
	CodeTaskConflict  Code = "task_conflict"     // a task with this id, and other content, exists
	CodeNotWaiting    Code = "task_not_waiting"  // a worker has the task, or it has ended: it cannot be changed
	CodeFinished      Code = "task_finished"     // the task has ended
	CodeNotFinished   Code = "task_not_finished" // the task has not ended
	CodeNotRunning    Code = "task_not_running"  // the task is not running, so that no report on it is accepted
	CodeCannotMove    Code = "task_cannot_move"  // dtsd's own executors, and leaders, give no running work up
	CodeStep          Code = "task_is_step"      // the task is a step of a run of a workflow, and is changed with its run only
	CodeNotARun       Code = "task_not_a_run"    // the task is no run of a workflow
	CodeStaleAttempt  Code = "stale_attempt"     // the report is from another attempt than the running one
	CodeChanged       Code = "task_changed"      // the task has changed since the caller read it
	CodeOverloaded    Code = "overloaded"        // too many submissions wait at this node; nothing was done
	CodeUnavailable   Code = "unavailable"       // Redis is unreachable or refuses writes
	CodeNotReplicated Code = "not_replicated"    // what was asked for was done, but too few replicas of Redis have it, or a failover has lost it: repeat the request
	CodeUnreadable    Code = "data_unreadable"   // what Redis has of the task or the schedule cannot be read
	CodeInternal      Code = "internal"          // a bug in DTS
)

// Error is an error with a code for programs and a sentence for people.
type Error struct {
	Code    Code
	Field   string // the invalid field by its name in the API, such as "retry.backoff.factor"; "": none
	Message string // says what is invalid and what would be valid; for people
	Err     error  // the cause; nil: none

	Others []*Error // other invalid fields of the same request, at most OthersLimit; nil: none are known
}

// Error returns the field, the message and the cause, separated by colons.
func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error with the given code and a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an error with CodeInvalid for a field. The message should say what would be valid.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first *Error in the chain of err, or CodeInternal if the chain has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
