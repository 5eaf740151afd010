package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
)

// Limits of a selector. A leader matches it with each node.
const (
	TermsLimit    = 16
	SelectorLimit = 1000 // characters
)

// field is the name of a selector in the API.
const field = "select"

// valueForm is what a value consists of: what a label's value does, and what names, ids and versions of nodes do.
const valueForm = "A-Z a-z 0-9 . _ - / +"

// comparisons are the operators that stand between a name and a value, with their kinds. One that begins with another
// one comes before it.
var comparisons = []struct {
	sign string
	is   operator
}{
	{"==", isIn}, {"!=", isNot}, {">=", atLeast}, {"<=", atMost}, {"=", isIn}, {">", more}, {"<", less},
}

// ParseSelector reads terms with commas between them, all of which a node must satisfy. It is the grammar of
// Kubernetes's label selectors with two more comparisons:
//
//	zone=eu  zone==eu      the label has this value
//	zone!=eu               it has not, or there is no such label
//	zone in (eu, us)       it has one of these values
//	zone notin (eu, us)    it has none of them, or there is no such label
//	gpu  !gpu              there is such a label, there is none
//	mem>=16  > < <=        the label's value is a number, and compares so
//
// Only comparisons take values for numbers: 16 and 16.0 are different values of zone=16. An empty text is a selector
// without terms. Error: CodeInvalid of the field select, which says the term, where it begins, and what would be valid.
func ParseSelector(text string) (Selector, error) {
	if err := checkLength(text); err != nil {
		return Selector{}, err
	}
	switch {
	case text == "":
		return Selector{}, nil
	case blank(text) == "":
		return Selector{}, task.Invalid(field, "has only blanks; must have a term, as zone=eu, or be empty")
	}
	var s Selector
	begin := 0
	for i, part := range splitTerms(text) {
		if i == TermsLimit {
			return Selector{}, task.Invalid(field, "has more than %d terms; must have at most %d", TermsLimit, TermsLimit)
		}
		t, err := parseTerm(blank(part))
		if err != nil {
			begin += len(part) - len(strings.TrimLeft(part, blanks))
			return Selector{}, task.Invalid(field, "term %d, %q, at character %d: %v",
				i+1, blank(part), utf8.RuneCountInString(text[:begin])+1, err)
		}
		s.terms = append(s.terms, t)
		begin += len(part) + len(",")
	}
	slices.SortFunc(s.terms, func(a, b term) int { return cmp.Compare(a.String(), b.String()) })
	s.terms = slices.CompactFunc(s.terms, func(a, b term) bool { return a.String() == b.String() })
	if err := checkLength(s.String()); err != nil { // it has a blank before each list
		return Selector{}, err
	}
	return s, nil
}

// checkLength returns an error if a text is too long for a selector.
func checkLength(text string) error {
	if n := utf8.RuneCountInString(text); n > SelectorLimit {
		return task.Invalid(field, "has %d characters; must have at most %d", n, SelectorLimit)
	}
	return nil
}

// blanks may stand around terms, names, operators and values.
const blanks = " \t\r\n"

// blank returns a text without the blanks around it.
func blank(text string) string { return strings.Trim(text, blanks) }

// splitTerms splits a text at the commas that are not between parentheses.
func splitTerms(text string) []string {
	var parts []string
	begin, within := 0, false
	for i, c := range []byte(text) {
		switch {
		case c == '(':
			within = true
		case c == ')':
			within = false
		case c == ',' && !within:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// parseTerm reads one term without blanks around it. The error says what would be valid.
func parseTerm(text string) (term, error) {
	if text == "" {
		return term{}, fmt.Errorf("must be a term, as zone=eu; a comma stands between two terms")
	}
	if after, negated := strings.CutPrefix(text, "!"); negated {
		name := blank(after)
		return term{name: name, is: lacksLabel}, checkName(name)
	}
	name := text
	if end := strings.IndexFunc(text, notOfValue); end >= 0 {
		name = text[:end]
	}
	if err := checkName(name); err != nil {
		return term{}, err
	}
	rest := blank(text[len(name):])
	if rest == "" {
		return term{name: name, is: hasLabel}, nil
	}
	for _, c := range comparisons {
		if after, found := strings.CutPrefix(rest, c.sign); found {
			return parseValue(term{name: name, is: c.is}, c.sign, blank(after))
		}
	}
	for _, is := range []operator{isIn, isNot} {
		if after, found := strings.CutPrefix(rest, string(is)); found && !startsWithValue(after) {
			return parseList(term{name: name, is: is}, blank(after))
		}
	}
	return term{}, fmt.Errorf("after %s must come one of = == != in notin > >= < <=, or nothing", name)
}

// startsWithValue reports whether the text goes on with what a value consists of.
func startsWithValue(text string) bool { return text != "" && !notOfValue(rune(text[0])) }

// parseValue reads the value after a sign. It may be empty, as those of labels, unless it must be a number.
func parseValue(t term, sign, value string) (term, error) {
	if strings.ContainsFunc(value, notOfValue) {
		return term{}, fmt.Errorf("after %s must come a value of %s; several are listed as %s in (a, b)",
			sign, valueForm, t.name)
	}
	t.values = []string{value}
	if t.is == isIn || t.is == isNot {
		return t, nil
	}
	n, ok := number(value)
	if !ok {
		return term{}, fmt.Errorf("after %s must come a number, as in %s%s16", sign, t.name, sign)
	}
	t.number = n
	return t, nil
}

// parseList reads the values after in and notin.
func parseList(t term, list string) (term, error) {
	inner, opened := strings.CutPrefix(list, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !opened || !closed {
		return term{}, fmt.Errorf("after %s must come a list in parentheses, as in %s %s (a, b)", t.is, t.name, t.is)
	}
	for value := range strings.SplitSeq(inner, ",") {
		value = blank(value)
		if value == "" || strings.ContainsFunc(value, notOfValue) {
			return term{}, fmt.Errorf("the value %q must be 1 or more of %s, with commas between values", value,
				valueForm)
		}
		t.values = append(t.values, value)
	}
	slices.Sort(t.values)
	t.values = slices.Compact(t.values)
	return t, nil
}

// checkName says what is invalid about the name of a label. The names that package config allows for labels are valid.
func checkName(name string) error {
	odd := name == "" || strings.ContainsFunc(name, notOfName) || !alphanumeric(rune(name[0]))
	if odd || len(name) > config.LabelLimit {
		return fmt.Errorf("must begin with the name of a label, or with ! and a name: 1 to %d of "+
			"A-Z a-z 0-9 . _ - /, the first a letter or a digit", config.LabelLimit)
	}
	return nil
}

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func notOfName(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("._-/", r) }

func notOfValue(r rune) bool { return notOfName(r) && r != '+' }
