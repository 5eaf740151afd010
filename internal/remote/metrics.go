package remote

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// CountEnd counts an attempt that ended through this node, and took so long.
func (w *Workers) CountEnd(taskType string, o task.Outcome, took time.Duration) {
	label, added := w.labels.Of(taskType)
	if added {
		w.o.Metrics.BeginType(label)
	}
	w.o.Metrics.Attempts.WithLabelValues(label, string(o)).Inc()
	w.o.Metrics.AttemptSeconds.WithLabelValues(label).Observe(took.Seconds())
}

// CountRefused counts an end that was refused, because the attempt has ended or another run has it.
func (w *Workers) CountRefused() { w.o.Metrics.Refused.Inc() }
