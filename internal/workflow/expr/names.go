package expr

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/dts-sched/dts/internal/config"
)

// namer puts what the environment knows in the place of names, and of operators whose work CEL does not bound.
type namer struct {
	scope Scope
	info  *ast.SourceInfo
	make  ast.ExprFactory
	next  int64         // the last id of a node
	names map[name]Type // those that the expression reads

	nested int // the lists and objects around the node

	at  int64 // the node at fault
	err error
}

// local are the variables of the macros around a node, the innermost last.
type local []string

// refuse notes the first fault.
func (n *namer) refuse(e ast.Expr, err error) {
	if n.err == nil {
		n.at, n.err = leftmost(e).ID(), err
	}
}

// visit goes through a node and what is below it.
func (n *namer) visit(e ast.Expr, l local) {
	switch e.Kind() {
	case ast.IdentKind:
		n.ident(e, l)
	case ast.SelectKind:
		if !n.replace(e, l) {
			n.visit(e.AsSelect().Operand(), l)
		}
	case ast.CallKind:
		if !n.replace(e, l) {
			n.call(e, l)
		}
	case ast.ComprehensionKind:
		n.comprehension(e, l)
	case ast.ListKind, ast.MapKind:
		if n.nested++; n.nested > NestingLimit {
			n.refuse(e, fmt.Errorf("lists, objects and macros are nested more than %d deep", NestingLimit))
			return
		}
		n.parts(e, l)
		n.nested--
	case ast.StructKind:
		n.refuse(e, fmt.Errorf("%s{...} is not offered: write an object as {\"name\": value}", e.AsStruct().TypeName()))
	}
}

// parts visits what a list or an object is written with.
func (n *namer) parts(e ast.Expr, l local) {
	if e.Kind() == ast.ListKind {
		for _, element := range e.AsList().Elements() {
			n.visit(element, l)
		}
		return
	}
	for _, entry := range e.AsMap().Entries() {
		n.visit(entry.AsMapEntry().Key(), l)
		n.visit(entry.AsMapEntry().Value(), l)
	}
}

// typeNames are the names that an expression may compare the type of a value with.
var typeNames = []string{
	"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint",
}

func (n *namer) ident(e ast.Expr, l local) {
	written := e.AsIdent()
	switch {
	case slices.Contains(l, written), slices.Contains(typeNames, written):
	case written == rootSteps:
		n.refuse(e, fmt.Errorf("steps: write out the step and what to read of it, as in %s", n.exampleOfStep()))
	case slices.Contains(roots, written):
		n.refuse(e, fmt.Errorf("%s: write out what to read of it: there is %s", written, list(n.members(written))))
	default:
		n.refuse(e, fmt.Errorf("there is no %s%s: the names are %s",
			written, config.DidYouMean(written, slices.Concat(roots, l)), list(roots)))
	}
}

func (n *namer) exampleOfStep() string {
	step := "a"
	if len(n.scope.Steps) > 0 {
		step = n.scope.Steps[0]
	}
	return name{rootSteps, step, "output"}.String()
}

// replace puts a variable in the place of a node that is a name, and reports whether it is one, or one at fault.
func (n *namer) replace(e ast.Expr, l local) bool {
	path, ok := pathOf(e)
	if !ok || slices.Contains(l, path[0]) || !slices.Contains(roots, path[0]) {
		return false
	}
	length := 2
	if path[0] == rootSteps {
		length = 3
	}
	if len(path) > length {
		return false // what is below it is the name
	}
	found, typ, err := n.find(path)
	if err != nil {
		n.refuse(e, err)
		return true
	}
	n.names[found] = typ
	if o, ok := n.info.GetOffsetRange(leftmost(e).ID()); ok {
		n.info.SetOffsetRange(e.ID(), o)
	}
	tested := e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()
	if !tested {
		e.SetKindCase(n.read(e, typ, found))
		return true
	}
	if found.root != rootParams && found.field != "output" {
		n.refuse(e, fmt.Errorf("%s always is there: has() is for params and outputs", found))
		return true
	}
	operand, null := n.node(e), n.node(e)
	operand.SetKindCase(n.read(operand, Any, found))
	null.SetKindCase(n.make.NewLiteral(null.ID(), types.NullValue))
	e.SetKindCase(n.make.NewCall(e.ID(), differs, operand, null))
	return true
}

