package wire

import "time"

// Given returns a field that may be left out, nil for the zero value.
func Given[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// Value returns what a field has that may be left out, the zero value if it was.
func Value[T any](field *T) T {
	if field == nil {
		var zero T
		return zero
	}
	return *field
}

// LabelsOf returns labels that may be left out, nil for none.
func LabelsOf(labels map[string]string) *Labels {
	if len(labels) == 0 {
		return nil
	}
	return new(Labels(labels))
}

// At returns a time as the API has it.
func At(t time.Time) Time { return Time{t.UTC()} }

// AtIfAny returns a time that may be left out, nil for one that has not come.
func AtIfAny(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return new(At(t))
}

// TasksOf is how many tasks a node has. One of an earlier version does not say, and each of its tasks holds one slot.
func TasksOf(n Node) int {
	if n.Tasks == nil {
		return n.Running
	}
	return *n.Tasks
}
