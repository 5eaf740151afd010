package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// validator checks the requests of one operation against the document. What the document cannot say (limits
// in bytes, what excludes what) is checked by package task.
type validator struct {
	parameters openapi3.Parameters
	body       *openapi3.Schema   // nil: the operation takes none
	bodyless   bool               // it may be left out, which is the same as an empty object
	lenient    []jsontext.Options // for a body whose parts are checked one by one later
	goesOn     bool               // the use case tells what is wrong beside values that do not fit: see faultsOf
	turns      decoding
}

// decodingLimit is how many large bodies are decoded at once. Names of members take up to 20 times their size while
// they are compared, so that each is there once.
const decodingLimit = 4

// largeBody is the size in bytes from which on a body waits for its turn.
const largeBody = 64 << 10

// decoding has the turns of large bodies.
type decoding chan struct{}

// check is checkBody, for which a large body waits for its turn. Errors: CodeInvalid, and that of ctx.
func (d decoding) check(
	ctx context.Context, schema *openapi3.Schema, raw []byte, lenient ...jsontext.Options,
) error {
	if len(raw) > largeBody {
		select {
		case d <- struct{}{}:
			defer func() { <-d }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return checkBody(schema, raw, lenient...)
}

// jsonType is the media type of bodies.
const jsonType = "application/json"

// byteOrderMark is what some editors put in front of UTF-8; RFC 8259 allows readers of JSON to pass over it.
const byteOrderMark = "\ufeff"

// Where a handler finds the body that was checked, and what of it does not fit the document.
const (
	bodyKey   = "body"
	faultsKey = "faults"
)

// faultsOf are the values of a body that do not fit the document, of an operation that goes on with them. The handler
// refuses the request with them, and with all else that is wrong.
func faultsOf(c echo.Context) error {
	err, _ := c.Get(faultsKey).(error)
	return err
}

func (v validator) check(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := v.checkParameters(c); err != nil {
			return err
		}
		if v.body != nil {
			raw, _ := c.Get(bodyKey).([]byte)
			err := v.turns.check(c.Request().Context(), v.body, raw, v.lenient...)
			var wrong misfit
			if v.goesOn && errors.As(err, &wrong) && wrong.readable {
				c.Set(faultsKey, err)
			} else if err != nil {
				return err
			}
		}
		return next(c)
	}
}

func (v validator) checkParameters(c echo.Context) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return task.Errorf(task.CodeInvalid, "the query cannot be read: %v", err)
	}
	for name, values := range query {
		p := v.parameters.GetByInAndName(openapi3.ParameterInQuery, name)
		if p == nil {
			return task.Invalid(name, "is not a parameter of this call%s", v.known())
		}
		if len(values) > 1 && (p.Explode == nil || !*p.Explode) {
			return task.Invalid(name, "is given %d times", len(values))
		}
	}
	input := &openapi3filter.RequestValidationInput{
		Request: c.Request(), PathParams: pathParameters(c), QueryParams: query,
		Options: &openapi3filter.Options{SkipSettingDefaults: true},
	}
	for _, p := range v.parameters {
		if err := openapi3filter.ValidateParameter(c.Request().Context(), input, p.Value); err != nil {
			return mismatch(p.Value.Name, err)
		}
	}
	return nil
}

// known says which parameters a query may have.
func (v validator) known() string {
	var names []string
	for _, p := range v.parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			names = append(names, p.Value.Name)
		}
	}
	if len(names) == 0 {
		return ", which has none"
	}
	return ", which has " + strings.Join(names, ", ")
}

// pathParameters are the unescaped ones. Echo escapes nothing itself: it routes by the raw path where the
// client escaped more than it had to.
func pathParameters(c echo.Context) map[string]string {
	values := map[string]string{}
	for _, name := range c.ParamNames() {
		values[name] = c.Param(name)
		if unescaped, err := url.PathUnescape(c.Param(name)); err == nil && c.Request().URL.RawPath != "" {
			values[name] = unescaped
		}
	}
	return values
}

