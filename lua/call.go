package lua

import (
	"strconv"
	"time"
)

// Code is the first word of a script's refusal.
type Code string

// Refused is the refusal of a part of a call; the zero value says that the part was done.
type Refused struct {
	Code   Code
	Detail string
}

// Fence names one holding of a lease: "<token>:<owner>".
type Fence string

// RunToken names one run of an attempt. It is new for each handling of a delivery, and the same when a call of begin is
// repeated.
type RunToken string

// NodeID names a node.
type NodeID string

// Call is a call of a script, with its keys and arguments, whose reply is an R.
type Call[R any] interface {
	Script() *Script
	Keys() []string
	Args() []any
	Decode(r *Reply) R
}

// flag is a bool as scripts read it: "1" or "".
func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}

// moment is a time as scripts read it: ms since 1970, "" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// span is a duration as scripts read it: whole ms, "" for nil.
func span(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
