package scheduler

import (
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

// cursorsFor is how long a leader knows at least that it has decided ticks of a schedule.
const cursorsFor = time.Minute

// cursors are the cursors from which ticks of schedules were decided lately, as Redis has acknowledged. A schedule that has such a cursor
// still, or again, shows that Redis has lost the decision.
type cursors struct {
	young, old map[task.Ref]time.Time
	since      time.Time // when young was begun
}

// add notes that ticks after a cursor were decided.
func (c *cursors) add(ref task.Ref, cursor time.Time) {
	if c.young == nil || clock.Since(c.since) > cursorsFor {
		c.old, c.young, c.since = c.young, make(map[task.Ref]time.Time), clock.Now()
	}
	c.young[ref] = cursor
}

// passed reports whether ticks after that cursor of a schedule were decided before.
func (c *cursors) passed(ref task.Ref, cursor time.Time) bool {
	newest, ok := c.young[ref]
	if !ok {
		newest, ok = c.old[ref]
	}
	return ok && !cursor.After(newest)
}
