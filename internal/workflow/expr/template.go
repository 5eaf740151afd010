package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types/ref"

	"github.com/dts-sched/dts/internal/task"
)

// Template is JSON whose strings may have expressions. It never changes, so goroutines may share it.
type Template struct {
	raw   []byte
	plain bool
	root  any // as of encoding/json, with *mixture in the place of strings that have expressions
	names map[name]Type
	paths []string
}

// mixture is a string with expressions.
type mixture struct {
	path   string
	text   string // as it is written
	pieces []piece
	isText bool // it yields a text, also if it is one expression
}

// piece is a text, or an expression and where it begins.
type piece struct {
	text    string
	at      int
	program *program // nil: a text
}

// ParseTemplate reads a template. field is its name for messages, such as "payload". The JSON must be valid.
// Error: task.CodeInvalid, with all strings at fault.
func ParseTemplate(field string, raw []byte, s Scope) (*Template, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, task.Invalid(field, "is not valid JSON: %v", err)
	}
	p := templateParser{scope: s, t: &Template{raw: raw, plain: true, names: map[name]Type{}}}
	p.t.root = p.node(field, v)
	if err := task.Join(p.errs...); err != nil {
		return nil, err
	}
	return p.t, nil
}

type templateParser struct {
	scope Scope
	t     *Template
	errs  []error
}

func (p *templateParser) refuse(path, format string, args ...any) {
	p.errs = append(p.errs, task.Invalid(path, format, args...))
}

// node reads a value and all in it.
func (p *templateParser) node(path string, v any) any {
	switch v := v.(type) {
	case string:
		return p.string(path, v)
	case []any:
		for i, element := range v {
			v[i] = p.node(fmt.Sprintf("%s[%d]", path, i), element)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.Contains(name, opening) {
				p.refuse(path, "the name %q has an expression: only values may have one", name)
			}
			v[name] = p.node(path+member(name), v[name])
		}
	}
	return v
}

// string reads a string: it stays one if it has no expression.
func (p *templateParser) string(path, s string) any {
	parts, wrong := split(s)
	if wrong != nil {
		p.refuse(path, "%s: %v", place(s, wrong.at), wrong.err)
		return s
	}
	m := &mixture{path: path, text: s, isText: p.scope.Texts}
	for _, part := range parts {
		piece := piece{text: part.text, at: part.at}
		if part.isRef {
			program, wrong := compile(part.text, p.scope)
			if wrong != nil {
				p.refuse(path, "%s: %v", place(s, part.at+wrong.at), wrong.err)
				return s
			}
			maps.Copy(p.t.names, program.names)
			piece.program = program
		}
		m.pieces = append(m.pieces, piece)
	}
	if len(m.pieces) == 1 && m.pieces[0].program == nil {
		p.t.plain = p.t.plain && m.pieces[0].text == s
		return m.pieces[0].text
	}
	p.t.plain = false
	p.t.paths = append(p.t.paths, path)
	return m
}

// Plain reports whether the template is what it yields: it has neither expressions nor escapes.
func (t *Template) Plain() bool { return t.plain }

// FitsIn reports whether the template can yield JSON of at most limit bytes: what has no expression takes its room
// whatever the others say.
func (t *Template) FitsIn(limit int) bool {
	if t.plain {
		return true // Eval has no limit for it
	}
	w := writer{limit: limit}
	return t.write(&w, shortest(t.root), activation{}) == nil
}

// shortest returns a node of a template with as little as can be in the place of expressions.
func shortest(node any) any {
	switch node := node.(type) {
	case *mixture:
		if len(node.pieces) == 1 && !node.isText {
			return json.Number("0")
		}
		var texts strings.Builder
		for _, piece := range node.pieces {
			if piece.program == nil {
				texts.WriteString(piece.text)
			}
		}
		return texts.String()
	case []any:
		short := make([]any, len(node))
		for i, element := range node {
			short[i] = shortest(element)
		}
		return short
	case map[string]any:
		short := make(map[string]any, len(node))
		for name, member := range node {
			short[name] = shortest(member)
		}
		return short
	}
	return node
}

// Steps returns the ids of the steps that the template reads, sorted.
func (t *Template) Steps() []string { return stepsOf(t.names) }

// Paths returns the paths of the strings that have expressions, such as payload.headers["x-day"], in the order of the
// names in objects.
func (t *Template) Paths() []string { return slices.Clone(t.paths) }

func stepsOf(names map[name]Type) []string {
	var steps []string
	for n := range names {
		if n.root == rootSteps {
			steps = append(steps, n.member)
		}
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// Eval returns the JSON that the template yields, at most limit bytes: ValueLimit for most. What has no expression
// stays as it is written, and the names of objects are sorted. A plain template yields what was parsed, whatever its
// length. Error: task.CodeInvalid.
func (t *Template) Eval(v Values, limit int) ([]byte, error) {
	if t.plain {
		return t.raw, nil
	}
	a, err := activate(t.names, v)
	if err != nil {
		return nil, task.Invalid("", "%v", err)
	}
	w := writer{limit: limit}
	if err := t.write(&w, t.root, a); err != nil {
		return nil, err
	}
	return w.dst, nil
}

func (t *Template) write(w *writer, node any, a activation) error {
	switch node := node.(type) {
	case *mixture:
		return node.write(w, a)
	case []any:
		w.dst = append(w.dst, '[')
		for i, element := range node {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			if err := t.write(w, element, a); err != nil {
				return err
			}
		}
		w.dst = append(w.dst, ']')
	case map[string]any:
		return t.writeObject(w, node, a)
	case json.Number:
		w.dst = append(w.dst, node...) // with the digits that it is written with
	default:
		return w.json(value(node))
	}
	return w.check()
}

func (t *Template) writeObject(w *writer, members map[string]any, a activation) error {
	w.dst = append(w.dst, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		if err := w.quote(name); err != nil {
			return err
		}
		w.dst = append(w.dst, ':')
		if err := t.write(w, members[name], a); err != nil {
			return err
		}
	}
	w.dst = append(w.dst, '}')
	return w.check()
}

func (m *mixture) write(w *writer, a activation) error {
	if len(m.pieces) == 1 && !m.isText {
		v, err := m.eval(m.pieces[0], a)
		if err != nil {
			return err
		}
		return m.at(m.pieces[0], w.json(v))
	}
	var all strings.Builder
	for _, piece := range m.pieces {
		s := piece.text
		if piece.program != nil {
			v, err := m.eval(piece, a)
			if err != nil {
				return err
			}
			if s, err = m.textOf(piece, v, w.limit); err != nil {
				return err
			}
		}
		if all.Len()+len(s) > w.limit {
			return m.at(piece, errors.New("the text is longer than "+bytesText(w.limit)))
		}
		all.WriteString(s)
	}
	return m.at(m.pieces[0], w.quote(all.String()))
}

func (m *mixture) textOf(p piece, v ref.Val, limit int) (string, error) {
	s, err := text(v, limit)
	return s, m.at(p, err)
}

func (m *mixture) eval(p piece, a activation) (ref.Val, error) {
	v, wrong := p.program.eval(a)
	if wrong != nil {
		return nil, task.Invalid(m.path, "%s: %v", place(m.text, p.at+wrong.at), wrong.err)
	}
	return v, nil
}

// at says where an error of a piece is; nil for nil.
func (m *mixture) at(p piece, err error) error {
	if err == nil {
		return nil
	}
	return task.Invalid(m.path, "%s: %v", place(m.text, p.at), err)
}
