package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Labels returns the values that a node has under the name of a label; none if it has no such label. It is the method
// Values of a node of package cluster.
type Labels func(name string) []string

// Selector says on which nodes a task may run: on those that satisfy all of its terms. The zero value has no terms, and
// every node satisfies it. ParseSelector makes others.
type Selector struct{ terms []term }

// term is a condition on the values of one label. Most labels have one value. Of a label with several, as role, one is
// enough that satisfies a term; isNot demands that none of them is in the list.
type term struct {
	name   string
	is     operator
	values []string // of isIn and isNot: one or more, sorted; of a comparison: one number
	number float64  // of a comparison
}

// operator is the kind of a term: isIn, isNot, hasLabel, lacksLabel, or a comparison.
type operator string

const (
	isIn       operator = "in"    // has one of the values
	isNot      operator = "notin" // has none of the values, or not even the label
	hasLabel   operator = ""
	lacksLabel operator = "!"
	more       operator = ">"
	atLeast    operator = ">="
	less       operator = "<"
	atMost     operator = "<="
)

// IsZero reports whether the selector has no terms.
func (s Selector) IsZero() bool { return len(s.terms) == 0 }

// String returns a text that ParseSelector reads as the same selector. Terms and values are sorted, and none comes
// twice. So selectors that differ only in their order, their blanks or their spelling have one text.
func (s Selector) String() string { return strings.Join(s.texts(), ",") }

// texts returns the text of each term.
func (s Selector) texts() []string {
	texts := make([]string, len(s.terms))
	for i, t := range s.terms {
		texts[i] = t.String()
	}
	return texts
}

// String returns a text that parseTerm reads.
func (t term) String() string {
	switch {
	case t.is == hasLabel:
		return t.name
	case t.is == lacksLabel:
		return "!" + t.name
	case t.is == isIn && len(t.values) == 1:
		return t.name + "=" + t.values[0]
	case t.is == isNot && len(t.values) == 1:
		return t.name + "!=" + t.values[0]
	case t.is == isIn || t.is == isNot:
		return fmt.Sprintf("%s %s (%s)", t.name, t.is, strings.Join(t.values, ","))
	}
	return t.name + string(t.is) + t.values[0]
}

// Matches reports whether a node with these labels satisfies all terms.
func (s Selector) Matches(labels Labels) bool {
	for i := range s.terms {
		if !s.terms[i].matches(labels) {
			return false
		}
	}
	return true
}

// matches reports whether a node with these labels satisfies the term.
func (t *term) matches(labels Labels) bool {
	values := labels(t.name)
	switch t.is {
	case hasLabel:
		return len(values) > 0
	case lacksLabel:
		return len(values) == 0
	case isIn:
		return slices.ContainsFunc(values, t.lists)
	case isNot:
		return !slices.ContainsFunc(values, t.lists)
	}
	return slices.ContainsFunc(values, t.compares)
}

// lists reports whether a value is among those of the term.
func (t *term) lists(value string) bool { return slices.Contains(t.values, value) }

// compares reports whether a value is a number, and what the term demands of one.
func (t *term) compares(value string) bool {
	n, ok := number(value)
	switch {
	case !ok:
		return false
	case t.is == more:
		return n > t.number
	case t.is == atLeast:
		return n >= t.number
	case t.is == less:
		return n < t.number
	}
	return n <= t.number
}

// number reads digits with an optional point and an optional sign before them. Package strconv reads more, as Inf and
// 0x1p4, which nobody means by the value of a label.
func number(text string) (n float64, ok bool) {
	if strings.Trim(text, "0123456789.-") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// Fit says how many nodes satisfy a selector, and each of its terms.
type Fit struct {
	Nodes int // that were looked at
	Match int // that satisfy all terms
	Terms []TermFit
}

// TermFit says how many nodes satisfy a term.
type TermFit struct {
	Term  string
	Label string // that it is about
	Nodes int
}

// Explain counts the nodes that satisfy the selector, and each of its terms.
func (s Selector) Explain(nodes []Labels) Fit {
	fit := Fit{Nodes: len(nodes), Terms: make([]TermFit, len(s.terms))}
	for i, text := range s.texts() {
		fit.Terms[i].Term, fit.Terms[i].Label = text, s.terms[i].name
	}
	for _, labels := range nodes {
		all := true
		for i := range s.terms {
			if s.terms[i].matches(labels) {
				fit.Terms[i].Nodes++
			} else {
				all = false
			}
		}
		if all {
			fit.Match++
		}
	}
	return fit
}

// Unmet returns the terms that no node satisfies. If there are none and Match is 0, no node satisfies all terms at
// once.
func (f Fit) Unmet() []string {
	var unmet []string
	for _, t := range f.Terms {
		if t.Nodes == 0 {
			unmet = append(unmet, t.Term)
		}
	}
	return unmet
}

// String says in a sentence without a full stop how many nodes match. If none does, it says how many satisfy each term.
func (f Fit) String() string {
	terms, counts := make([]string, len(f.Terms)), make([]string, len(f.Terms))
	for i, t := range f.Terms {
		terms[i], counts[i] = t.Term, fmt.Sprintf("%d satisfy %s", t.Nodes, t.Term)
	}
	selector := strings.Join(terms, ", ")
	switch {
	case f.Nodes == 0:
		return "there is no node"
	case len(f.Terms) == 0:
		return fmt.Sprintf("all %d nodes match", f.Nodes)
	case f.Match > 0:
		return fmt.Sprintf("%d of %d nodes match %s", f.Match, f.Nodes, selector)
	}
	return fmt.Sprintf("no node matches %s (of %d: %s)", selector, f.Nodes, strings.Join(counts, ", "))
}
