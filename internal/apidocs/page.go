package apidocs

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/edge"
)

// commandExtension is the member of an operation with the command of dtsctl that asks for it.
const commandExtension = "x-dtsctl"

// page is what page.html shows.
type page struct {
	Style   template.CSS
	Title   string
	About   template.HTML
	Tags    []tag
	Schemas []schema
	Errors  []problem
}

type tag struct {
	Name       string
	About      template.HTML
	Operations []operation
}

type operation struct {
	ID, Summary, Method, Path string
	About                     template.HTML
	Parameters                []field
	Body                      *content
	Answers                   []answer
	Curl, Command             string
}

type answer struct {
	Status  string
	About   template.HTML
	Content []content
	Headers []field
}

// content is a body of one media type.
type content struct {
	MediaType string
	Type      template.HTML
	Fields    []field // of a schema without a name
}

type problem struct {
	Code          string
	Status        int
	Title         string
	Meaning, Help template.HTML
}

// methods are those of operations at one path, in the order of the page.
var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// builder makes the parts of a page.
type builder struct {
	links map[string]string // from what stands in code to its place on the page: codes, and methods with paths
}

func newPage(doc *openapi3.T, errors []edge.Explanation) (page, error) {
	b := builder{links: map[string]string{}}
	for _, e := range errors {
		b.links[string(e.Code)] = "#code-" + string(e.Code)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			b.links[method+" "+path] = "#" + op.OperationID
		}
	}
	p := page{Title: doc.Info.Title, About: b.text(doc.Info.Description)}
	p.Style = template.CSS(style) //nolint:gosec // it is that of this package
	for _, t := range doc.Tags {
		operations, err := b.operations(doc, t.Name)
		if err != nil {
			return page{}, err
		}
		p.Tags = append(p.Tags, tag{Name: t.Name, About: b.text(t.Description), Operations: operations})
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		p.Schemas = append(p.Schemas, b.schema(name, doc.Components.Schemas[name].Value))
	}
	for _, e := range errors {
		p.Errors = append(p.Errors, problem{
			Code: string(e.Code), Status: e.Status, Title: e.Title, Meaning: b.line(e.Meaning), Help: b.line(e.Help),
		})
	}
	return p, nil
}

// operations are those with that tag, by path.
func (b builder) operations(doc *openapi3.T, tag string) ([]operation, error) {
	var all []operation
	paths := doc.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path]
		for _, method := range methods {
			op := item.GetOperation(method)
			if op == nil || !slices.Contains(op.Tags, tag) {
				continue
			}
			o, err := b.operation(method, path, op, parametersOf(item, op))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", op.OperationID, err)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// parametersOf are the parameters of an operation, those of the path first.
func parametersOf(item *openapi3.PathItem, op *openapi3.Operation) openapi3.Parameters {
	all := api.ParametersOf(item, op)
	rank := func(p *openapi3.ParameterRef) int {
		if p.Value.In == openapi3.ParameterInPath {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *openapi3.ParameterRef) int { return rank(a) - rank(b) })
	return all
}

func (b builder) operation(
	method, path string, op *openapi3.Operation, parameters openapi3.Parameters,
) (operation, error) {
	o := operation{
		ID: op.OperationID, Summary: op.Summary, Method: method, Path: path, About: b.text(op.Description),
		Answers: b.answers(op.Responses),
	}
	o.Command, _ = op.Extensions[commandExtension].(string)
	for _, p := range parameters {
		o.Parameters = append(o.Parameters, b.parameter(p.Value))
	}
	if op.RequestBody != nil {
		body := b.contents(op.RequestBody.Value.Content)
		o.Body = &body[0]
	}
	var err error
	o.Curl, err = curl(method, path, op, parameters)
	return o, err
}

func (b builder) parameter(p *openapi3.Parameter) field {
	f := b.field(p.Name, p.Schema)
	f.In, f.Required = p.In, p.Required
	f.About = b.text(cmp.Or(p.Description, p.Schema.Value.Description))
	return f
}

// answers are those of an operation, by status; that of errors is the last one.
func (b builder) answers(responses *openapi3.Responses) []answer {
	var all []answer
	for _, status := range slices.Sorted(maps.Keys(responses.Map())) {
		r := responses.Value(status).Value
		a := answer{Status: status, Content: b.contents(r.Content)}
		if r.Description != nil {
			a.About = b.text(*r.Description)
		}
		if status == "default" {
			a.Status = "other"
		}
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			h := r.Headers[name].Value
			f := b.field(name, h.Schema)
			f.About = b.text(h.Description)
			a.Headers = append(a.Headers, f)
		}
		all = append(all, a)
	}
	return all
}

func (b builder) contents(all openapi3.Content) []content {
	var contents []content
	for _, mediaType := range slices.Sorted(maps.Keys(all)) {
		ref := all[mediaType].Schema
		c := content{MediaType: mediaType, Type: typeOf(ref)}
		if ref.Ref == "" {
			c.Fields = b.fields(ref.Value, "", 0)
		}
		contents = append(contents, c)
	}
	return contents
}

// text is Markdown as blocks, line the same without a paragraph around it.
func (b builder) text(markdown string) template.HTML {
	return template.HTML(renderBlocks(strings.TrimSpace(markdown), b.links)) //nolint:gosec // it escapes what it is given
}

func (b builder) line(markdown string) template.HTML {
	return template.HTML(renderSpans(markdown, b.links)) //nolint:gosec // it escapes what it is given
}
