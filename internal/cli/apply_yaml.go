package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits on what aliases may blow a file up to, and on how many errors in a file are told.
const (
	yamlDepth  = 100
	yamlNodes  = 500_000
	yamlFaults = 100
)

// yamlReader makes JSON of YAML and checks on the way that it has the shape of a type of the API's client. It goes on
// after an error, so that all of them are found at once. Of duplicate keys and unknown ones yaml.v3 would tell too, but
// not of the payload's form, and in the names of Go.
type yamlReader struct {
	file   string
	faults []fault
	depth  int
	nodes  int
}

// fault is something wrong with a file.
type fault struct {
	line int
	text string
}

// member is a key of a mapping, and its value.
type member struct {
	name string
	node *yaml.Node
	raw  json.RawMessage // nil if it is wrong
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

func (r *yamlReader) complain(n *yaml.Node, path, format string, args ...any) {
	if len(r.faults) == yamlFaults {
		return
	}
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	r.faults = append(r.faults, fault{n.Line, text})
}

// enter counts what is read, and refuses what would never end.
func (r *yamlReader) enter(n *yaml.Node, path string) bool {
	r.depth++
	r.nodes++
	if r.depth == yamlDepth || r.nodes == yamlNodes {
		r.complain(n, path, "is nested too deeply, or too large")
	}
	return r.depth < yamlDepth && r.nodes < yamlNodes && len(r.faults) < yamlFaults
}

// resolved follows an alias to its anchor.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// value reads n as JSON of the shape of a type; path names it in errors.
func (r *yamlReader) value(n *yaml.Node, path string, shape reflect.Type) json.RawMessage {
	defer func() { r.depth-- }()
	if !r.enter(n, path) {
		return nil
	}
	n = resolved(n)
	switch {
	case shape == rawType:
		return r.free(n, path)
	case shape == timeType:
		return r.text(n, path)
	}
	switch shape.Kind() {
	case reflect.Pointer:
		return r.value(n, path, shape.Elem())
	case reflect.Struct:
		return object(r.members(n, path, shape))
	case reflect.Map:
		return object(r.pairs(n, path, func(k *yaml.Node, path string, v *yaml.Node) json.RawMessage { return r.value(v, path, shape.Elem()) }))
	case reflect.Slice:
		return r.list(n, path, func(item *yaml.Node, path string) json.RawMessage { return r.value(item, path, shape.Elem()) })
	case reflect.String:
		return r.text(n, path)
	}
	return r.plain(n, path, shape)
}

// free reads what may have any form.
func (r *yamlReader) free(n *yaml.Node, path string) json.RawMessage {
	within := func(v *yaml.Node, path string) json.RawMessage { return r.value(v, path, rawType) }
	switch n.Kind {
	case yaml.MappingNode:
		return object(r.pairs(n, path, func(_ *yaml.Node, path string, v *yaml.Node) json.RawMessage { return within(v, path) }))
	case yaml.SequenceNode:
		return r.list(n, path, within)
	}
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return r.encode(n, path, n.Value)
	case "!!null":
		return json.RawMessage("null")
	case "!!bool", "!!int", "!!float":
		if tag != "!!bool" && json.Valid([]byte(n.Value)) {
			return json.RawMessage(n.Value) // every digit of it
		}
		var v any
		if err := n.Decode(&v); err != nil {
			r.complain(n, path, "%v", err)
			return nil
		}
		return r.encode(n, path, v)
	}
	r.complain(n, path, "%s has no counterpart in JSON", n.ShortTag())
	return nil
}

func (r *yamlReader) encode(n *yaml.Node, path string, v any) json.RawMessage {
	raw, err := rawOf(v)
	if err != nil {
		r.complain(n, path, "%s has no counterpart in JSON", n.Value)
		return nil
	}
	return raw
}

// text takes numbers, dates and the like as they are written: they need no quotes where a text is expected.
func (r *yamlReader) text(n *yaml.Node, path string) json.RawMessage {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.complain(n, path, "must be a text, not %s", kindOf(n))
		return nil
	}
	return r.encode(n, path, n.Value)
}

// plain reads a number or a bool.
func (r *yamlReader) plain(n *yaml.Node, path string, shape reflect.Type) json.RawMessage {
	v := reflect.New(shape)
	name := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Float64: "a number"}[shape.Kind()]
	if name == "" {
		name = "a whole number"
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Decode(v.Interface()) != nil {
		r.complain(n, path, "must be %s, not %s", name, kindOf(n))
		return nil
	}
	return r.encode(n, path, v.Elem().Interface())
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing"
	}
	return fmt.Sprintf("%q", n.Value)
}

func (r *yamlReader) list(n *yaml.Node, path string, read func(*yaml.Node, string) json.RawMessage) json.RawMessage {
	if n.Kind != yaml.SequenceNode {
		r.complain(n, path, "must be a list, not %s", kindOf(n))
		return nil
	}
	items := make([][]byte, len(n.Content))
	for i, item := range n.Content {
		items[i] = read(item, fmt.Sprintf("%s[%d]", path, i))
	}
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
}

// members reads a mapping whose keys are the fields of a struct, as JSON names them.
func (r *yamlReader) members(n *yaml.Node, path string, shape reflect.Type) []member {
	known := partsOf(shape)
	all := r.pairs(n, path, func(k *yaml.Node, path string, v *yaml.Node) json.RawMessage {
		f, ok := known[k.Value]
		if !ok {
			r.complain(k, path, "is not a field here%s", nearest(k.Value, known))
			return nil
		}
		return r.value(v, path, f.shape)
	})
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if known[name].required && !slices.ContainsFunc(all, func(m member) bool { return m.name == name }) {
			r.complain(n, below(path, name), "is missing")
		}
	}
	return all
}

// pairs reads the keys of a mapping in their order; those that are merged in (<<) come last.
func (r *yamlReader) pairs(n *yaml.Node, path string, read func(k *yaml.Node, path string, v *yaml.Node) json.RawMessage) []member {
	if n.Kind != yaml.MappingNode {
		r.complain(n, path, "must be a mapping, not %s", kindOf(n))
		return nil
	}
	var (
		all    []member
		merged []*yaml.Node
		seen   = make(map[string]int)
	)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := resolved(n.Content[i]), n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode:
			r.complain(k, path, "has a key that is not a text")
			continue
		case k.ShortTag() == "!!merge":
			merged = append(merged, v)
			continue
		case seen[k.Value] > 0:
			r.complain(k, below(path, k.Value), "is given twice, first in line %d", seen[k.Value])
			continue
		}
		seen[k.Value] = k.Line
		all = append(all, member{k.Value, v, read(k, below(path, k.Value), v)})
	}
	for _, m := range merged {
		for _, more := range r.merge(m, path, read) {
			if seen[more.name] == 0 {
				seen[more.name] = n.Line
				all = append(all, more)
			}
		}
	}
	return all
}

// merge reads what a key << adds: a mapping, or a list of them, of which the first one to name a key counts.
func (r *yamlReader) merge(n *yaml.Node, path string, read func(*yaml.Node, string, *yaml.Node) json.RawMessage) []member {
	defer func() { r.depth-- }()
	if !r.enter(n, path) {
		return nil
	}
	n = resolved(n)
	if n.Kind != yaml.SequenceNode {
		return r.pairs(n, path, read)
	}
	var all []member
	for _, item := range n.Content {
		all = append(all, r.merge(item, path, read)...)
	}
	return all
}

func object(members []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := rawOf(m.name) // a string, which always can be written
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}
