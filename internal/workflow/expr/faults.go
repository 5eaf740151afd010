package expr

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// rewording is a message of CEL and what people get in its place.
type rewording struct {
	from *regexp.Regexp
	to   string
}

func reword(message string, all []rewording) string {
	for _, r := range all {
		if r.from.MatchString(message) {
			return r.from.ReplaceAllString(message, r.to)
		}
	}
	return message
}

var syntaxErrors = []rewording{
	{regexp.MustCompile(`(?s)^Syntax error: .*'<EOF>'.*$`), `the expression ends too early`},
	{regexp.MustCompile(`(?s)^Syntax error: token recognition error at: (.*)$`),
		`$1 cannot be read: is a quote or a bracket missing?`},
	{regexp.MustCompile(`(?s)^Syntax error: (?:mismatched|extraneous) input ('.*?') expecting .*$`),
		`$1 does not belong here`},
	{regexp.MustCompile(`(?s)^Syntax error: no viable alternative at input ('.*')$`), `$1 does not belong here`},
	{regexp.MustCompile(`(?s)^Syntax error: missing ('.*?') at ('.*')$`), `$1 is missing before $2`},
	{regexp.MustCompile(`(?s)^Syntax error: `), ``},
	{regexp.MustCompile(`^invalid argument to has\(\) macro$`),
		`has takes a name or a field after a dot, as in has(params.day); compare others with null`},
	{tooDeep, `the expression is nested too deeply, or has too many operators in a row`},
}

// tooDeep matches what CEL says when it gives up reading.
var tooDeep = regexp.MustCompile(`^.*(recursion (depth|limit)|limit) exceeded(: \d+)?$`)

// syntax says what is wrong with the form of an expression.
func syntax(message string) string { return reword(message, syntaxErrors) }

var (
	noOverload = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`)
	typeErrors = []rewording{
		{regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`), `must be $1, not $2`},
		{regexp.MustCompile(`^type '(.*)' does not support field selection$`), `$1 has no fields`},
		{regexp.MustCompile(`^undeclared reference to '(.*?)'.*$`), `there is no $1`},
	}
	celNames = strings.NewReplacer(
		"wrapper(int)", "integer", "wrapper(double)", "number", "wrapper(string)", "string", "wrapper(bool)", "boolean",
		"map(string, dyn)", "object", "list(dyn)", "list", "int", "integer", "double", "number", "bool", "boolean",
		"google.protobuf.Timestamp", "timestamp", "google.protobuf.Duration", "duration", "dyn", "any",
	)
)

// mismatch says what is wrong with the types in an expression.
func mismatch(message string) string {
	if m := noOverload.FindStringSubmatch(message); m != nil {
		return noMatch(m[1], m[2])
	}
	return shortened(celNames.Replace(reword(message, typeErrors)))
}

// shortened is a text without the end that nobody reads: types nest as deeply as values.
func shortened(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// noMatch says that a function does not take such arguments.
func noMatch(function, args string) string {
	args = shortened(celNames.Replace(args))
	for operator, other := range replaced {
		if function == other {
			function = operator
		}
	}
	args = strings.TrimSuffix(strings.TrimPrefix(args, "("), ")")
	symbol, isOperator := operators.FindReverse(function)
	switch {
	case function == operators.Conditional:
		return fmt.Sprintf("? needs true or false before it, and two values of one type after it, not (%s)", args)
	case function == each:
		return fmt.Sprintf("only lists and objects have elements to go through, not %s", args)
	case !isOperator || symbol == "":
		return fmt.Sprintf("%s does not take (%s)", function, args)
	case strings.Contains(args, "integer") && strings.Contains(args, "string"):
		return fmt.Sprintf("%s does not take (%s): string(x) makes a text, int(x) an integer", symbol, args)
	case strings.Contains(args, "integer") && strings.Contains(args, "number"):
		return fmt.Sprintf("%s does not take (%s): write 5.0 for 5, or double(x)", symbol, args)
	case strings.Contains(args, "null"):
		return fmt.Sprintf("%s does not take (%s): has(x) says whether a param is given", symbol, args)
	default:
		return fmt.Sprintf("%s does not take (%s)", symbol, args)
	}
}

// noSuchKey begins the error of CEL for an object without a member.
const noSuchKey = "no such key: "

var evaluationErrors = []rewording{
	{regexp.MustCompile(`^.*actual cost limit exceeded$`),
		fmt.Sprintf(`the evaluation takes too much work, more than %d units: go through fewer elements`, CostLimit)},
	{regexp.MustCompile(`no such overload`), `an operator or a function does not take values of these types`},
	{regexp.MustCompile(`^(?:divide|division) by zero$`), `a number is divided by zero`},
	{regexp.MustCompile(`^modulus by zero$`), `a number is divided by zero`},
	{regexp.MustCompile(`^index out of bounds: (.*)$`), `the list has no element $1`},
	{regexp.MustCompile(`^internal error: .*unhashable.*$`), `bytes cannot be a name in an object`},
}

// evaluation says what is wrong with the values of an expression.
func evaluation(message string) string { return reword(message, evaluationErrors) }

// node is the node of an expression that has an id; the whole expression if there is none.
func (p *program) node(id int64) ast.Expr {
	found := p.root
	ast.PostOrderVisit(p.root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() == id {
			found = e
		}
	}))
	return found
}

// missingField says which value has no such field. The node is where that failed.
func missingField(node ast.Expr, key string, a activation) string {
	if owner := ownerOf(node, key); owner != "" {
		if _, isText := a.named[owner].(types.String); isText {
			return fmt.Sprintf("%s is text, and only JSON has fields such as %q", owner, key)
		}
		return fmt.Sprintf("%s has no field %q", owner, key)
	}
	return fmt.Sprintf("the value has no field %q", key)
}

// ownerOf is how the value is written whose field a node reads; "" if that is not simple.
func ownerOf(e ast.Expr, key string) string {
	for {
		operand, field, ok := step(e)
		if !ok {
			return ""
		}
		if field == key {
			return written(operand)
		}
		e = operand
	}
}

// step is the value that a node reads a field of, and the field.
func step(e ast.Expr) (operand ast.Expr, field string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index {
			return nil, "", false
		}
		if call.Args()[1].Kind() != ast.LiteralKind {
			return call.Args()[0], "", true
		}
		return call.Args()[0], fmt.Sprint(call.Args()[1].AsLiteral().Value()), true
	default:
		return nil, "", false
	}
}

// written is a node as the user wrote it; "" if that is not simple.
func written(e ast.Expr) string {
	if e.Kind() == ast.IdentKind {
		return e.AsIdent()
	}
	operand, field, ok := step(e)
	if !ok {
		return ""
	}
	if operand.Kind() == ast.IdentKind && strings.HasPrefix(operand.AsIdent(), "@") {
		return field // the name itself
	}
	owner := written(operand)
	if owner == "" || field == "" {
		return ""
	}
	if e.Kind() == ast.CallKind {
		if _, isText := e.AsCall().Args()[1].AsLiteral().(types.String); !isText {
			return owner + "[" + field + "]"
		}
	}
	return owner + member(field)
}
