package scheduler

import (
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

// cursorsFor is how long a leader knows at least that it has decided ticks of a schedule.
const cursorsFor = time.Minute

// cursors are the cursors from which ticks of schedules were decided lately, as Redis has acknowledged. A schedule that has such a cursor
// still, or again, shows that Redis has lost the decision.
type cursors struct {
	young, old map[creation]time.Time
	since      time.Time // when young was begun
}

// creation is the creation of a schedule: one that is deleted and put again has a cursor of its own.
type creation struct {
	ref task.Ref
	at  int64 // in ms
}

func creationOf(a partition.Agenda) creation { return creation{a.Ref, a.Created.UnixMilli()} }

// add notes that ticks after a cursor were decided.
func (c *cursors) add(of creation, cursor time.Time) {
	if c.young == nil || clock.Since(c.since) > cursorsFor {
		c.old, c.young, c.since = c.young, make(map[creation]time.Time), clock.Now()
	}
	c.young[of] = cursor
}

// passed reports whether ticks after that cursor of a schedule were decided before.
func (c *cursors) passed(of creation, cursor time.Time) bool {
	newest, ok := c.young[of]
	if !ok {
		newest, ok = c.old[of]
	}
	return ok && !cursor.After(newest)
}
