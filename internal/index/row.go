package index

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Row is what lists know of a task. Times are in ms since 1970.
type Row struct {
	Ref task.Ref
	Kind
	Labels  []string // as "name=value", in order
	Created int64
	Due     int64 // of the newest attempt, or of the one that comes
	Ended   int64 // 0 while the task waits
	Took    int64 // the newest attempt of a task that has ended, in ms
	At      int64 // when a task that is queued or runs came into that state; 0 for others
	Segment int   // the number of the segment of a row that was searched for
	Fresh   bool  // the task was read a moment ago: what has changed since belongs in the list as it is now
}

// Kind is what many tasks have in common.
type Kind struct {
	State task.State // scheduled, or a final state
	Queue string
	Type  string
	Owner string
	Node  string // that ran the newest attempt
	Cause string // the shape of the error of a task that failed
}

// Damaged reports whether the definition of the task cannot be read. Then it has no type, queue, labels or times of its
// own.
func (k Kind) Damaged() bool { return k.Type == "" }

// NewRow returns the row of a task. cause is the shape of its error. Segments have rows of tasks that wait or have
// ended.
func NewRow(t task.Task, cause string) Row {
	r := Row{
		Ref:  t.Ref,
		Kind: Kind{State: t.State, Queue: t.Queue, Type: t.Type, Owner: t.Owner, Node: t.Node, Cause: cause},

		Labels: Labels(t.Labels), Created: ms(t.CreatedAt), Due: ms(t.DueAt),
	}
	switch {
	case t.State == task.Queued:
		r.At = t.QueuedAt.UnixMilli()
	case t.State == task.Running:
		r.At = t.StartedAt.UnixMilli()
	case t.State.Final():
		r.Ended = t.FinishedAt.UnixMilli()
		if !t.StartedAt.IsZero() {
			r.Took = max(t.FinishedAt.Sub(t.StartedAt).Milliseconds(), 0)
		}
	}
	return r
}

// ms is a time in ms since 1970; 0 for one that nobody knows, as of a task whose definition cannot be read.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Labels returns labels as a row has them.
func Labels(labels map[string]string) []string {
	if len(labels) == 0 {
		return nil
	}
	all := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, name+"="+labels[name])
	}
	return all
}

// schedule is the schedule that created the task, and "" if none did.
func (r Row) schedule() string {
	id, _, _ := r.Ref.Tick()
	return id
}

// stateTime is when the task came into its state: its end, or when it is due.
func (r Row) stateTime() int64 {
	return cmp.Or(r.At, r.Ended, r.Due)
}
