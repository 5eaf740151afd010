package route

import "github.com/dts-sched/dts/internal/task"

// PreferenceLimit is the greatest weight of a preference.
const PreferenceLimit = 100

// Preferences are what a task wishes of its node. A node that satisfies none can still get the task.
type Preferences []Preference

// Preference is a wish, and how much it counts beside the others of the task.
type Preference struct {
	Select Selector
	Weight int // 1 to PreferenceLimit
}

// ParsePreference reads a selector, and checks the weight. Error: CodeInvalid of the field select or weight.
func ParsePreference(selector string, weight int) (Preference, error) {
	s, err := ParseSelector(selector)
	switch {
	case err != nil:
		return Preference{}, err
	case s.IsZero():
		return Preference{}, task.Invalid(field, "must have a term, as zone=eu: all nodes satisfy a selector without one")
	case weight < 1 || weight > PreferenceLimit:
		return Preference{}, task.Invalid("weight", "%d must be 1 to %d", weight, PreferenceLimit)
	}
	return Preference{Select: s, Weight: weight}, nil
}

// Sum adds up the weights of the preferences that a node with these labels satisfies.
func (p Preferences) Sum(labels Labels) int {
	sum := 0
	for _, one := range p {
		if one.Select.Matches(labels) {
			sum += one.Weight
		}
	}
	return sum
}
