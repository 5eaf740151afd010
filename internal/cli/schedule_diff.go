package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
)

// field is one field of a definition: its path, as in task.retry.max_attempts, and its value as a text.
type field struct{ name, value string }

// change is a field that differs between two definitions; "" is where it is left out.
type change struct{ name, before, after string }

// definitionIn is the fields of the definition that a schedule or a definition in JSON contains, by name.
func definitionIn(raw json.RawMessage) ([]field, error) {
	var d client.ScheduleDefinition
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, misunderstood(err)
	}
	d.Namespace, d.Paused = nil, nil // no part of it
	said, err := rawOf(d)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsIn("", said)
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields, err
}

// fieldsIn takes objects apart; a list is one value.
func fieldsIn(path string, raw json.RawMessage) ([]field, error) {
	var object map[string]json.RawMessage
	if bytes.HasPrefix(raw, []byte("{")) {
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, misunderstood(err)
		}
	}
	if len(object) == 0 {
		return []field{{path, plain(raw)}}, nil
	}
	var fields []field
	for name, value := range object {
		if path != "" {
			name = path + "." + name
		}
		inner, err := fieldsIn(name, value)
		if err != nil {
			return nil, err
		}
		fields = append(fields, inner...)
	}
	return fields, nil
}

// plain is a JSON value as people write it: a text without its quotes.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && !bytes.Equal(raw, []byte("null")) {
		return text
	}
	return string(raw)
}

// changesBetween is what differs between two definitions, by name.
func changesBetween(before, after json.RawMessage) ([]change, error) {
	old, err := definitionIn(before)
	if err != nil {
		return nil, err
	}
	fields, err := definitionIn(after)
	if err != nil {
		return nil, err
	}
	differ := make(map[string]change)
	for _, f := range old {
		differ[f.name] = change{name: f.name, before: f.value}
	}
	for _, f := range fields {
		differ[f.name] = change{f.name, differ[f.name].before, f.value}
	}
	var changes []change
	for _, c := range differ {
		if c.before != c.after {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.name, b.name) })
	return changes, nil
}

// printChanges prints what became of each field, for people.
func (s *session) printChanges(changes []change) error {
	lines := make([][]any, len(changes))
	for i, c := range changes {
		lines[i] = []any{"  " + c.name, orDash(c.before), "->", orDash(c.after)}
	}
	return s.printAligned(lines)
}

// orDash is a value that may be left out.
func orDash(value string) remark {
	if value == "" {
		return "-"
	}
	return remark(value)
}
