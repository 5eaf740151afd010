package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// Param declares a parameter of runs.
type Param struct {
	Name     string // as the id of a step
	Type     expr.Type
	Required bool            // a run without it is refused
	Default  json.RawMessage // of a run without it; nil: null
	Enum     []json.RawMessage
	Pattern  string   // of a string: the whole of it matches this regular expression (RE2)
	Min, Max *float64 // of an integer or a number
}

const (
	paramsSize   = 64 << 10 // bytes of the params of a run
	enumLimit    = 100
	patternLimit = 200 // bytes
)

// validate checks a declaration. Error: CodeInvalid, in fields such as "default".
func (p Param) validate() error {
	return task.JoinChecks([]func() error{
		func() error { return ValidateStepID("name", p.Name) },
		func() error {
			if !slices.Contains(types, p.Type) {
				return task.Invalid("type", "%q must be one of %s", p.Type, join(types))
			}
			return nil
		},
		p.validatePattern,
		func() error {
			if (p.Min != nil || p.Max != nil) && p.Type != expr.Integer && p.Type != expr.Number {
				return task.Invalid("min", "is for an integer or a number, and this is of type %s", p.Type)
			}
			if p.Min != nil && p.Max != nil && *p.Min > *p.Max {
				return task.Invalid("max", "%v is less than min, %v", *p.Max, *p.Min)
			}
			return nil
		},
		p.validateValues,
	})
}

func (p Param) validatePattern() error {
	switch {
	case p.Pattern == "":
		return nil
	case p.Type != expr.String:
		return task.Invalid("pattern", "is for a string, and this is of type %s", p.Type)
	case len(p.Pattern) > patternLimit:
		return task.Invalid("pattern", "is %d bytes long, at most %d are allowed", len(p.Pattern), patternLimit)
	}
	if _, err := regexp.Compile(p.Pattern); err != nil {
		return task.Invalid("pattern", "%v", err)
	}
	return nil
}

// validateValues checks the default and the enum.
func (p Param) validateValues() error {
	if len(p.Enum) > enumLimit {
		return task.Invalid("enum", "has %d values, at most %d are allowed", len(p.Enum), enumLimit)
	}
	for i, raw := range p.Enum {
		if _, err := p.typed(raw); err != nil {
			return task.Invalid(fmt.Sprintf("enum[%d]", i), "%v", err)
		}
	}
	switch {
	case p.Default == nil:
		return nil
	case p.Required:
		return task.Invalid("default", "is never used, as the param is required: leave out one of both")
	}
	if _, err := p.value(p.Default); err != nil {
		return task.Invalid("default", "%v", err)
	}
	return nil
}

// value returns the value that JSON is, after all checks. The error is text for people.
func (p Param) value(raw json.RawMessage) (any, error) {
	v, err := p.typed(raw)
	if err != nil {
		return nil, err
	}
	if len(p.Enum) > 0 && !slices.ContainsFunc(p.Enum, func(e json.RawMessage) bool { return equalJSON(e, raw) }) {
		return nil, fmt.Errorf("%.100s must be one of %s", raw, join(p.Enum))
	}
	if p.Pattern != "" && !regexp.MustCompile(`^(?:`+p.Pattern+`)$`).MatchString(v.(string)) {
		return nil, fmt.Errorf("%.100q does not match the pattern %s", v, p.Pattern)
	}
	if n, ok := number(v); ok {
		if p.Min != nil && n < *p.Min {
			return nil, fmt.Errorf("%v is less than %v", v, *p.Min)
		}
		if p.Max != nil && n > *p.Max {
			return nil, fmt.Errorf("%v is more than %v", v, *p.Max)
		}
	}
	return v, nil
}

// types are those that a param can have.
var types = []expr.Type{expr.String, expr.Integer, expr.Number, expr.Boolean, expr.List, expr.Object}

// typed returns the value that JSON is, if it is of the right type: as package json decodes it, but with the digits of
// numbers.
func (p Param) typed(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	if !isOf(v, p.Type) {
		return nil, fmt.Errorf("%.100s is not of type %s", raw, p.Type)
	}
	return v, nil
}

func isOf(v any, t expr.Type) (is bool) {
	switch t {
	case expr.String:
		_, is = v.(string)
	case expr.Integer:
		n, ok := number(v)
		is = ok && n == math.Trunc(n)
	case expr.Number:
		_, is = number(v)
	case expr.Boolean:
		_, is = v.(bool)
	case expr.List:
		_, is = v.([]any)
	case expr.Object:
		_, is = v.(map[string]any)
	}
	return is
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

func equalJSON(a, b json.RawMessage) bool {
	return bytes.Equal(compact(a), compact(b))
}

func compact(raw json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// Bind returns the values of the params of a run, by name. given are those that its request has. Error: CodeInvalid,
// in fields such as "params.day".
func (d Definition) Bind(given map[string]json.RawMessage) (map[string]any, error) {
	return bind("params", "the workflow", "a run", d.Params, given, paramsSize)
}

// bind returns values by name, as they were declared. of names in errors whose declarations they are, and who needs
// those that are required.
func bind(
	field, of, who string, declared []Param, given map[string]json.RawMessage, limit int,
) (map[string]any, error) {
	size := 0
	for name, raw := range given {
		size += len(name) + len(raw)
	}
	if size > limit {
		return nil, task.Invalid(field, "has %d bytes, at most %d are allowed", size, limit)
	}
	values := make(map[string]any, len(declared))
	var errs []error
	for _, p := range declared {
		raw, has := given[p.Name]
		switch {
		case has:
		case p.Required:
			errs = append(errs, task.Invalid(field+"."+p.Name, "is missing: %s needs it", who))
			continue
		case p.Default == nil:
			values[p.Name] = nil
			continue
		default:
			raw = p.Default
		}
		v, err := p.value(raw)
		if err != nil {
			errs = append(errs, task.Invalid(field+"."+p.Name, "%v", err))
			continue
		}
		values[p.Name] = v
	}
	for _, name := range sortedKeys(given) {
		if !slices.ContainsFunc(declared, func(p Param) bool { return p.Name == name }) {
			errs = append(errs, task.Invalid(field+"."+name, "is no param of %s: it has %s", of, namesOf(declared)))
		}
	}
	return values, task.Join(errs...)
}

// namesOf returns the names of params, for people.
func namesOf(params []Param) string {
	if len(params) == 0 {
		return "none"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}
