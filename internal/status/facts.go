package status

import (
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/route"
)

// Facts is what is known of an installation. What could not be read is left out, and no reason is made of it.
type Facts struct {
	Now    time.Time // by the clock of Redis
	Before Status    // the one that was computed before; zero for none

	Redis      Redis
	Partitions int   // how many there are; 0 if nobody asked who leads them
	Unled      []int // partitions that no living node leads
	Nodes      []Node
	Queues     []Queue
	Limits     []Limit    // those that let some of what waits not start
	Schedules  []Schedule // those that may need somebody
	Last, Hour Window     // the last minutes, and the hour before them
	Cause      Cause      // the most frequent one of the failures of Last
	Doctor     Examination
	Unread     []string // what could not be read, and why, as sentences without a full stop
	Notes      []string // what else limits what is known, in the same form
}

// Redis is what is known of Redis.
type Redis struct {
	Silent    string    // why it does nothing for DTS, as a sentence; "" if it does, or some servers of a cluster do
	Since     time.Time // since when it is silent; zero if nobody knows
	Refuses   bool      // it answers all the same, and refuses this node what it needs
	Denied    string    // a right that it refuses this node, while others work, as a clause; "" for none
	Away      []Server  // servers of a cluster that do nothing for DTS, while others do
	Refusing  []Server  // servers that refuse writes
	Memory    float64   // bytes in use, of the server that is fullest
	MaxMemory float64   // of the same server; 0 for no limit
	Disk      string    // what went wrong when it last wrote to its disk; "" for nothing
	RoundTrip time.Duration
	Version   string // of one of its servers; "" if it does not say
}

// Server is a server of Redis.
type Server struct {
	Address    string // "" if it is the only one
	Partitions []int  // that it has
	Said       string // by which it turns nodes away, or refuses writes; "" if it does not answer
	Since      time.Time
}

// Node is a node.
type Node struct {
	ID       string
	Alive    bool
	Draining bool
	Worker   bool     // it takes tasks
	Leads    bool     // it may lead partitions
	CordonOf string   // by which id or name it is cordoned; "" if it is not
	Queues   []string // that it serves, or served before it was cordoned
	Types    []string // that it runs; none for all
	Name     string
	Labels   route.Labels
	Capacity int
	Most     map[string]int // how many slots a task of a queue can hold there
	Running  int
	LastBeat time.Time
}

// Queue is a queue that has tasks, or is paused.
type Queue struct {
	Name     string
	Paused   bool
	PausedAt time.Time
	PausedBy string
	Note     string    // why it is paused
	Foreign  bool      // one of asynq's own servers serves it
	OfAsynq  bool      // what waits in it is of another asynq client
	Waiting  int       // tasks that are due and have not begun, in DTS and for a worker
	Limited  int       // of them, those that have limits and waited for slots
	Oldest   time.Time // when the first of them was due; zero if that is not known
	Lanes    []Lane    // of them, those that wait apart
	Held     int       // slots that tasks have held for longer than HeldAfter, of the nodes that serve the queue
	HeldMore bool      // there may be more of them, which were not counted, and no slot is free
	Holder   string    // the id of the task that has held one longest
	HeldFrom time.Time // since when
}

// Lane is tasks of a queue that wait apart, as not every node may run them, or a limit lets none of them start.
type Lane struct {
	Type    string // "" if all types wait there
	Setting string // the flag of dtsd by which a node runs the type; "" for none
	Site    Site
	Limit   string // the name of the limit that lets none of them start; "" for none
	TooDear bool   // as they cost more than it has; else it is paused
	Waiting int
	Oldest  time.Time
	First   string // one of the tasks
}

// Site is what a node must have to run some tasks.
type Site struct {
	Select string // "" for any node
	Order  string // the names of the nodes of the route, with commas between; "" for any
	Slots  int    // 0 or 1 for one
}

// Limit is a limit that lets some tasks not start.
type Limit struct {
	Name   string // as somebody has set it
	Rule   limit.Rule
	Pauser string // who has paused it; "" if nobody knows, or if it is not paused
	Note   string // why
}

// Schedule is a schedule that may need somebody.
type Schedule struct {
	Namespace, ID string
	PausedItself  time.Time // zero if it has not
	Note          string    // why
	Failures      int       // tasks that have failed in a row
	FailingSince  time.Time // when the first of them ended, as far as that is known; zero if it is not
	DueTick       time.Time // the tick that should have been decided; zero if there is none
	MissedAt      time.Time // the newest tick of the last 24 hours that was missed; zero if there is none
}

// Window is what happened in some minutes.
type Window struct {
	Span                       time.Duration // how long it is; 0 if nothing is known
	Begun, Ended, Failed       int           // attempts; Failed are those of Ended that failed, timed out or were lost
	LateP50, LateP99, LateMost time.Duration // from due to begun
}

// Cause is an error that made attempts fail.
type Cause struct {
	Text    string // with digits and ids left out
	Count   int
	Example string // the id of a task
}

// Examination is what the newest run of doctor found.
type Examination struct {
	At       time.Time `json:"at"`
	Errors   []string  `json:"errors,omitempty"`   // names of the checks
	Warnings []string  `json:"warnings,omitempty"` // names of the checks
}

// Thresholds.
const (
	FullAbove    = 0.9 // of maxmemory: new work is refused
	FillingAbove = 0.8

	HeldAfter     = 2 * time.Minute // from which on a slot counts as held
	NotServed     = 10 * time.Second
	NotLed        = 15 * time.Second // another node leads within twice the lease time
	NotDecided    = 15 * time.Second
	LateAfter     = time.Minute
	LateFor       = time.Minute
	DiedWithin    = 15 * time.Minute
	PausedFor     = time.Minute
	ExaminedSince = 24 * time.Hour

	failuresNeeded = 10  // in a window, before their share says something
	halfFails      = 0.5 // share from which on work does not happen
	fewFail        = 0.05
	jump           = 3.0 // times the share of the hour before
	failsInARow    = 3   // of a schedule, from which on work does not happen
)
