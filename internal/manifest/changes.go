package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
)

// Field is one field of a definition: its path, as in task.retry.max_attempts, and the text of its value.
type Field struct{ Name, Value string }

// Change is a field that differs between two definitions. "" stands for a field that is left out.
type Change struct{ Name, Before, After string }

// Fields returns the fields of a definition, sorted by name. Its argument is the JSON of a definition, or of a
// schedule, of which it takes the definition.
func Fields(raw json.RawMessage) ([]Field, error) {
	var d wire.ScheduleDefinition
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	d.Namespace, d.Paused = nil, nil // they are not part of the definition
	definition, err := wire.Encode(d)
	if err != nil {
		return nil, err
	}
	return sortedFields(definition)
}

// sortedFields returns the fields of an object, sorted by name.
func sortedFields(raw json.RawMessage) ([]Field, error) {
	fields, err := flatten("", raw)
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return fields, err
}

// flatten returns the fields of an object and of the objects in it. A list is one value, but steps of a workflow are
// fields by their ids.
func flatten(path string, raw json.RawMessage) ([]Field, error) {
	var object map[string]json.RawMessage
	switch {
	case bytes.HasPrefix(raw, []byte("{")):
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
	case path == "steps" || path == "on_failure" || path == "finally":
		object = stepsByID(raw)
	}
	if len(object) == 0 {
		return []Field{{path, plain(raw)}}, nil
	}
	var fields []Field
	for name, value := range object {
		if path != "" {
			name = path + "." + name
		}
		inner, err := flatten(name, value)
		if err != nil {
			return nil, err
		}
		fields = append(fields, inner...)
	}
	return fields, nil
}

// stepsByID returns the steps of a list by their ids, nil if it is another list.
func stepsByID(list json.RawMessage) map[string]json.RawMessage {
	var steps []map[string]json.RawMessage
	if json.Unmarshal(list, &steps) != nil {
		return nil
	}
	byID := make(map[string]json.RawMessage, len(steps))
	for _, step := range steps {
		id := textOf(step["id"])
		delete(step, "id")
		raw, err := wire.Encode(step)
		if id == "" || err != nil {
			return nil
		}
		byID[id] = raw
	}
	return byID
}

// plain returns the text of a JSON value; a string is without quotes.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && !bytes.Equal(raw, []byte("null")) {
		return text
	}
	return string(wire.PlainSigns(raw))
}

// Changes returns the fields that differ between two definitions, sorted by name. The arguments are as for Fields.
func Changes(before, after json.RawMessage) ([]Change, error) {
	return differences(before, after, Fields)
}

// WorkflowChanges is Changes for definitions of workflows. A field of a step has the id of the step in its name, as in
// steps.load.needs, so that the order of steps does not count.
func WorkflowChanges(before, after json.RawMessage) ([]Change, error) {
	return differences(before, after, sortedFields)
}

// LimitChanges is Changes for what limits allow.
func LimitChanges(before, after json.RawMessage) ([]Change, error) {
	return differences(before, after, sortedFields)
}

// differences returns the fields that differ, sorted by name.
func differences(
	before, after json.RawMessage, fields func(json.RawMessage) ([]Field, error),
) ([]Change, error) {
	oldFields, err := fields(before)
	if err != nil {
		return nil, err
	}
	newFields, err := fields(after)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]Change)
	for _, f := range oldFields {
		byName[f.Name] = Change{Name: f.Name, Before: f.Value}
	}
	for _, f := range newFields {
		byName[f.Name] = Change{f.Name, byName[f.Name].Before, f.Value}
	}
	var changes []Change
	for _, c := range byName {
		if c.Before != c.After {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return changes, nil
}
