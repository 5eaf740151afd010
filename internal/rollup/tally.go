package rollup

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Grace is for how long after its end a minute is still written. What could not be written until then is lost.
const Grace = 15 * time.Second

// Tally counts what one node has recorded, by minute. Its methods may be called by many goroutines.
type Tally struct {
	now func() time.Time

	mu   sync.Mutex
	open []*count // a few at most, as each is dropped soon after its end
}

// count is the count of one minute.
type count struct {
	at      time.Time
	queues  map[string]*Queue
	causes  []Cause
	changes int // how often it was changed
	written int // changes that are in Redis
}

// NewTally returns an empty tally. now is the time by the clock of Redis; as long as it is zero, nothing is counted.
func NewTally(now func() time.Time) *Tally { return &Tally{now: now} }

// Begun counts an attempt that began so long after it was due.
func (t *Tally) Begun(queue string, late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.current(); c != nil {
		q := c.queue(queue)
		q.Begun++
		q.Late.Observe(late)
	}
}

// End is the end of an attempt.
type End struct {
	Task    task.Ref
	Attempt int
	Queue   string
	Type    string
	Outcome task.Outcome
	Error   string     // why it did not succeed
	To      task.State // of the task from then on
}

// Ended counts an attempt that ended. Only an end that was recorded counts, so that a repeat does not count twice.
func (t *Tally) Ended(e End) {
	text := ""
	if isFailure(e.Outcome) {
		text = Shape(e.Error)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.current()
	if c == nil {
		return
	}
	q := c.queue(e.Queue)
	q.count(e.Outcome)
	q.Dead += btoi(e.To == task.Failed)
	if text != "" {
		c.fail(text, e, t.now())
	}
}

// Paused counts nothing: pauses of schedules are no part of minutes.
func (t *Tally) Paused() {}

// isFailure reports whether attempts that end so have a cause. One that was cancelled, or is called again later at
// its own wish, has not failed.
func isFailure(o task.Outcome) bool {
	return o == task.OutcomeFailed || o == task.OutcomeTimeout || o == task.OutcomeLost
}

// current returns the count of this minute; nil if the time is not known. The caller holds mu.
func (t *Tally) current() *count {
	now := t.now()
	if now.IsZero() {
		return nil
	}
	for i := len(t.open) - 1; i >= 0; i-- {
		if c := t.open[i]; !now.Before(c.at) && now.Sub(c.at) < Span {
			c.changes++
			return c
		}
	}
	t.open = slices.DeleteFunc(t.open, func(c *count) bool { return c.isOver(now) })
	c := &count{at: now.Truncate(Span).UTC(), queues: map[string]*Queue{}, changes: 1}
	t.open = append(t.open, c)
	return c
}

// isOver reports whether a minute is not written any more. After a jump of the clock, it may also be one that has
// yet to come.
func (c *count) isOver(now time.Time) bool {
	return now.Sub(c.at) > Span+Grace || c.at.Sub(now) > Span
}

// queue returns the counts of a queue.
func (c *count) queue(name string) *Queue {
	name = cmp.Or(name, Rest) // that of a task that cannot be read
	q := c.queues[name]
	if q == nil && len(c.queues) >= QueuesLimit {
		name = Rest
		q = c.queues[name]
	}
	if q == nil {
		q = &Queue{}
		c.queues[name] = q
	}
	return q
}

// fail counts an attempt of that cause.
func (c *count) fail(text string, e End, now time.Time) {
	root, _, _ := e.Task.Tick()
	now = now.UTC()
	one := Cause{
		Kind:  Kind{Text: text, Queue: e.Queue, Namespace: e.Task.Namespace, Schedule: root, Type: e.Type},
		Count: 1, Dead: btoi(e.To == task.Failed), Example: Example{Task: e.Task, Attempt: e.Attempt}, First: now, Last: now,
	}
	if c.add(one) {
		return
	}
	c.causes = boundCauses(append(c.causes, one), MinuteCauses)
}

// add adds to a cause that is known, and reports whether there is one.
func (c *count) add(one Cause) bool {
	anySchedule, rest := one.Kind, Kind{Text: Rest}
	anySchedule.Schedule = Rest
	for _, kind := range []Kind{one.Kind, anySchedule, rest} {
		if kind == rest && len(c.causes) < MinuteCauses {
			return false
		}
		i := slices.IndexFunc(c.causes, func(known Cause) bool { return known.Kind == kind })
		if i >= 0 {
			c.causes[i] = c.causes[i].plus(one)
			return true
		}
	}
	return false
}

// Row is what a node has counted in a minute so far.
type Row struct {
	Minute  Minute
	changes int
}

// Rows returns the minutes that have changed since they were written, and drops those that are not written any more.
func (t *Tally) Rows() []Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.open = slices.DeleteFunc(t.open, func(c *count) bool { return c.isOver(now) })
	var rows []Row
	for _, c := range t.open {
		if c.changes != c.written {
			rows = append(rows, Row{Minute: c.minute(), changes: c.changes})
		}
	}
	return rows
}

// Written records that a row is in Redis.
func (t *Tally) Written(r Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.open {
		if c.at.Equal(r.Minute.At) {
			c.written = r.changes
		}
	}
}

// minute returns a copy of the count.
func (c *count) minute() Minute {
	m := Minute{At: c.at, Length: Span, Queues: make(map[string]Queue, len(c.queues)), Causes: slices.Clone(c.causes)}
	for name, q := range maps.All(c.queues) {
		m.Queues[name] = *q
	}
	return m.Clone()
}