// receive reads the body, if the operation takes one, and puts it where the handler finds it. The caller calls release when the request
// has been answered. Errors are those of edge.Server.Receive, and CodeUnsupportedMediaType.
func (v validator) receive(s *edge.Server, c echo.Context) (release func(), _ error) {
	if v.body == nil {
		return func() {}, nil
	}
	if v.bodyless && c.Request().ContentLength == 0 {
		c.Set(bodyKey, []byte("{}"))
		return func() {}, nil
	}
	if err := plainJSON(c); err != nil {
		return nil, err
	}
	raw, release, err := s.Receive(c)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	if len(bytes.TrimSpace(raw)) == 0 {
		release()
		return nil, task.Errorf(task.CodeInvalid, "a body is required")
	}
	c.Set(bodyKey, raw)
	return release, nil
}

func plainJSON(c echo.Context) error {
	header := c.Request().Header
	media, parameters, err := mime.ParseMediaType(header.Get(echo.HeaderContentType))
	charset := strings.ToLower(parameters["charset"])
	switch {
	case err != nil || media != jsonType:
		return task.Errorf(edge.CodeUnsupportedMediaType, "the Content-Type must be %s", jsonType)
	case charset != "" && charset != "utf-8":
		return task.Errorf(edge.CodeUnsupportedMediaType, "the body must be UTF-8")
	case header.Get(echo.HeaderContentEncoding) != "":
		return task.Errorf(edge.CodeUnsupportedMediaType, "the body must not be encoded")
	}
	return nil
}

// checkBody compares a body with its schema.
func checkBody(schema *openapi3.Schema, raw []byte, lenient ...jsontext.Options) error {
	value, err := parseJSON(schema, raw, lenient...)
	if err != nil {
		return err
	}
	if err := schema.VisitJSON(value, openapi3.VisitAsRequest()); err != nil {
		return mismatches(schema, value, len(raw), err)
	}
	return nil
}

// misfit is the error for a body that does not fit the document.
type misfit struct {
	error
	readable bool // the types of all its values fit, so that the body can be read
}

func (m misfit) Unwrap() error { return m.error }

// mismatches names all fields of a body that do not fit the document, given the first one. Of a large body it names that
// one only, as a search for the others would go through all of it.
func mismatches(schema *openapi3.Schema, value any, size int, first error) error {
	if size > largeBody {
		return misfit{error: mismatch("", first)}
	}
	errs, readable := []error{mismatch("", first)}, true
	for _, err := range flatten(schema.VisitJSON(value, openapi3.VisitAsRequest(), openapi3.MultiErrors())) {
		errs = append(errs, mismatch("", err))
		readable = readable && aboutValue(err)
	}
	return misfit{task.Join(errs...), readable}
}

// aboutValue says that an error is about a value of the right type.
func aboutValue(err error) bool {
	var schema *openapi3.SchemaError
	if !errors.As(err, &schema) {
		return false
	}
	switch innermost(schema).SchemaField {
	case "pattern", "enum", "minimum", "maximum", "minLength", "maxLength":
		return true
	}
	return false
}

// flatten returns the errors within errors.
func flatten(err error) []error {
	var several openapi3.MultiError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &several):
		return []error{err}
	}
	var all []error
	for _, one := range several {
		all = append(all, flatten(one)...)
	}
	return all
}

