package telemetry

import "sync"

// labelsLimit is how many values of one kind have labels of their own. Submissions name queues and types, and labels
// must stay few.
const labelsLimit = 100

// OtherLabel stands for all values beyond the limit, and for a value of that name.
const OtherLabel = "other"

// Labels are the values of one kind that have labels of their own: the first 100. The zero value has none yet.
type Labels struct {
	mu    sync.RWMutex
	known map[string]bool
}

// Of returns the label of a value. added says that it is a new one.
func (l *Labels) Of(value string) (label string, added bool) {
	l.mu.RLock()
	known := l.known[value]
	l.mu.RUnlock()
	if known || value == OtherLabel {
		return value, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known[value]:
		return value, false
	case len(l.known) == labelsLimit:
		return OtherLabel, false
	case l.known == nil:
		l.known = map[string]bool{}
	}
	l.known[value] = true
	return value, true
}
