package scheduler

import (
	"slices"

	"github.com/dts-sched/dts/internal/store/partition"
)

// apartSaid is how many names that nobody serves are remembered of a partition: enough to look whether one of asynq's
// own servers serves them.
const apartSaid = 16

// census is what the leader of a partition knows of the names of queues and lanes with waiting tasks. Names that
// somebody serves are in flows. Those that nobody serves may be many, so they stay in Redis: a claim looks at all names
// only if what is served has changed.
type census struct {
	served string   // what was served when a claim last looked at all names
	fresh  bool     // a claim has looked, and no task was put under an unknown name since
	apart  []string // some of the names that nobody serves
}

// census returns what is known of a partition. The caller holds the mutex.
func (q *quotas) census(p int) *census {
	c := q.names[p]
	if c == nil {
		c = &census{}
		q.names[p] = c
	}
	return c
}

// recount has the next claim in a partition look at all names.
func (q *quotas) recount(p int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.census(p).fresh = false
}

// counted records what a claim has found of the names in a partition. The caller holds the mutex.
func (q *quotas) counted(p int, reserved partition.Quotas, o outcome) {
	c := q.census(p)
	switch {
	case o.backlog == nil: // it may have put tasks under further names
		c.fresh = false
	case !reserved.Known:
		c.served, c.apart = reserved.Served, firstOf(o.apart)
	default:
		for _, name := range firstOf(o.apart) {
			if len(c.apart) < apartSaid && !slices.Contains(c.apart, name) {
				c.apart = append(c.apart, name)
			}
		}
	}
}

func firstOf(names []string) []string { return names[:min(len(names), apartSaid)] }

// mayBeServed reports whether what is served has changed since a claim looked at all names of a partition, and nobody
// served some of them. The caller holds the mutex.
func (q *quotas) mayBeServed(p int) bool {
	c := q.census(p)
	return len(c.apart) > 0 && c.served != q.slots.served()
}

// wakeApart wakes the terms of partitions in which tasks wait that nobody served. The caller holds the mutex.
func (q *quotas) wakeApart() {
	for p, c := range q.names {
		if len(c.apart) > 0 {
			signal(q.s.roomWakes[p])
		}
	}
}

// apartIn returns some names with waiting tasks in a partition that nobody serves.
func (q *quotas) apartIn(p int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.census(p).apart)
}
