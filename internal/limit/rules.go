package limit

import (
	"slices"
	"strings"
)

// Rules are all limits.
type Rules map[Name]Rule

// Subject is what decides which limits apply to a task.
type Subject struct {
	Keys      []string // limit keys, at most three
	Type      string
	Queue     string
	Namespace string
}

// Of returns the names of the limits that apply to a task, from narrow to wide. Of several names of a kind that match,
// the longest one applies. Each key has a limit of its own under a name that ends with "*": each returned name is
// that of the key, type, queue or namespace itself.
func (r Rules) Of(s Subject) []Name {
	var names []Name
	for _, key := range s.Keys {
		names = r.add(names, Name{Key, key})
	}
	for _, n := range []Name{{Type, s.Type}, {Queue, s.Queue}, {Namespace, s.Namespace}, {Kind: All}} {
		names = r.add(names, n)
	}
	slices.SortFunc(names, Compare)
	return slices.Compact(names)
}

func (r Rules) add(names []Name, n Name) []Name {
	if _, applies := r.For(n); applies {
		return append(names, n)
	}
	return names
}

// For returns the rule of a key, type, queue or namespace, or of all tasks: that of its own name, or of the longest
// name with a "*" that matches.
func (r Rules) For(n Name) (Rule, bool) {
	of, is := r.Which(n)
	return r[of], is
}

// Which returns the name of the rule that For returns.
func (r Rules) Which(n Name) (Name, bool) {
	if _, exact := r[n]; exact {
		return n, true
	}
	best, found := Name{}, false
	for name := range r {
		begin, open := strings.CutSuffix(name.Of, "*")
		if name.Kind == n.Kind && open && strings.HasPrefix(n.Of, begin) && (!found || len(name.Of) > len(best.Of)) {
			best, found = name, true
		}
	}
	return best, found
}
