package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/definition"
)

// Limits on what aliases may expand a file to, and on how many errors of a file are told. A payload may be nested 100
// levels deep. A file without aliases has fewer nodes than bytes.
const (
	yamlDepth  = 120
	yamlNodes  = 500_000 // more than the file has bytes
	yamlFaults = 100
)

// yamlReader converts YAML to JSON and checks that it has the shape of a type of the API's client. It goes on after an
// error, to find all of them. It works on yaml.v3's nodes, since no decoder keeps what the API needs: every digit of a
// number and the order of keys in a payload, a text without quotes as it is written, and the path, line and JSON name
// of each error.
type yamlReader struct {
	file   string
	faults Faults
	depth  int
	nodes  int
	limit  int // of nodes
}

// readPair reads the value of a key.
type readPair func(key *yaml.Node, path string, value *yaml.Node) json.RawMessage

// yamlPair is a key of a mapping, and its value.
type yamlPair struct {
	key  string
	node *yaml.Node
	raw  json.RawMessage // the value as JSON, nil if it is wrong
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[wire.Time]()
)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// complain adds a fault about a node. The path names the field at fault; "" is the whole document.
func (r *yamlReader) complain(n *yaml.Node, path, format string, args ...any) {
	if len(r.faults) == yamlFaults {
		return
	}
	r.faults = append(r.faults, Fault{r.file, n.Line, n.Column, path, fmt.Sprintf(format, args...)})
}

// enter counts a node that is about to be read. It returns false if a limit is reached; the caller must leave then,
// too.
func (r *yamlReader) enter(n *yaml.Node, path string) bool {
	r.depth++
	r.nodes++
	if r.depth == yamlDepth || r.nodes == r.limit {
		r.complain(n, path, "is nested too deeply, or too large")
	}
	return r.depth < yamlDepth && r.nodes < r.limit && len(r.faults) < yamlFaults
}

// resolveAlias follows an alias to its anchor.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// value reads n as JSON of the shape of a type. The path names it in errors.
func (r *yamlReader) value(n *yaml.Node, path string, shape reflect.Type) json.RawMessage {
	defer func() { r.depth-- }()
	if !r.enter(n, path) {
		return nil
	}
	n = resolveAlias(n)
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
		return objectOf(r.structPairs(n, path, shape))
	case reflect.Map:
		return objectOf(r.pairs(n, path, func(_ *yaml.Node, path string, v *yaml.Node) json.RawMessage {
			return r.value(v, path, shape.Elem())
		}))
	case reflect.Slice:
		return r.list(n, path, func(item *yaml.Node, path string) json.RawMessage {
			return r.value(item, path, shape.Elem())
		})
	case reflect.String:
		return r.text(n, path)
	}
	return r.plain(n, path, shape)
}

// free reads a value that may have any shape.
func (r *yamlReader) free(n *yaml.Node, path string) json.RawMessage {
	within := func(v *yaml.Node, path string) json.RawMessage { return r.value(v, path, rawType) }
	switch n.Kind {
	case yaml.MappingNode:
		return objectOf(r.pairs(n, path, func(_ *yaml.Node, path string, v *yaml.Node) json.RawMessage {
			return within(v, path)
		}))
	case yaml.SequenceNode:
		return r.list(n, path, within)
	}
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		if n.Style == 0 && jsonNumber.MatchString(n.Value) { // the YAML package takes 1e400 for a text
			return json.RawMessage(n.Value)
		}
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
	raw, err := wire.Encode(v)
	if err != nil {
		r.complain(n, path, "%s has no counterpart in JSON", n.Value)
		return nil
	}
	return raw
}

// text reads a text. Numbers, dates and the like need no quotes: they are taken as they are written.
func (r *yamlReader) text(n *yaml.Node, path string) json.RawMessage {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.complain(n, path, "must be a text, not %s", kindOf(n))
		return nil
	}
	return r.encode(n, path, n.Value)
}

// plain reads a number or a boolean.
func (r *yamlReader) plain(n *yaml.Node, path string, shape reflect.Type) json.RawMessage {
	v := reflect.New(shape)
	expected := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Float64: "a number"}[shape.Kind()]
	if expected == "" {
		expected = "a whole number"
	}
	isCut := func() bool { // the YAML package cuts 1.5 to 1
		var f float64
		return v.Elem().CanInt() && n.Decode(&f) == nil && f != float64(v.Elem().Int())
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Decode(v.Interface()) != nil || isCut() {
		r.complain(n, path, "must be %s, not %s", expected, kindOf(n))
		return nil
	}
	return r.encode(n, path, v.Elem().Interface())
}

// kindOf names what a node is, for errors.
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

// structPairs reads a mapping whose keys are the fields of a struct, as JSON names them.
func (r *yamlReader) structPairs(n *yaml.Node, path string, shape reflect.Type) []yamlPair {
	known := fieldsOf(shape)
	all := r.pairs(n, path, func(k *yaml.Node, path string, v *yaml.Node) json.RawMessage {
		f, ok := known[k.Value]
		if !ok {
			r.complain(k, path, "is not a field here%s",
				cmp.Or(definition.Instead(path), config.DidYouMean(k.Value, slices.Sorted(maps.Keys(known)))))
			return nil
		}
		return r.value(v, path, f.shape)
	})
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if known[name].required && !slices.ContainsFunc(all, func(p yamlPair) bool { return p.key == name }) {
			r.complain(n, below(path, name), "is missing")
		}
	}
	return all
}

// pairs reads a mapping. The keys keep their order; those that are merged in (<<) come last.
func (r *yamlReader) pairs(n *yaml.Node, path string, read readPair) []yamlPair {
	if n.Kind != yaml.MappingNode {
		r.complain(n, path, "must be a mapping, not %s", kindOf(n))
		return nil
	}
	var (
		all    []yamlPair
		merged []*yaml.Node
		seen   = make(map[string]int)
	)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := resolveAlias(n.Content[i]), n.Content[i+1]
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
		all = append(all, yamlPair{k.Value, v, read(k, below(path, k.Value), v)})
	}
	for _, m := range merged {
		for _, more := range r.merge(m, path, read) {
			if seen[more.key] == 0 {
				seen[more.key] = n.Line
				all = append(all, more)
			}
		}
	}
	return all
}

// merge reads the value of a key <<: a mapping, or a list of them, of which the first one that has a key counts.
func (r *yamlReader) merge(n *yaml.Node, path string, read readPair) []yamlPair {
	defer func() { r.depth-- }()
	if !r.enter(n, path) {
		return nil
	}
	n = resolveAlias(n)
	if n.Kind != yaml.SequenceNode {
		return r.pairs(n, path, read)
	}
	var all []yamlPair
	for _, item := range n.Content {
		all = append(all, r.merge(item, path, read)...)
	}
	return all
}

// objectOf returns a JSON object.
func objectOf(pairs []yamlPair) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(p.key))
		b.WriteByte(':')
		b.Write(p.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quoted returns a JSON string.
func quoted(text string) json.RawMessage {
	raw, _ := wire.Encode(text) // a string always can be encoded
	return raw
}
