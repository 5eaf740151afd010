package tasks

import (
	"time"

	"github.com/dts-sched/dts/internal/rollup"
)

// Counter counts what this process records: telemetry.Metrics and rollup.Tally do.
type Counter interface {
	// Begun is called once for each attempt that began, with how long after it was due.
	Begun(queue string, late time.Duration)
	// Ended is called once for each attempt that ended: a repeat is not counted.
	Ended(e rollup.End)
	// Paused is called when the end of a task has paused its schedule.
	Paused()
}

// CountWith has a further Counter count. It is called before anything is recorded.
func (s *Tasks) CountWith(c Counter) { s.counters = append(s.counters, c) }
