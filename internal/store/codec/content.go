package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// SameContent reports whether a stored definition has the content of d, whichever release has stored it: in another order, or with fields
// of which this release knows nothing, as long as they are empty. The payload may be stored apart. What cannot be read is not the same.
func SameContent(stored string, d task.Definition) bool {
	def, err := EncodeDefinition(d)
	return err == nil && SameStored(stored, def)
}

// SameStored is SameContent for a definition that was encoded before.
func SameStored(stored, def string) bool {
	given, errGiven := content(def)
	found, errFound := content(stored)
	return errGiven == nil && errFound == nil && given == found
}

// members are the names of the fields of a stored definition that this release knows.
var members = func() map[string]bool {
	known := make(map[string]bool)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[head]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
	}
	return known
}()

// WithUnknown adds to an encoded definition, behind its own fields, those of a stored one of which this release knows
// nothing, unless they are empty. Error: the head of the stored one is not JSON of the stored form.
func WithUnknown(def, stored string) (string, error) {
	line, _, _ := strings.Cut(stored, "\n")
	var fields map[string]json.RawMessage // as they are written
	var values map[string]any
	if err := errors.Join(json.Unmarshal([]byte(line), &fields), json.Unmarshal([]byte(line), &values)); err != nil {
		return "", fmt.Errorf("the head of a definition cannot be read: %w", err)
	}
	dropEmpty(values)
	own, payload, _ := strings.Cut(def, "\n")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !members[name] {
			own = fmt.Sprintf("%s,%q:%s}", strings.TrimSuffix(own, "}"), name, fields[name])
		}
	}
	return own + "\n" + payload, nil
}

// content is a text that is equal for definitions with the same content: the head with sorted fields and without those that are empty, which
// means that they have their default, and the SHA-1 of the payload. Error: the head is not JSON of the stored form.
func content(stored string) (string, error) {
	line, payload, _ := strings.Cut(stored, "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		return "", fmt.Errorf("the head of a definition cannot be read: %w", err)
	}
	if b, ok := fields["backoff"].(map[string]any); ok {
		jitter := b["jitter"] // none at all is not the default
		dropEmpty(b)
		if jitter != nil {
			b["jitter"] = jitter
		}
	}
	if fields["queue"] == task.DefaultQueue {
		delete(fields, "queue")
	}
	dropEmpty(fields)
	head, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	if payload != "" && payload[0] != '@' { // else there is only its SHA-1
		payload = "@" + Digest(payload)
	}
	return string(head) + "\n" + payload, nil
}

// dropEmpty removes the fields that mean nothing.
func dropEmpty(fields map[string]any) {
	for name, value := range fields {
		empty := value == nil || value == "" || value == 0.0 || value == false
		switch v := value.(type) {
		case map[string]any:
			empty = len(v) == 0
		case []any:
			empty = len(v) == 0
		}
		if empty {
			delete(fields, name)
		}
	}
}