// notJSON names the field at fault if the error tells it.
func notJSON(err error) error {
	var (
		known *task.Error
		at    *jsontext.SyntacticError
	)
	if errors.As(err, &known) {
		return known
	}
	if !errors.As(err, &at) || at.JSONPointer == "" {
		return task.Errorf(task.CodeInvalid, "the body is not valid JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	field := fieldOf(at.JSONPointer)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return task.Invalid(field, "is given twice")
	}
	return task.Invalid(field, "is not valid JSON: %v", at.Err)
}

// mismatch names the field that does not fit the document, and says why not.
func mismatch(field string, err error) error {
	var schema *openapi3.SchemaError
	if !errors.As(err, &schema) {
		return task.Invalid(field, "%s", reasonOf(err))
	}
	steps := schema.JSONPointer()
	if field != "" {
		steps = append([]string{field}, steps...)
	}
	return task.Invalid(fieldAt(steps), "%s", explain(innermost(schema)))
}

// innermost is the error of the schema that a description was added to: in OpenAPI 3.0 that takes an allOf.
func innermost(e *openapi3.SchemaError) *openapi3.SchemaError {
	var inner *openapi3.SchemaError
	if e.SchemaField == "allOf" && errors.As(e.Origin, &inner) {
		return innermost(inner)
	}
	return e
}

// fieldAt makes "a", "b", "3" into "a.b[3]". Its time and memory grow with the text only, however many steps that has.
func fieldAt(steps []string) string {
	var field strings.Builder
	for _, step := range steps {
		_, err := strconv.Atoi(step)
		switch {
		case field.Len() == 0:
			field.WriteString(step)
		case err == nil:
			field.WriteString("[" + step + "]")
		default:
			field.WriteString("." + step)
		}
	}
	return field.String()
}

// explain says what would be right.
func explain(e *openapi3.SchemaError) string {
	switch {
	case e.SchemaField == "required":
		return "is missing"
	case e.SchemaField == "pattern":
		return explainPattern(e.Schema, fmt.Sprint(e.Value))
	case e.SchemaField == "format":
		return fmt.Sprintf("%q is not a time such as 2026-01-02T15:04:05Z", e.Value)
	case e.SchemaField == "minProperties":
		return "an object without members changes nothing: give at least one"
	case e.SchemaField == "enum":
		return fmt.Sprintf("%q must be %s", e.Value, alternatives(e.Schema.Enum))
	case (e.SchemaField == "minimum" || e.SchemaField == "maximum") && e.Schema.Min != nil && e.Schema.Max != nil:
		text := fmt.Sprintf("%v must be %v to %v", e.Value, number(*e.Schema.Min), number(*e.Schema.Max))
		if zero, has := e.Schema.Extensions[zeroExtension]; has {
			text += fmt.Sprintf("; 0 for %v", zero)
		}
		return text
	}
	return e.Reason
}

// alternatives lists values: "skip, once or all".
func alternatives(values []any) string {
	text := ""
	for i, v := range values {
		switch i {
		case 0:
		case len(values) - 1:
			text += " or "
		default:
			text += ", "
		}
		text += fmt.Sprint(v)
	}
	return text
}

// number writes 1e+09 as 1000000000.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// zeroExtension is the member of a schema of a number that says what 0 means.
const zeroExtension = "x-zero"

// wordsExtension is the member of a schema with a pattern that names the check of the use cases which says in words what a pattern cannot
// say: see words.
const wordsExtension = "x-in-words"

// words are these checks.
var words = map[string]func(value string) error{
	"name": func(value string) error { return task.ValidateName("", value) },
	"type": task.ValidateType,
	"task": func(value string) error {
		return task.ValidateRef(task.Ref{Namespace: task.DefaultNamespace, ID: value})
	},
	"schedule": schedule.ValidateID,
	"new task": task.ValidateNewID,
	"key":      func(value string) error { return task.ValidateNewID(unquoted(value)) },
	"fair key": task.ValidateFairKey,
	"worker":   func(value string) error { return control.ValidateWorkerName("", value) },
	"duration": func(value string) error {
		if d, err := time.ParseDuration(value); err == nil && d < 0 {
			return task.Invalid("", "%s is negative", d)
		}
		return task.Invalid("", "%q is not a duration such as 1m30s or 48h", value)
	},
}

// explainPattern says what is wrong with a value that does not match the pattern of its schema, which has words or an example.
func explainPattern(schema *openapi3.Schema, value string) string {
	var invalid *task.Error
	name, _ := schema.Extensions[wordsExtension].(string)
	if check := words[name]; check != nil && errors.As(check(value), &invalid) {
		return invalid.Message
	}
	return fmt.Sprintf("%q is not of a form such as %v", value, schema.Example)
}

// notParsed says what is right where kin-openapi says only what is wrong.
var notParsed = map[string]string{
	"an invalid integer": "a whole number", "an invalid number": "a number", "an invalid boolean": "true or false",
}

func reasonOf(err error) string {
	var (
		request *openapi3filter.RequestError
		parse   *openapi3filter.ParseError
	)
	switch {
	case errors.As(err, &parse) && notParsed[parse.Reason] != "":
		return fmt.Sprintf("%q must be %s", parse.Value, notParsed[parse.Reason])
	case errors.As(err, &parse) && parse.Reason != "":
		return parse.Reason
	case errors.As(err, &request) && request.Reason != "":
		return request.Reason
	}
	return err.Error()
}
