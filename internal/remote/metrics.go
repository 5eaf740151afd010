package remote

import (
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// typesLimit is how many types of tasks have labels of their own in the metrics. Workers can offer any type, and labels must stay few.
const typesLimit = 100

// labels are the types of tasks that have been counted.
type labels struct {
	mu    sync.Mutex
	types map[string]bool
}

// of is the label of a type: "other" if there are too many already.
func (l *labels) of(taskType string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.types[taskType] {
		if len(l.types) == typesLimit {
			return "other"
		}
		l.types[taskType] = true
	}
	return taskType
}

// CountEnd counts an attempt that ended through this node, and took so long.
func (w *Workers) CountEnd(taskType string, o task.Outcome, took time.Duration) {
	label := w.labels.of(taskType)
	w.o.Metrics.Attempts.WithLabelValues(label, string(o)).Inc()
	w.o.Metrics.AttemptSeconds.WithLabelValues(label).Observe(took.Seconds())
}

// CountRefused counts an end that was refused, because the attempt has ended or another run has it.
func (w *Workers) CountRefused() { w.o.Metrics.Refused.Inc() }
