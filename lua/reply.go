package lua

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Reply reads the reply of a script, one field after the other. It keeps the first error, for a field that is missing or
// has another type; reads after it return zero values. The argument of each method is the name of the field, for errors.
type Reply struct {
	script string
	values []any
	next   int
	err    error
}

// Decode decodes the reply to a call; value is as go-redis returns it. Error: the reply does not have the fields of the
// script's header.
func Decode[R any](call Call[R], value any) (R, error) {
	r := &Reply{script: call.Script().Name}
	values, ok := value.([]any)
	if !ok {
		r.err = fmt.Errorf("script %s: its reply is a %T, want a list", r.script, value)
	}
	r.values = values
	decoded := call.Decode(r)
	if r.err == nil && r.next < len(r.values) {
		r.err = fmt.Errorf("script %s: its reply has %d fields, want %d", r.script, len(r.values), r.next)
	}
	if r.err != nil {
		var zero R
		return zero, r.err
	}
	return decoded, nil
}

// take returns the next value.
func (r *Reply) take(field string) any {
	if r.err != nil {
		return nil
	}
	if r.next >= len(r.values) {
		r.err = fmt.Errorf("script %s: its reply has no field %s", r.script, field)
		return nil
	}
	r.next++
	return r.values[r.next-1]
}

// wrong keeps the error for a field whose value is not what want says.
func (r *Reply) wrong(field string, value any, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("script %s: %s is %T %v, want %s", r.script, field, value, value, want)
	}
}

// Text reads a string; nil is "".
func (r *Reply) Text(field string) string {
	switch v := r.take(field).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		r.wrong(field, v, "text")
		return ""
	}
}

// Number reads an integer, which may be decimal text; nil is 0.
func (r *Reply) Number(field string) int {
	switch v := r.take(field).(type) {
	case nil:
		return 0
	case int64:
		return int(v)
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return int(n)
		}
		f, err := strconv.ParseFloat(v, 64) // Redis writes large scores of sorted sets as floats
		if err != nil {
			r.wrong(field, v, "a number")
		}
		return int(f)
	default:
		r.wrong(field, v, "a number")
		return 0
	}
}

// Flag reads a 1 or a 0.
func (r *Reply) Flag(field string) bool { return r.Number(field) == 1 }

// Duration reads whole ms.
func (r *Reply) Duration(field string) time.Duration {
	return time.Duration(r.Number(field)) * time.Millisecond
}

// Time reads ms since 1970; nil and 0 are the zero time.
func (r *Reply) Time(field string) time.Time {
	ms := r.Number(field)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// Ref reads "namespace:id".
func (r *Reply) Ref(field string) task.Ref {
	text := r.Text(field)
	if r.err != nil {
		return task.Ref{}
	}
	ref, err := task.ParseRef(text)
	if err != nil {
		r.wrong(field, text, "a name")
	}
	return ref
}

// Refused reads a refusal, or "".
func (r *Reply) Refused(field string) Refused {
	code, detail, _ := strings.Cut(r.Text(field), " ")
	return Refused{Code: Code(code), Detail: detail}
}

// State reads a task's state.
func (r *Reply) State(field string) task.State { return task.State(r.Text(field)) }

// TickOutcome reads the outcome of a tick.
func (r *Reply) TickOutcome(field string) schedule.Outcome { return schedule.Outcome(r.Text(field)) }

// list reads a list of values.
func (r *Reply) list(field string) []any {
	switch v := r.take(field).(type) {
	case []any:
		return v
	default:
		r.wrong(field, v, "a list")
		return nil
	}
}

// Hash reads a list of names and values in turn, as HGETALL replies.
func (r *Reply) Hash(field string) map[string]string {
	values := r.list(field)
	hash := make(map[string]string, len(values)/2)
	for e := range r.elements(field, values, 2) {
		name := e.Text(field)
		hash[name] = e.Text(field)
	}
	return hash
}

// List iterates over a list whose elements have size values each. The Reply of each iteration reads one element.
func (r *Reply) List(field string, size int) iter.Seq[*Reply] {
	return r.elements(field, r.list(field), size)
}

// elements iterates over values, size of them at a time.
func (r *Reply) elements(field string, values []any, size int) iter.Seq[*Reply] {
	return func(yield func(*Reply) bool) {
		if len(values)%size != 0 {
			r.wrong(field, len(values), fmt.Sprintf("a multiple of %d values", size))
			return
		}
		for i := 0; i < len(values) && r.err == nil; i += size {
			e := &Reply{script: r.script, values: values[i : i+size]}
			more := yield(e)
			if r.err == nil {
				r.err = e.err
			}
			if !more {
				return
			}
		}
	}
}
