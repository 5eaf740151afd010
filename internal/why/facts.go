package why

import (
	"cmp"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Reason is one thing that must change before a task, a schedule or a queue goes on.
type Reason struct {
	Code          Code
	Since         time.Time // since when it holds; zero if nobody knows
	Detail        string    // what holds it up, in sentences
	Do            string    // what to do next, in a sentence
	Ahead         *int      // how many tasks go first; nil if that is not known, or says nothing
	Tasks         *int      // how many tasks of a queue wait for it; nil for none, or for anything else than a queue
	NextAttemptAt time.Time // when it is due; zero if that is not what it waits for
	LastError     string    // why the last attempt did not succeed, or the schedule paused itself
}

// Path is what is known of the way from a partition through a queue to a worker.
type Path struct {
	Now     time.Time // by the clock of Redis
	Queue   string
	Type    string  // "" stands for any type
	Setting string  // the flag of dtsd by which a node runs the type; "" for none
	Blocked *Reason // what keeps Redis from doing its part; nil for nothing

	Partition     int
	LeaderUnknown bool
	Leader        string // the node that leads the partition; "" if none does

	FleetUnknown bool
	Workers      []Worker  // all that take tasks from queues, dead ones, too
	Foreign      int       // slots of asynq's own servers; below 0 if that is not known
	Holders      []Running // running tasks, those that began first at the beginning

	Paused    bool
	PausedAt  time.Time // zero if that is not known
	PausedBy  string    // "" if that is not known
	PauseNote string    // why it is paused; "" if nobody said
	Capacity  int       // how many tasks may wait; 0 for any number
	Ahead     *int      // tasks that go first; nil if that is not known
	Limits    []Limit   // under which it waits
	Keys      int       // other fair keys that have waiting tasks in the queue
}

// Worker is a node that takes tasks from queues, as its last heartbeat tells.
type Worker struct {
	ID       string
	Name     string       // "" if it does not say: then it is the ID
	Labels   route.Labels // nil for none
	Alive    bool
	Draining bool     // it lives, and takes nothing new
	Cordon   *Cordon  // nil: it is not cordoned
	Queues   []string // that it serves, or served before it was cordoned
	Types    []string // that it runs; none for all
	Capacity int      // its slots
	Most     int      // slots that a task of the queue can hold there
	Running  int      // slots that are taken
	LastBeat time.Time
}

// Cordon says that somebody keeps a worker from taking tasks.
type Cordon struct {
	Of   string // the id or the name that was cordoned
	By   string // "" if that is not known
	Note string // why; "" if nobody said

	Drain bool      // what runs there is asked to move
	Since time.Time // zero if that is not known
}

// Running is a task that runs.
type Running struct {
	Ref       task.Ref
	Node      string
	StartedAt time.Time
	Slots     int // of its node that it holds; 0 as 1
}

// runs reports whether the worker runs a type; "" stands for any. One that names no types runs all.
func (w Worker) runs(taskType string) bool {
	return taskType == "" || len(w.Types) == 0 || slices.Contains(w.Types, taskType)
}

// serves reports whether the worker serves a queue, or did when it lived.
func (w Worker) serves(queue string) bool { return slices.Contains(w.Queues, queue) }

// name returns the name of the worker.
func (w Worker) name() string { return cmp.Or(w.Name, w.ID) }

// label returns the values that the worker has under the name of a label.
func (w Worker) label(name string) []string {
	if w.Labels == nil {
		return nil
	}
	return w.Labels(name)
}

// takes reports whether the worker takes tasks from a queue.
func (w Worker) takes(queue string) bool {
	return w.serves(queue) && w.Alive && !w.Draining && w.Cordon == nil && w.Capacity > 0
}

// WasServed reports whether any worker serves the queue, or did when it lived. It and the next ones look at the fleet
// only, so other facts may be read meanwhile.
func (p *Path) WasServed() bool {
	return slices.ContainsFunc(p.Workers, func(w Worker) bool { return w.serves(p.Queue) })
}

// Cordoned returns a cordon that keeps a living worker from taking tasks of a type from the queue; nil if there is
// none.
func (p *Path) Cordoned(taskType string) *Cordon {
	for _, w := range p.Workers {
		if w.Cordon != nil && w.Alive && !w.Draining && w.serves(p.Queue) && w.runs(taskType) {
			return w.Cordon
		}
	}
	return nil
}

// CanRun reports whether a living worker takes tasks of a type from the queue.
func (p *Path) CanRun(taskType string) bool {
	return slices.ContainsFunc(p.Workers, func(w Worker) bool { return w.takes(p.Queue) && w.runs(taskType) })
}

// RunsAll reports whether living workers take tasks of all types that wait.
func (f *QueueFacts) RunsAll() bool {
	return f.CanRun("") && !slices.ContainsFunc(f.Lanes, func(l Lane) bool { return !f.CanRun(l.Type) })
}

// Place says where the delivery of a queued task is.
type Place string

// The places.
const (
	Nowhere Place = ""        // not in the queue: the leader puts it there
	Pending Place = "pending" // it waits for a worker
	Taken   Place = "active"  // a worker has it
)

// TaskFacts is what is known of a task.
type TaskFacts struct {
	Path
	Task       task.Task
	Place      Place        // of a queued task
	LookAt     time.Time    // when the leader looks after the delivery; zero if that is not known
	Last       task.Attempt // the last one that has ended; without a number if none did, or if it is not known
	LeaseUntil time.Time    // of a running task: until when its worker's word holds; zero if that is not known
	Lease      time.Duration
	// PausedNodes are the nodes whose queues for this one somebody has paused, by id, in one of asynq's tools.
	PausedNodes []string
	// Stays: nobody can tell its work to give up, so it does not move while it runs.
	Stays bool
}

// ScheduleFacts is what is known of a schedule.
type ScheduleFacts struct {
	Path      // of its tasks
	Schedule  schedule.Schedule
	Next      time.Time      // the first tick that is not decided and not excluded; zero if there is none
	Full      bool           // its leader holds Next back, since the queue is at its capacity
	Crowded   bool           // its leader holds ticks back, since Redis is almost full
	Live      string         // the id of the first of its tasks that have not ended; "" for none
	LiveTick  time.Time      // its tick
	WaitsTick time.Time      // the first tick that waits for it; zero if none does
	Retry     schedule.Retry // one of its tasks that is tried again; the zero value for none
}

// QueueFacts is what is known of a queue. Its Path has no type.
type QueueFacts struct {
	Path
	Waiting int       // due tasks that wait in DTS
	Oldest  time.Time // when the first of them was due; zero for none
	Pending int       // deliveries that wait for a worker
	Lanes   []Lane    // of the waiting tasks, those that wait by their type
	Kinds   []Kind    // of the waiting tasks, those that have limits or go to certain nodes
	Unread  int       // waiting tasks with other limits, or for other nodes, that were not looked at
	Unled   []int     // partitions with waiting tasks that nobody leads

	PausedOfNodes  []string // those of the queues of nodes that somebody has paused, in one of asynq's tools
	NextOfAsynq    bool     // the delivery that is taken next is of another asynq client
	UnledWaiting   int      // the tasks that wait in them
	PendingUnknown bool     // nobody knows how many deliveries wait, so the numbers of tasks are left out
}

// Lane is the tasks of one type that wait apart.
type Lane struct {
	Type    string
	Setting string // the flag of dtsd by which a node runs the type; "" for none
	Waiting int
	Oldest  time.Time
}