// read is a node that reads a name.
func (n *namer) read(e ast.Expr, t Type, found name) ast.Expr {
	object, key := n.node(e), n.node(e)
	object.SetKindCase(n.make.NewIdent(object.ID(), variable(t)))
	key.SetKindCase(n.make.NewLiteral(key.ID(), types.String(found.String())))
	return n.make.NewCall(e.ID(), operators.Index, object, key)
}

// node makes a node at the place of another one.
func (n *namer) node(at ast.Expr) ast.Expr {
	n.next++
	if o, ok := n.info.GetOffsetRange(at.ID()); ok {
		n.info.SetOffsetRange(n.next, o)
	}
	return n.make.NewUnspecifiedExpr(n.next)
}

// leftmost is where a node begins. CEL has the place of a field at its dot.
func leftmost(e ast.Expr) ast.Expr {
	for {
		operand, _, ok := step(e)
		if !ok {
			return e
		}
		e = operand
	}
}

// pathOf is what a node selects from what: [steps load output] for steps.load.output and for steps["load"].output.
func pathOf(e ast.Expr) ([]string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}, true
	case ast.SelectKind:
		path, ok := pathOf(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || call.Args()[1].Kind() != ast.LiteralKind {
			return nil, false
		}
		key, isText := call.Args()[1].AsLiteral().(types.String)
		path, ok := pathOf(call.Args()[0])
		return append(path, string(key)), ok && isText
	default:
		return nil, false
	}
}

// find returns the name that a path is, and the type of its value.
func (n *namer) find(path []string) (name, Type, error) {
	root, key := path[0], path[1]
	switch root {
	case rootParams:
		if t, ok := n.scope.Params[key]; ok {
			return name{root: root, member: key}, t, nil
		}
		return name{}, "", unknown("param", key, n.members(root), "the workflow has no params")
	case rootRun:
		if f, ok := runFields[key]; ok {
			return name{root: root, member: key}, f.typ, nil
		}
		return name{}, "", unknown("field run.", key, n.members(root), "")
	case rootPrev:
		if n.scope.Prev == "" {
			return name{}, "", errors.New("prev is not known here: it stands for the only need of a step that has one need")
		}
		return n.findStep(n.scope.Prev, path[1:])
	default:
		if !n.scope.has(key) {
			return name{}, "", unknownStep(key, n.scope.Steps)
		}
		return n.findStep(key, path[2:])
	}
}

func (n *namer) findStep(step string, rest []string) (name, Type, error) {
	prefix := name{root: rootSteps, member: step}.String() + "."
	if len(rest) == 0 {
		return name{}, "", fmt.Errorf("%s: write out what to read of it: there is %s",
			strings.TrimSuffix(prefix, "."), list(slices.Sorted(maps.Keys(stepFields))))
	}
	f, ok := stepFields[rest[0]]
	if !ok {
		return name{}, "", unknown("field "+prefix, rest[0], slices.Sorted(maps.Keys(stepFields)), "")
	}
	return name{root: rootSteps, member: step, field: rest[0]}, f.typ, nil
}

// members are the names below a root, in their order.
func (n *namer) members(root string) []string {
	switch root {
	case rootParams:
		return slices.Sorted(maps.Keys(n.scope.Params))
	case rootRun:
		return slices.Sorted(maps.Keys(runFields))
	default:
		return slices.Sorted(maps.Keys(stepFields))
	}
}

