package expr

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// program is an expression that can be evaluated.
type program struct {
	text   string // as it is written
	cel    cel.Program
	root   ast.Expr
	info   *ast.SourceInfo
	names  map[name]Type // those that it reads
	result *cel.Type
}

// compile reads an expression. Its error is at a byte of the text.
func compile(text string, s Scope) (*program, *misplaced) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, &misplaced{0, errors.New("the expression is empty")}
	case len(text) > LengthLimit:
		return nil, &misplaced{0, fmt.Errorf("the expression has %d bytes, more than %d", len(text), LengthLimit)}
	case !utf8.ValidString(text):
		return nil, &misplaced{0, errors.New("the expression is not valid UTF-8")}
	}
	e := environment()
	parsed, issues := e.Parse(text)
	if issues.Err() != nil {
		return nil, fault(text, issues.Errors(), syntax)
	}
	root, info := parsed.NativeRep().Expr(), parsed.NativeRep().SourceInfo()
	n := &namer{
		scope: s, info: info, make: ast.NewExprFactory(), next: ast.MaxID(parsed.NativeRep()), names: map[name]Type{},
	}
	if n.visit(root, nil); n.err != nil {
		return nil, &misplaced{offset(text, info.GetStartLocation(n.at)), n.err}
	}
	checked, issues := e.Check(parsed)
	if issues.Err() != nil {
		return nil, fault(text, issues.Errors(), mismatch)
	}
	p, err := e.Program(checked, cel.CostTracking(prices{}), cel.CostLimit(CostLimit))
	if err != nil {
		return nil, &misplaced{0, errors.New(evaluation(err.Error()))}
	}
	return &program{text: text, cel: p, root: root, info: info, names: n.names, result: checked.OutputType()}, nil
}

// fault is the first of some issues, in other words.
func fault(text string, issues []*cel.Error, translate func(string) string) *misplaced {
	first := issues[0]
	for _, issue := range issues[1:] {
		earlier := offset(text, issue.Location) < offset(text, first.Location)
		if tooDeep.MatchString(first.Message) || earlier && !tooDeep.MatchString(issue.Message) {
			first = issue
		}
	}
	return &misplaced{offset(text, first.Location), errors.New(translate(first.Message))}
}

// offset is the byte of a text that a location of CEL is: a line from 1 and a column from 0, which counts characters.
func offset(text string, l common.Location) int {
	at := 0
	for line := 1; line < l.Line(); line++ {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	for column := 0; column < l.Column() && at < len(text); column++ {
		_, width := utf8.DecodeRuneInString(text[at:])
		at += width
	}
	return at
}

// eval returns the value of an expression. Its error is at a byte of the text.
func (p *program) eval(a activation) (ref.Val, *misplaced) {
	if a.work.isDone() {
		return nil, &misplaced{0, errTooMuchWork}
	}
	v, details, err := p.cel.Eval(a)
	if cost := details.ActualCost(); cost != nil {
		a.work.add(*cost)
	}
	if err != nil {
		return nil, p.failure(err, a)
	}
	return v, nil
}

// errTooMuchWork refuses an evaluation after others that share one CostLimit with it.
var errTooMuchWork = fmt.Errorf(
	"this expression and those before it take too much work together, more than %d units: go through fewer elements",
	CostLimit)

func (p *program) failure(err error, a activation) *misplaced {
	var failed *types.Err
	if !errors.As(err, &failed) || failed.NodeID() == 0 {
		return &misplaced{len(p.text) - len(strings.TrimLeft(p.text, " \t\r\n")), errors.New(evaluation(err.Error()))}
	}
	node := p.node(failed.NodeID())
	at := offset(p.text, p.info.GetStartLocation(leftmost(node).ID()))
	if key, missing := strings.CutPrefix(err.Error(), noSuchKey); missing {
		return &misplaced{at, errors.New(missingField(node, key, a))}
	}
	return &misplaced{at, errors.New(evaluation(err.Error()))}
}
