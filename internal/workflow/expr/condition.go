package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/dts-sched/dts/internal/task"
)

// Condition is an expression that is true or false. It never changes, so goroutines may share it.
type Condition struct {
	field   string
	text    string
	at      int // where the expression begins in the text
	program *program
}

// ParseCondition reads a condition: an expression, with ${{ }} around all of it or without. field is its name for
// messages, such as "when". Error: task.CodeInvalid; also if its value is known to be neither true nor false.
func ParseCondition(field, text string, s Scope) (*Condition, error) {
	expression, wrong := single(text)
	if wrong != nil {
		return nil, task.Invalid(field, "%s: %v", place(text, wrong.at), wrong.err)
	}
	p, wrong := compile(expression.text, s)
	if wrong != nil && expression.at == 0 && strings.Contains(text, opening) {
		wrong = &misplaced{strings.Index(text, opening), errNotSingle}
	}
	if wrong != nil {
		return nil, task.Invalid(field, "%s: %v", place(text, expression.at+wrong.at), wrong.err)
	}
	if !celTypes[Boolean].IsAssignableType(p.result) && !p.result.IsExactType(cel.DynType) {
		return nil, task.Invalid(field, "must be true or false, and is of type %s", celNames.Replace(p.result.String()))
	}
	return &Condition{field: field, text: text, at: expression.at, program: p}, nil
}

// Steps returns the ids of the steps that the condition reads, sorted.
func (c *Condition) Steps() []string { return stepsOf(c.program.names) }

// Holds returns whether the condition is true. Error: task.CodeInvalid; also if its value is neither true nor false.
func (c *Condition) Holds(v Values) (bool, error) {
	a, err := activate(c.program.names, v)
	if err != nil {
		return false, task.Invalid(c.field, "%v", err)
	}
	result, wrong := c.program.eval(a)
	if wrong != nil {
		return false, task.Invalid(c.field, "%s: %v", place(c.text, c.at+wrong.at), wrong.err)
	}
	holds, ok := result.(types.Bool)
	if !ok {
		return false, task.Invalid(c.field, "must be true or false, and is %s", kind(result))
	}
	return bool(holds), nil
}
