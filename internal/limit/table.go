package limit

import (
	"slices"
	"strings"
)

// Table is all limits, in the form in which a planner asks for them. It is not safe for concurrent use.
type Table struct {
	rules Rules
	text  string
	found map[string]found // what Which has found, by limit
}

type found struct {
	name Name
	is   bool
}

// foundLimit is how many limits a table remembers: there may be one for each key that ever was.
const foundLimit = 20_000

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

// Which returns the name of the rule that For returns.
func (t *Table) Which(limit string) (_ Name, is bool) {
	f, known := t.found[limit]
	if known {
		return f.name, f.is
	}
	if n, err := ParseName(limit); err == nil {
		f.name, f.is = t.rules.Which(n)
	}
	if len(t.found) >= foundLimit {
		clear(t.found)
	}
	t.found[limit] = f
	return f.name, f.is
}

// For returns the rule for a limit of a task, as Of returns it. is is false if there is none any more.
func (t *Table) For(limit string) (_ Rule, is bool) {
	n, is := t.Which(limit)
	return t.rules[n], is
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
