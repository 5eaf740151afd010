package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// field is one known member of a payload: where its value goes, and what it must be, in words.
type field struct {
	into any
	want string
}

// decodePayload reads a payload that may have the given fields and no others. Names are compared exactly;
// null is the same as leaving a field out. Errors: *InvalidPayloadError, naming the field.
func decodePayload(payload json.RawMessage, fields map[string]field) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil {
		return invalid("", "must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f, known := fields[name]
		if !known {
			return invalid(name, "is not known: there is %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if json.Unmarshal(members[name], f.into) != nil {
			return invalid(name, "must be %s", f.want)
		}
	}
	return nil
}

// invalid makes the error for a field of the payload, or for all of it if name is "".
func invalid(name, format string, args ...any) error {
	path := "payload"
	if name != "" {
		path += "." + name
	}
	return &InvalidPayloadError{Field: path, Message: fmt.Sprintf(format, args...)}
}
