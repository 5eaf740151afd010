package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// anything stands for a value about which the document says nothing. It fits every schema without a type.
const anything = true

// parseJSON reads one JSON document for a comparison with a schema. It refuses what readers of JSON understand in
// different ways: a member that is given twice, and text that is no Unicode, such as half of a surrogate pair.
//
// It makes values only of what the schema describes, and counts items and members while it reads them. So a document
// that fits takes about as much memory as its text, and one that does not is refused before it takes more. What the
// schema leaves open may be nested task.DepthLimit deep. Options can make it less strict about that: then it may be
// nested as deep as any reader of JSON goes, for whoever reads it later to refuse.
func parseJSON(schema *openapi3.Schema, raw []byte, options ...jsontext.Options) (any, error) {
	r := guided{
		Decoder: jsontext.NewDecoder(bytes.NewBuffer(raw), options...),
		raw:     raw, depth: task.DepthLimit, size: task.PayloadLimit,
	}
	if len(options) > 0 {
		r.depth, r.size = looseDepth, len(raw)
	}
	value, err := r.value(schema)
	if err != nil {
		return nil, notJSON(err)
	}
	if _, err := r.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errManyDocuments
	}
	return value, nil
}

// looseDepth is how deep values may be nested that are checked one by one later. encoding/json reads 10,000 levels.
const looseDepth = 5000

// guided reads JSON that a schema describes.
type guided struct {
	*jsontext.Decoder
	raw   []byte
	depth int // how deep a value may be nested that the schema leaves open
	size  int // how many bytes it may have, without blanks
}

func (r guided) value(schema *openapi3.Schema) (any, error) {
	schema = described(schema)
	switch kind := r.PeekKind(); kind {
	case '{':
		if schema != nil && schema.Type.Is(openapi3.TypeObject) {
			return r.object(schema)
		}
		return r.skip(schema, map[string]any{})
	case '[':
		if schema != nil && schema.Type.Is(openapi3.TypeArray) {
			return r.array(schema)
		}
		return r.skip(schema, []any{})
	}
	token, err := r.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil
	case 'n':
		return nil, nil //nolint:nilnil // that is null
	}
	return token.Bool(), nil
}

// described is the schema that says what a value is: in OpenAPI 3.0, a description of a schema that others share takes
// an allOf. It is nil if anything can be there.
func described(schema *openapi3.Schema) *openapi3.Schema {
	for schema != nil && schema.Type == nil {
		if len(schema.AllOf) == 0 {
			return nil
		}
		schema = schema.AllOf[0].Value
	}
	return schema
}

// skip passes over an object or an array, and refuses one that is too deep or too long as soon as that is seen. stand
// is an empty one, which a schema of another type refuses.
func (r guided) skip(schema *openapi3.Schema, stand any) (any, error) {
	if schema == nil {
		stand = anything
	}
	top, size, seen := r.StackDepth(), 0, int(r.InputOffset())
	next := seen + r.size
	for {
		kind := r.PeekKind()
		if level := r.StackDepth() - top; level == r.depth && (kind == '{' || kind == '[') {
			return nil, task.Invalid(outerField(r.StackPointer(), top), "is nested more than %d levels deep", r.depth)
		}
		if _, err := r.ReadToken(); err != nil {
			return nil, err
		}
		if end := int(r.InputOffset()); end > next { // so far without counting blanks
			size += compactSize(r.raw[seen:end])
			if size > r.size+2 { // with what is before the value
				return nil, task.Invalid(outerField(r.StackPointer(), top), "is longer than the %d bytes that are allowed", r.size)
			}
			seen, next = end, end+r.size-size
		}
		if r.StackDepth() <= top {
			return stand, nil
		}
	}
}

// compactSize is how many bytes of a beginning of JSON are no blanks between its parts.
func compactSize(text []byte) int {
	n, quoted, escaped := 0, false, false
	for _, b := range text {
		switch {
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		case !quoted && (b == ' ' || b == '\t' || b == '\n' || b == '\r'):
			continue
		}
		n++
	}
	return n
}

func (r guided) array(schema *openapi3.Schema) (any, error) {
	if _, err := r.ReadToken(); err != nil {
		return nil, err
	}
	items := []any{}
	for r.PeekKind() != ']' {
		if most := schema.MaxItems; most != nil && uint64(len(items)) == *most {
			return nil, task.Invalid(parentField(r.StackPointer()), "maximum number of items is %d", *most)
		}
		var of *openapi3.Schema
		if schema.Items != nil {
			of = schema.Items.Value
		}
		item, err := r.value(of)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := r.ReadToken()
	return items, err
}

func (r guided) object(schema *openapi3.Schema) (any, error) {
	if _, err := r.ReadToken(); err != nil {
		return nil, err
	}
	members := map[string]any{}
	for r.PeekKind() != '}' {
		token, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if _, again := members[name]; again {
			return nil, task.Invalid(fieldOf(r.StackPointer()), "is given twice")
		}
		of, err := r.member(schema, name, len(members))
		if err != nil {
			return nil, err
		}
		if members[name], err = r.value(of); err != nil {
			return nil, err
		}
	}
	_, err := r.ReadToken()
	return members, err
}

// member is the schema of the next member of an object that has n already.
func (r guided) member(schema *openapi3.Schema, name string, n int) (*openapi3.Schema, error) {
	others := schema.AdditionalProperties
	if p := schema.Properties[name]; p != nil {
		return p.Value, nil
	}
	switch most := schema.MaxProps; {
	case others.Schema == nil:
		field := fieldOf(r.StackPointer())
		return nil, task.Invalid(field, "is not a field of this request%s",
			cmp.Or(definition.Instead(field), oneLevelDown(schema, name, field),
				config.DidYouMean(name, slices.Sorted(maps.Keys(schema.Properties)))))
	case most != nil && uint64(n) == *most:
		return nil, task.Invalid(parentField(r.StackPointer()), "there must be at most %d properties", *most)
	}
	return others.Schema.Value, nil
}

// oneLevelDown says of a field that is not known which member of the object has it; "" if none does.
func oneLevelDown(schema *openapi3.Schema, name, field string) string {
	for _, member := range slices.Sorted(maps.Keys(schema.Properties)) {
		if inner := schema.Properties[member].Value; inner != nil && inner.Properties[name] != nil {
			return "; did you mean " + strings.TrimSuffix(field, name) + member + "." + name + "?"
		}
	}
	return ""
}

// fieldOf is the field at a place of a document.
func fieldOf(at jsontext.Pointer) string { return fieldAt(slices.Collect(at.Tokens())) }

// parentField is the field that has the one at a place.
func parentField(at jsontext.Pointer) string { return fieldOf(at.Parent()) }

// outerField is the field that has the one at a place, so many levels below the document.
func outerField(at jsontext.Pointer, level int) string {
	steps := slices.Collect(at.Tokens())
	return fieldAt(steps[:min(level, len(steps))])
}

var errManyDocuments = task.Errorf(task.CodeInvalid, "the body is more than one JSON document")
