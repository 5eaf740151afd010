package apidocs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// nesting is how deep the fields of objects without names are shown.
const nesting = 4

// schema is one of the document, by name.
type schema struct {
	Name   string
	Type   template.HTML // of one without fields
	About  template.HTML
	Facts  []fact
	Fields []field
}

// field is a parameter, a header, or a member of an object. The name of a member of a member has dots.
type field struct {
	Name     string
	In       string // of a parameter
	Type     template.HTML
	Required bool
	About    template.HTML
	Facts    []fact
}

// fact is what a value must be, or is by default.
type fact struct{ Name, Value string }

func (b builder) schema(name string, s *openapi3.Schema) schema {
	shown := schema{Name: name, About: b.text(s.Description), Facts: facts(s), Fields: b.fields(s, "", 0)}
	if len(shown.Fields) == 0 {
		shown.Type = typeOf(&openapi3.SchemaRef{Value: s})
	}
	return shown
}

// fields are the members of an object, the required ones first, and those of what it is made of.
func (b builder) fields(s *openapi3.Schema, prefix string, depth int) []field {
	var all []field
	for _, part := range s.AllOf {
		all = append(all, b.fields(part.Value, prefix, depth)...)
	}
	names := slices.SortedFunc(maps.Keys(s.Properties), func(x, y string) int {
		return cmp.Or(-compareBool(slices.Contains(s.Required, x), slices.Contains(s.Required, y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		ref := s.Properties[name]
		f := b.field(prefix+name, ref)
		f.Required = slices.Contains(s.Required, name)
		f.About = b.text(ref.Value.Description)
		all = append(all, f)
		if ref.Ref != "" || depth == nesting {
			continue
		}
		inner, mark := ref.Value, "."
		if inner.Items != nil && inner.Items.Ref == "" {
			inner, mark = inner.Items.Value, "[]."
		}
		if reference(inner) == "" {
			all = append(all, b.fields(inner, prefix+name+mark, depth+1)...)
		}
	}
	return all
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// field is one without what only its context knows.
func (b builder) field(name string, ref *openapi3.SchemaRef) field {
	f := field{Name: name, Type: typeOf(ref)}
	if ref.Ref == "" {
		f.Facts = facts(ref.Value)
	}
	return f
}

// typeOf says which type a value has, with a link if that has a name.
func typeOf(ref *openapi3.SchemaRef) template.HTML {
	switch s := ref.Value; {
	case ref.Ref != "":
		return linkTo(ref.Ref)
	case reference(s) != "":
		return linkTo(reference(s))
	case s.Type == nil:
		return "any value"
	case s.Type.Is("array"):
		return "array of " + typeOf(s.Items)
	case s.Type.Is("object") && s.AdditionalProperties.Schema != nil:
		return "object with values of " + typeOf(s.AdditionalProperties.Schema)
	case s.Format != "":
		return template.HTML(template.HTMLEscapeString(s.Type.Slice()[0] + " (" + s.Format + ")")) //nolint:gosec // escaped
	default:
		return template.HTML(template.HTMLEscapeString(s.Type.Slice()[0])) //nolint:gosec // escaped
	}
}

// reference is what a schema stands for that adds only words to another one.
func reference(s *openapi3.Schema) string {
	if len(s.AllOf) == 1 && s.Type == nil && len(s.Properties) == 0 {
		return s.AllOf[0].Ref
	}
	return ""
}

func linkTo(ref string) template.HTML {
	name := template.HTMLEscapeString(ref[strings.LastIndexByte(ref, '/')+1:])
	return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`) //nolint:gosec // escaped
}

// facts are what a schema says of its values, besides the type.
func facts(s *openapi3.Schema) []fact {
	var all []fact
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{name, value})
		}
	}
	var values []string
	for _, v := range s.Enum {
		values = append(values, valueText(v))
	}
	add("one of", strings.Join(values, ", "))
	add("default", valueText(s.Default))
	add("value", between(s.Min, s.Max))
	add("characters", between(positive(s.MinLength), asFloat(s.MaxLength)))
	add("items", between(positive(s.MinItems), asFloat(s.MaxItems)))
	add("members", between(positive(s.MinProps), asFloat(s.MaxProps)))
	add("pattern", s.Pattern)
	add("example", valueText(s.Example))
	return all
}

// valueText writes a value of the document as JSON; a string stands for itself. No value is "".
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// between writes a range; an end that is nil is open.
func between(low, high *float64) string {
	switch {
	case low != nil && high != nil:
		return number(*low) + " to " + number(*high)
	case low != nil:
		return "at least " + number(*low)
	case high != nil:
		return "at most " + number(*high)
	}
	return ""
}

func number(n float64) string { return fmt.Sprintf("%.12g", n) }

func positive(n uint64) *float64 {
	if n == 0 {
		return nil
	}
	return asFloat(&n)
}

func asFloat(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
