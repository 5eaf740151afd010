package apply

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The kinds of entries.
const (
	kindSchedule = "schedule"
	kindTask     = "task"
)

// entry is a schedule or task that a file describes, or a number of similar tasks.
type entry struct {
	kind      string
	namespace string
	id        string
	count     int             // how many tasks it stands for; 0: one, with the id as it is
	body      json.RawMessage // all fields but the namespace, the count, and a schedule's id
	file      string
	node      *yaml.Node
}

// ids returns the ids of the entry's tasks.
func (e *entry) ids() []string {
	if e.count == 0 {
		return []string{e.id}
	}
	ids := make([]string, e.count)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%04d", e.id, i+1)
	}
	return ids
}

// line returns the line that has a field of the entry, or the nearest enclosing one. The path is as the API names the
// field, as in task.retry.delays[0].
func (e *entry) line(path string) int {
	node, line := e.node, e.node.Line
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = resolveAlias(next), at
	}
	return line
}

// child returns a value of a mapping or list, and the line it begins in. It returns nil if there is none.
func child(n *yaml.Node, step string) (*yaml.Node, int) {
	if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i], n.Content[i].Line
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1], n.Content[i].Line
		}
	}
	return nil, 0
}
