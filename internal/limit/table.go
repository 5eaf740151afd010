package limit

import (
	"slices"
	"strings"
)

// Table is all limits, in the form in which a planner asks for them. It is not safe for concurrent use.
type Table struct {
	rules Rules
	text  string
	found map[string]found
}

type found struct {
	rule Rule
	is   bool
}

// NewTable returns a table of the limits.
func NewTable(rules Rules) *Table {
	t := &Table{rules: rules, found: make(map[string]found)}
	names := make([]string, 0, len(rules))
	for n := range rules {
		names = append(names, n.String())
	}
	slices.Sort(names)
	if len(names) > 0 {
		t.text = "\n" + strings.Join(names, "\n") + "\n"
	}
	return t
}

// Text is the names of the limits, as the script claim reads them; "" for none.
func (t *Table) Text() string { return t.text }

// For returns the rule for a limit of a task, as Of returns it. is is false if there is none any more.
func (t *Table) For(limit string) (rule Rule, is bool) {
	f, known := t.found[limit]
	if !known {
		if n, err := ParseName(limit); err == nil {
			f.rule, f.is = t.rules.For(n)
		}
		t.found[limit] = f
	}
	return f.rule, f.is
}

// Of returns the limits of a task, from narrow to wide.
func (t *Table) Of(s Subject) []string {
	if len(t.rules) == 0 {
		return nil
	}
	var limits []string
	for _, n := range t.rules.Of(s) {
		limits = append(limits, n.String())
	}
	return limits
}
