package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// InvalidPayloadError says what is invalid about a payload. Another attempt would get the same error.
type InvalidPayloadError struct {
	Field   string // such as "payload.url"; "payload" if it is invalid as a whole
	Message string // what is invalid, or what would be valid
}

func (e *InvalidPayloadError) Error() string {
	return task.CutError(e.Field+": "+e.Message, task.ErrorLimit)
}

// Invalid makes the error for a field of the payload, such as "url", or for all of it if name is "".
func Invalid(name, format string, args ...any) error {
	path := "payload"
	if name != "" {
		path += "." + name
	}
	return &InvalidPayloadError{Field: path, Message: fmt.Sprintf(format, args...)}
}

// Field is a member that a payload may have.
type Field struct {
	Into any    // a pointer to where the value goes, as for json.Unmarshal
	Want string // what the value must be, in words: "a string"
}

// DecodePayload reads a payload that may have the given fields and no others. It compares names exactly, and takes null
// as if the field were left out. Errors: *InvalidPayloadError, naming the field.
func DecodePayload(payload json.RawMessage, fields map[string]Field) error {
	return DecodeField("", payload, fields)
}

// DecodeField reads a field of the payload that is an object, such as "expect", as DecodePayload reads the payload.
func DecodeField(path string, value json.RawMessage, fields map[string]Field) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return Invalid(path, "must be a JSON object")
	}
	if path != "" {
		path += "."
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f, known := fields[name]
		if !known {
			return Invalid(path+name, "is not known: there is %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if json.Unmarshal(members[name], f.Into) != nil {
			return Invalid(path+name, "must be %s", f.Want)
		}
	}
	return nil
}
