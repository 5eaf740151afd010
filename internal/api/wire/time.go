// Package wire has what requests and answers of the API consist of. It links neither a server nor a client, so that
// both have the same types, and programs that use package dts convert theirs once, whichever way they go.
package wire

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"
)

// timeLayout has three decimals always, so that times sort as text.
const timeLayout = `"2006-01-02T15:04:05.000Z"`

// Time is a moment as the API writes it: in UTC, with exactly three decimals.
type Time struct{ time.Time }

// MarshalJSON writes the time. Error: its year has not four digits.
func (t Time) MarshalJSON() ([]byte, error) {
	t.Time = t.UTC()
	if year := t.Year(); year < 0 || year > 9999 {
		return nil, &json.UnsupportedValueError{Value: reflect.ValueOf(t.Time), Str: "the year " + strconv.Itoa(year)}
	}
	return t.AppendFormat(make([]byte, 0, len(timeLayout)), timeLayout), nil
}

// UnmarshalJSON reads a time as RFC 3339 has it, in any zone. Error: a *json.UnmarshalTypeError, to which package json
// adds the field.
func (t *Time) UnmarshalJSON(text []byte) error {
	if err := t.Time.UnmarshalJSON(text); err != nil {
		return &json.UnmarshalTypeError{Value: string(text), Type: reflect.TypeFor[Time]()}
	}
	t.Time = t.UTC()
	return nil
}
