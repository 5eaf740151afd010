package expr

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	opening = "${{"
	closing = "}}"
	escaped = "$" + opening
)

// part is a piece of a string: a text, or an expression and where its text begins.
type part struct {
	text  string
	at    int // bytes before the text of an expression
	isRef bool
}

// misplaced is an error at a byte of a string.
type misplaced struct {
	at  int
	err error
}

// split finds the expressions in a string. Other parts are texts as they are meant, without escapes.
func split(s string) ([]part, *misplaced) {
	var parts []part
	var text strings.Builder
	rest := 0
	for {
		i := strings.Index(s[rest:], opening)
		if i < 0 {
			break
		}
		i += rest
		if i > rest && s[i-1] == '$' {
			text.WriteString(s[rest:i-1] + opening)
			rest = i + len(opening)
			continue
		}
		text.WriteString(s[rest:i])
		begin := i + len(opening)
		length, ok := expressionLength(s[begin:])
		if !ok {
			return nil, &misplaced{i, errors.New("${{ has no }} after it; write $${{ for the text itself")}
		}
		if text.Len() > 0 {
			parts = append(parts, part{text: text.String()})
			text.Reset()
		}
		parts = append(parts, part{text: s[begin : begin+length], at: begin, isRef: true})
		rest = begin + length + len(closing)
	}
	text.WriteString(s[rest:])
	if text.Len() > 0 || len(parts) == 0 {
		parts = append(parts, part{text: text.String()})
	}
	return parts, nil
}

// expressionLength is where the expression ends that a text begins with: at the first }} that is neither in a string,
// nor in a comment, nor closes braces of the expression.
func expressionLength(s string) (int, bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i, strings.HasPrefix(s[i:], closing)
			}
			depth--
		case '\'', '"':
			i += stringLength(s[i:], i > 0 && (s[i-1] == 'r' || s[i-1] == 'R')) - 1
		case '/':
			if strings.HasPrefix(s[i:], "//") {
				i += lineLength(s[i:]) - 1
			}
		}
	}
	return 0, false
}

// stringLength is the length of the literal that a text begins with, in CEL's forms: "x", 'x', """x""", ”'x”'.
func stringLength(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return len(s)
}

func lineLength(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

var errNotSingle = errors.New("must be one expression, with ${{ }} around all of it or without")

// single returns the expression that a text is, with or without ${{ }} around it.
func single(s string) (part, *misplaced) {
	before := len(s) - len(strings.TrimLeft(s, " \t\r\n"))
	if !strings.HasPrefix(s[before:], opening) {
		return part{text: s, isRef: true}, nil
	}
	parts, wrong := split(strings.TrimRight(s, " \t\r\n")[before:])
	if wrong != nil {
		return part{}, &misplaced{wrong.at + before, wrong.err}
	}
	if len(parts) != 1 {
		return part{}, &misplaced{before, errNotSingle}
	}
	parts[0].at += before
	return parts[0], nil
}

// place names a byte of a string for people: "character 5", or "line 2, column 3" if it has several lines.
func place(s string, at int) string {
	before := strings.ToValidUTF8(s[:min(at, len(s))], "?")
	if !strings.Contains(s, "\n") {
		return fmt.Sprintf("character %d", utf8.RuneCountInString(before)+1)
	}
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}