// unknown says which names there are in the place of an unknown one.
func unknown(what, written string, known []string, none string) error {
	if !strings.HasSuffix(what, ".") {
		what += " "
	}
	if len(known) == 0 {
		return fmt.Errorf("there is no %s%s: %s", what, written, none)
	}
	return fmt.Errorf("there is no %s%s%s: there is %s", what, written, config.DidYouMean(written, known), list(known))
}

func unknownStep(written string, steps []string) error {
	const rule = "only steps that come before this one, by its needs or theirs, can be read"
	if len(steps) == 0 {
		return fmt.Errorf("step %s cannot be read: %s, and there is none", written, rule)
	}
	near := config.DidYouMean(written, steps)
	for _, step := range steps {
		if strings.HasPrefix(step, written+"-") { // which CEL takes for a minus
			near = "; did you mean " + name{root: rootSteps, member: step}.String() + "?"
			break
		}
	}
	return fmt.Errorf("step %s cannot be read%s: %s: %s", written, near, rule, list(slices.Sorted(slices.Values(steps))))
}

// listed is how many names a message lists.
const listed = 20

func list(names []string) string {
	if len(names) > listed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
	}
	return strings.Join(names, ", ")
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// member is a name below another one, as it is written.
func member(name string) string {
	if identifier.MatchString(name) {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}

func (n *namer) comprehension(e ast.Expr, l local) {
	c := e.AsComprehension()
	n.visit(c.IterRange(), l)
	n.visit(c.AccuInit(), l)
	inner := append(slices.Clone(l), c.IterVar(), c.AccuVar())
	n.visit(c.LoopCondition(), inner)
	n.visit(c.LoopStep(), inner)
	n.visit(c.Result(), inner)

	through := n.node(c.IterRange())
	through.SetKindCase(c.IterRange())
	c.IterRange().SetKindCase(n.make.NewCall(c.IterRange().ID(), each, through))
}

// offered are the functions that an expression may call, but for operators.
var offered = []string{
	"bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate", "getDayOfMonth", "getDayOfWeek",
	"getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "int", "join",
	"max", "min", "range", "size", "split", "startsWith", "string", "sum", "timestamp", "type", "uint",
}

// macros are the functions with a variable, by how they are called.
var macros = map[string]string{
	"all": "list.all(x, x > 0)", "exists": "list.exists(x, x > 0)", "exists_one": "list.exists_one(x, x > 0)",
	"map": "list.map(x, x * 2)", "filter": "list.filter(x, x > 0)", "has": "has(params.day)",
}

func (n *namer) call(e ast.Expr, l local) {
	call := e.AsCall()
	if err := checkFunction(call); err != nil {
		n.refuse(e, err)
		return
	}
	if call.IsMemberFunction() {
		n.visit(call.Target(), l)
	}
	for _, arg := range call.Args() {
		n.visit(arg, l)
	}
	if other := replaced[call.FunctionName()]; other != "" {
		e.SetKindCase(n.make.NewCall(e.ID(), other, call.Args()...))
	}
}

func checkFunction(call ast.CallExpr) error {
	written := call.FunctionName()
	_, isOperator := operators.FindReverse(written)
	switch {
	case isOperator, strings.HasPrefix(written, "@"), written == operators.Conditional, written == operators.Index,
		written == operators.NotStrictlyFalse:
		return nil
	case written == "matches":
		return errors.New("matches is not offered, as the work of a regular expression has no bound; " +
			"there is contains, startsWith, endsWith, split")
	case macros[written] != "":
		return fmt.Errorf("%s is written as %s", written, macros[written])
	case !slices.Contains(offered, written):
		known := slices.Concat(offered, slices.Sorted(maps.Keys(macros)))
		near := config.Nearest(written, known)
		if near == "" {
			return fmt.Errorf("there is no function %s: there is %s", written, strings.Join(known, ", "))
		}
		return fmt.Errorf("there is no function %s; did you mean %s?", written, near)
	case strings.HasPrefix(written, "get") && len(call.Args()) > 0:
		return fmt.Errorf("%s takes no time zone: times are in UTC", written)
	}
	return nil
}
