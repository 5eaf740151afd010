package dts

// RouteBy is the rule by which a route chooses a node.
type RouteBy string

// The rules; docs/routing.md says what each one does. Without one, a task goes to the queue that all nodes share.
const (
	RouteAny           RouteBy = "any"            // the default
	RouteFirst         RouteBy = "first"          // the least name with a free slot
	RouteLast          RouteBy = "last"           // the greatest name with a free slot
	RouteRound         RouteBy = "round"          // in turns
	RouteWeightedRound RouteBy = "weighted_round" // in turns, by the label weight of each node
	RouteRandom        RouteBy = "random"
	RouteHash          RouteBy = "hash"          // tasks with one Key go to one node
	RouteLeastRunning  RouteBy = "least_running" // the fewest slots of tasks that run and wait there
	RouteLeastUsed     RouteBy = "least_used"    // the fewest tasks in about an hour
	RouteLongestIdle   RouteBy = "longest_idle"  // it got its last task longest ago
	RouteWeighted      RouteBy = "weighted"      // the most idle one by its Load
	RouteFailover      RouteBy = "failover"      // the first of Order that lives
	RouteBusyOver      RouteBy = "busy_over"     // the first of Order that has a free slot
)

// Sticky says how long a task waits for the node of its key while that has no free slot.
type Sticky string

// The values of Sticky. Without one, another node gets the task.
const (
	StickyPrefer  Sticky = "prefer"  // up to 2 s
	StickyRequire Sticky = "require" // as long as the node lives
)

// Route says to which of the nodes that may run a task it goes. The zero value is the route any.
type Route struct {
	By     RouteBy
	Key    string   // of RouteHash, and required there: 1-100 of A-Z a-z 0-9 . _ -
	Order  []string // of RouteFailover, and of RouteBusyOver if it is given: names of nodes; no others get the task
	Sticky Sticky   // of RouteHash
	Load   Load     // of RouteWeighted
}

// Load is how much each measure counts for how idle a node is, 0 to 1. Only the proportions matter. The zero value
// stands for 0.4 of CPU, 0.3 of Memory and 0.3 of Slots.
type Load struct {
	CPU      float64 // of the share of the CPU that is idle
	Memory   float64 // of the share of memory that is free
	Slots    float64 // of the share of slots that are free
	Response float64 // of how fast the tasks of the node end
}

// Preference is what is better about a node than about others.
type Preference struct {
	Select string // as of a Submission
	Weight int    // how much it counts beside the others, at most 100; 0 means 1
}
