package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// What is wrong with a request that does not fit the document: which field, and what would be right.

// misfit is the error for a body that does not fit the document.
type misfit struct {
	error
	readable bool // the types of all its values fit, so that the body can be read
}

func (m misfit) Unwrap() error { return m.error }

// mismatches names all fields of a body that do not fit the document, given the first one. Of a large body it names
// that one only, as a search for the others would go through all of it.
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
	case e.SchemaField == "type":
		return cmp.Or(explainType(e.Schema, e.Value), e.Reason)
	case e.SchemaField == "pattern":
		return explainPattern(e.Schema, fmt.Sprint(e.Value))
	case e.SchemaField == "format":
		return fmt.Sprintf("%q is not a time such as 2026-01-02T15:04:05Z", e.Value)
	case e.SchemaField == "minProperties":
		return "an object without members changes nothing: give at least one"
	case e.SchemaField == "enum":
		return explainEnum(e.Schema, e.Value)
	case (e.SchemaField == "minimum" || e.SchemaField == "maximum") && e.Schema.Min != nil && e.Schema.Max != nil:
		text := fmt.Sprintf("%v must be %v to %v", e.Value, number(*e.Schema.Min), number(*e.Schema.Max))
		if zero, has := e.Schema.Extensions[zeroExtension]; has {
			text += fmt.Sprintf("; 0 for %v", zero)
		}
		return text
	}
	return e.Reason
}

// explainType says what would be right for a value of a wrong type; "" if nobody can tell what was meant. It names the
// value as a text or in an array only if the document allows that.
func explainType(schema *openapi3.Schema, value any) string {
	given, err := json.Marshal(value)
	switch value.(type) {
	case map[string]any, []any, nil:
		return ""
	}
	allowed := func(instead any) bool { return schema.VisitJSON(instead, openapi3.VisitAsRequest()) == nil }
	switch {
	case err != nil || len(given) > mostQuoted:
		return ""
	case schema.Type.Is("array") && allowed([]any{value}):
		return fmt.Sprintf("%s must be an array, such as [%s]", given, given)
	case schema.Type.Is("array"):
		return fmt.Sprintf("%s must be an array", given)
	case schema.Type.Is("string"):
		return fmt.Sprintf("%s must be %s", given, textFor(schema, string(given), allowed))
	}
	return ""
}

// textFor says which text would be right in the place of a number, true or false.
func textFor(schema *openapi3.Schema, given string, allowed func(any) bool) string {
	switch {
	case schema.Extensions[wordsExtension] == "duration":
		return `a duration with its unit, such as "1m30s"`
	case schema.Format == "date-time":
		return `a time such as "2026-01-02T15:04:05Z"`
	case allowed(given):
		return `a string: "` + given + `"`
	}
	return "a string"
}

// explainEnum lists what would be right, for a value of any type.
func explainEnum(schema *openapi3.Schema, value any) string {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q must be %s", text, alternatives(schema.Enum))
	}
	return "must be " + alternatives(schema.Enum)
}

// mostQuoted is how many bytes an error quotes of a value.
const mostQuoted = 100

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

// wordsExtension is the member of a schema with a pattern that names a check of the use cases: see words. The check
// says in words what a pattern cannot say.
const wordsExtension = "x-in-words"

// words are these checks.
var words = map[string]func(value string) error{
	"name": func(value string) error { return task.ValidateName("", value) },
	"type": task.ValidateType,
	"task": func(value string) error {
		return task.ValidateRef(task.Ref{Namespace: task.DefaultNamespace, ID: value})
	},
	"schedule":  schedule.ValidateID,
	"new task":  task.ValidateNewID,
	"key":       func(value string) error { return task.ValidateNewID(unquoted(value)) },
	"once key":  task.ValidateOnceKey,
	"fair key":  task.ValidateFairKey,
	"limit key": task.ValidateLimitKey,
	"route key": task.ValidateRouteKey,
	"worker":    func(value string) error { return control.ValidateWorkerName("", value) },
	"duration": func(value string) error {
		if d, err := time.ParseDuration(value); err == nil && d < 0 {
			return task.Invalid("", "%s is negative", d)
		}
		return task.Invalid("", "%q is not a duration such as 1m30s or 48h", value)
	},
}

// explainPattern says what is wrong with a value that does not match the pattern of its schema, which has words or an
// example.
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
