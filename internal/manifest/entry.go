package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
)

// The kinds of entries.
const (
	KindLimit    = "limit"
	KindWorkflow = "workflow"
	KindSchedule = "schedule"
	KindTask     = "task"
)

// Entry is a limit, workflow, schedule or task that a file describes, or a number of similar tasks.
type Entry struct {
	Kind      string
	Namespace string          // "" of a limit
	ID        string          // of a limit, its name
	Count     int             // how many tasks it stands for; 0: one, with the id as it is
	Body      json.RawMessage // all fields but the namespace, the count, and the id of anything but a task
	file      string
	path      string // in the document, as in schedules[0]
	node      *yaml.Node
	short     bool // a schedule that has "workflow" in place of "task"
	faulty    bool // it must not be sent
}

// IDs returns the ids of the entry's tasks.
func (e *Entry) IDs() []string {
	if e.Count == 0 {
		return []string{e.ID}
	}
	ids := make([]string, e.Count)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%04d", e.ID, i+1)
	}
	return ids
}

// Submission returns the JSON of the entry's task with an id.
func (e *Entry) Submission(id string) json.RawMessage {
	head := objectOf([]yamlPair{{key: "id", raw: quoted(id)}, {key: "namespace", raw: quoted(e.Namespace)}})
	// Both objects have members: a task has a type.
	return bytes.Join([][]byte{head[:len(head)-1], e.Body[1:]}, []byte(","))
}

// Fault returns the fault that a field of the entry is, or "", the entry as a whole. The field is as the API names it,
// as in task.retry.delays[0]. The place is that of the nearest part of the entry that the file has.
func (e *Entry) Fault(field, text string) Fault {
	if e.short {
		field = shortField(field)
	}
	f := Fault{File: e.file, Line: e.node.Line, Column: e.node.Column, Field: e.path, Text: text}
	if field != "" {
		f.Field = below(e.path, field)
	}
	node := e.node
	for _, step := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, place := child(node, step)
		if next == nil {
			break
		}
		node, f.Line, f.Column = resolveAlias(next), place.Line, place.Column
	}
	return f
}

// Faults returns the faults that fields of the entry are.
func (e *Entry) Faults(invalid []wire.InvalidField) Faults {
	faults := make(Faults, len(invalid))
	for i, one := range invalid {
		field := wire.Value(one.Field)
		faults[i] = e.Fault(field, strings.TrimPrefix(one.Detail, field+": "))
	}
	return faults
}

// InOrder returns fields of the entry in the order of their places.
func (e *Entry) InOrder(invalid []wire.InvalidField) []wire.InvalidField {
	sorted := slices.Clone(invalid)
	place := func(one wire.InvalidField) Fault { return e.Fault(wire.Value(one.Field), "") }
	slices.SortStableFunc(sorted, func(a, b wire.InvalidField) int { return place(a).compare(place(b)) })
	return sorted
}

// child returns a value of a mapping or list, and the node whose place an error names: the value itself if it is a
// scalar or an item, else its key. It returns nil if there is none.
func child(n *yaml.Node, step string) (value, place *yaml.Node) {
	if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i], n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if key, value := n.Content[i], n.Content[i+1]; key.Value == step {
			if value.Kind == yaml.ScalarNode {
				return value, value
			}
			return value, key
		}
	}
	return nil, nil
}
