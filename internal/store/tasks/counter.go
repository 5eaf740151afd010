package tasks

import "github.com/dts-sched/dts/internal/task"

// Counter counts what this process records: telemetry.Metrics is one.
type Counter interface {
	// Ended is called for each attempt that ended, and to is the state of its task now. A repeat is not counted.
	Ended(queue string, o task.Outcome, to task.State)
	// Paused is called when the end of a task has paused its schedule.
	Paused()
}

// uncounted counts nothing.
type uncounted struct{}

func (uncounted) Ended(string, task.Outcome, task.State) {}
func (uncounted) Paused()                                {}

// CountWith has a Counter count. It is called before anything is recorded.
func (s *Tasks) CountWith(c Counter) { s.counter = c }
