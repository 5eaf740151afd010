package task

import (
	"errors"
	"fmt"
)

// Code says what kind of "no" an error is. Codes are stable: people script against them. The wording of a
// message is not.
type Code string

// The catalogue of what DTS answers when it says no.
const (
	CodeInvalid          Code = "invalid"            // a field of the request is wrong; Field names it
	CodeTaskNotFound     Code = "task_not_found"     // no task of that id in that namespace
	CodeTaskConflict     Code = "task_conflict"      // the id is taken by a task with other content
	CodeNotWaiting       Code = "task_not_waiting"   // only a task that waits on the wheel can be changed
	CodeFinished         Code = "task_finished"      // the task has already ended
	CodeNotFinished      Code = "task_not_finished"  // the task has not ended yet
	CodeNotRunning       Code = "task_not_running"   // only a running task can report
	CodeStaleAttempt     Code = "stale_attempt"      // the report is not from the attempt that runs now
	CodeChanged          Code = "task_changed"       // somebody else changed the task in between
	CodeQueueNotFound    Code = "queue_not_found"    // no task was ever put into a queue of that name
	CodeScheduleNotFound Code = "schedule_not_found" // no schedule of that id in that namespace
	CodeScheduleChanged  Code = "schedule_changed"   // another revision is in force than the request goes by
	CodeScheduleBusy     Code = "schedule_busy"      // the overlap policy of the schedule keeps it from running now
	CodeRevisionNotFound Code = "revision_not_found" // the schedule had no such revision, or no longer remembers it
	CodeUnavailable      Code = "unavailable"        // Redis cannot be reached, or refuses to write
	CodeInternal         Code = "internal"           // a fault of DTS
)

// Error is an error with a code for programs and a sentence for people.
type Error struct {
	Code    Code
	Field   string // the field at fault, as the API names it ("retry.backoff.factor"); "" if there is none
	Message string
	Err     error // what caused it, if anything
}

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

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error with a code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid makes the error for a field that is wrong; the message says what would be right.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CodeOf is the code of err, or CodeInternal if it has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
