package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// AlikeBesides reports whether a definition means the same as that of a task, besides the payload: a default of the
// task may be left out in one of them. That holds for what is submitted. For a schedule's task it makes a difference
// whether its policy is spelled out: see MustEndBeforeTick.
func (t Types) AlikeBesides(there Task, d Definition) bool {
	defaults := there.defaultRetry()
	return reflect.DeepEqual(t.spelledOut(there.Definition, defaults), t.spelledOut(d, defaults))
}

// SamePayload returns a function that reports whether another payload means the same as this one: the members of
// objects may have another order, and numbers may be written otherwise: 1 and 1.0 are the same.
func SamePayload(there json.RawMessage) func(json.RawMessage) bool {
	decoded := sync.OnceValues(func() (any, error) { return decodeJSON(there) })
	return func(other json.RawMessage) bool {
		if bytes.Equal(there, other) {
			return true
		}
		a, errA := decoded()
		b, errB := decodeJSON(other)
		return errA == nil && errB == nil && reflect.DeepEqual(a, b)
	}
}

// spelledOut returns a definition with the defaults in place of what it leaves out, and without its payload.
func (t Types) spelledOut(d Definition, defaults Retry) Definition {
	d = d.Normalize()
	d.Timeout = t.Timeout(d)
	if d.Retry = d.Retry.resolved(defaults); len(d.Retry.Delays) == 0 {
		d.Retry.Delays = nil
	}
	if len(d.Labels) == 0 {
		d.Labels = nil
	}
	if !d.RunAt.IsZero() {
		d.RunAt = time.UnixMilli(d.RunAt.UnixMilli()) // equal times are equal values
	}
	d.Payload = nil
	return d
}

// decodeJSON decodes JSON so that equal values are deeply equal.
func decodeJSON(text json.RawMessage) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return withPlainNumbers(value), err
}

// withPlainNumbers replaces the numbers in a value by their plainNumber.
func withPlainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		return plainNumber(v)
	case []any:
		for i := range v {
			v[i] = withPlainNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withPlainNumbers(v[name])
		}
	}
	return value
}

// plainNumber writes a number so that equal numbers are equal texts: 1, 1.0 and 10e-1 are 1e0. It works on the digits,
// since 64 bits do not hold all numbers.
func plainNumber(n json.Number) json.Number {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(n.String()), "e")
	power, err := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 32)
	if err != nil { // nobody writes such a number in two ways
		return n
	}
	unsigned := strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0"
	}
	power += int64(len(digits) - len(short) - len(fraction))
	sign := mantissa[:len(mantissa)-len(unsigned)]
	return json.Number(sign + short + "e" + strconv.FormatInt(power, 10))
}
