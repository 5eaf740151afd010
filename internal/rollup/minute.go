package rollup

import (
	"maps"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Minute is what happened in a minute, or in an hour.
type Minute struct {
	At       time.Time     // when it began, by the clock of Redis, in UTC
	Length   time.Duration // a minute or an hour
	Queues   map[string]Queue
	Causes   []Cause // of attempts that failed; those that occurred most often first
	Running  int     // attempts that ran when the minute was closed; of an hour, the most of its minutes
	Capacity int     // how many could have run then; of an hour, the most of its minutes
	Sampled  bool    // Running, Capacity, and Waiting and Oldest of the queues are known
}

// Queue is what happened in one queue. An attempt counts where its begin or its end was recorded.
type Queue struct {
	Begun     int // attempts that began
	Succeeded int // attempts by how they ended
	Failed    int
	Timeout   int
	Cancelled int
	Lost      int
	Snoozed   int           // interrupted or moved: they do not count
	Dead      int           // tasks that ended failed
	Late      Histogram     // from due to begun, of the attempts that began
	Waiting   int           // due tasks that waited at its end, in DTS and in asynq; of an hour, the most of its minutes
	Oldest    time.Duration // for how long the first of these had been due; of an hour, the longest of its minutes
}

// Ended is how many attempts ended.
func (q Queue) Ended() int {
	return q.Succeeded + q.Failed + q.Timeout + q.Cancelled + q.Lost + q.Snoozed
}

// Bad is how many attempts failed, timed out or were lost.
func (q Queue) Bad() int { return q.Failed + q.Timeout + q.Lost }

// count counts an attempt that ended so.
func (q *Queue) count(o task.Outcome) {
	switch o {
	case task.OutcomeSucceeded:
		q.Succeeded++
	case task.OutcomeFailed:
		q.Failed++
	case task.OutcomeTimeout:
		q.Timeout++
	case task.OutcomeCancelled:
		q.Cancelled++
	case task.OutcomeLost:
		q.Lost++
	case task.OutcomeSnoozed, task.OutcomeInterrupted, task.OutcomeMoved:
		q.Snoozed++
	}
}

// Plus returns both counts together. What waits is the most of both, since it is a level and no count.
func (q Queue) Plus(other Queue) Queue {
	return Queue{
		Begun: q.Begun + other.Begun, Succeeded: q.Succeeded + other.Succeeded, Failed: q.Failed + other.Failed,
		Timeout: q.Timeout + other.Timeout, Cancelled: q.Cancelled + other.Cancelled, Lost: q.Lost + other.Lost,
		Snoozed: q.Snoozed + other.Snoozed, Dead: q.Dead + other.Dead, Late: q.Late.Plus(other.Late),
		Waiting: max(q.Waiting, other.Waiting), Oldest: max(q.Oldest, other.Oldest),
	}
}

// Total returns the counts of all queues together. What waits is the sum of the queues.
func (m Minute) Total() Queue {
	var all Queue
	for _, q := range m.Queues {
		waiting := all.Waiting + q.Waiting
		all = all.Plus(q)
		all.Waiting = waiting
	}
	return all
}

// Empty reports whether nothing happened and nothing waits.
func (m Minute) Empty() bool { return len(m.Queues) == 0 && len(m.Causes) == 0 && m.Running == 0 }

// Merge returns what parts have together, from at on: the rows of nodes of one minute, the minutes of an hour, or
// all that somebody asks for. Causes beyond the limit become one.
func Merge(at time.Time, length time.Duration, limit int, parts ...Minute) Minute {
	m := Minute{At: at, Length: length, Queues: map[string]Queue{}}
	for _, p := range parts {
		for name, q := range p.Queues {
			m.Queues[name] = m.Queues[name].Plus(q)
		}
		m.Causes = append(m.Causes, p.Causes...)
		m.Running, m.Capacity = max(m.Running, p.Running), max(m.Capacity, p.Capacity)
		m.Sampled = m.Sampled || p.Sampled
	}
	m.boundQueues(QueuesLimit)
	m.Causes = boundCauses(m.Causes, limit)
	return m
}

// boundQueues counts the queues beyond the limit as Rest: those in which least happened.
func (m *Minute) boundQueues(limit int) {
	rest, more := m.Queues[Rest]
	if len(m.Queues)-btoi(more) <= limit {
		return
	}
	names := busiest(m.Queues)
	kept := make(map[string]Queue, limit+1)
	for i, name := range names {
		if i < limit {
			kept[name] = m.Queues[name]
			continue
		}
		waiting := rest.Waiting + m.Queues[name].Waiting
		rest = rest.Plus(m.Queues[name])
		rest.Waiting = waiting
	}
	kept[Rest] = rest
	m.Queues = kept
}

// Clone returns a copy that shares nothing with m.
func (m Minute) Clone() Minute {
	c := m
	c.Queues = maps.Clone(m.Queues)
	for name, q := range c.Queues {
		q.Late.Counts = append([]uint32(nil), q.Late.Counts...)
		c.Queues[name] = q
	}
	c.Causes = append([]Cause(nil), m.Causes...)
	return c
}
