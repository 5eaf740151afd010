// Package route decides on which nodes a task may run, and to which of them it goes. It reads no clock, calls no Redis,
// holds no lock and draws no random number: a seed and the turns are arguments, and the next turns are returned.
//
//	nodes that live, serve the queue,   Selector    nodes that may run it   Route
//	run the type, and are not cordoned ───────────▶ each as a Candidate ───────────▶ Place
//	                                    Preferences
//
// A [Selector] is what a task demands of a node's labels, in the grammar of Kubernetes's label selectors. [Preferences]
// are what it wishes. They come before the route: it chooses among the nodes with free slots that satisfy the most of
// them, by weight. Only an order of nodes (failover, busy_over) leaves them aside, as it says itself who comes first.
//
// A [Place] is one node, the queue that all nodes share, or neither: then the task waits in its lane. No node gets a
// task for which it has no free slot. So decisions are made late, a node that dies strands few tasks, and a busy node
// holds up nobody who may go elsewhere.
//
// # Routes
//
// The names are those of a task's definition. Candidates come in any order. Where a rule finds several nodes equal,
// Task.Seed decides, so that the first of them does not get everything.
//
//	any            the queue that all share, where the least busy takes first. If not all may run the task, or one is
//	               preferred: the node with the most free slots
//	first, last    the least, the greatest name: it fills one node after the other
//	round          the next name after the one whose turn was last
//	weighted_round as often as its weight, spread evenly (smooth weighted round robin)
//	random         by the seed
//	hash           by Task.Key: a node that goes moves only its own keys
//	least_running  the fewest slots of tasks that run and wait there
//	least_used     the fewest hand-overs in about an hour
//	longest_idle   the one whose last hand-over is longest ago
//	weighted       the most idle one by CPU, memory, slots and response time, times its weight
//	failover       the first of Order that lives. If it has no free slot, the task waits for it
//	busy_over      the first of Order that has a free slot; without an Order, the same as first
//
// # Hash
//
// Each pair of a key and a name has a number, and a key goes to the node with the highest one (rendezvous hashing). The
// numbers of other nodes do not matter, so a key moves only if its own node goes or a node comes that is higher. Names
// stay after a restart, and ids do not. So keys return to a node that has restarted.
//
// One hot key must not overload its node. A node with half of its slots taken is passed over if its share of all tasks
// would then be more than 1.25 of its share of all slots. Some node with a free slot is always below that. In the paper
// of Mirrokni, Thorup and Zadimoghaddam (Consistent Hashing with Bounded Loads, 2018), the bound holds from the first
// task on. Then the second task of a key goes elsewhere while nearly everything is idle.
//
// With [StickyPrefer], a task waits up to StickyWait for the node of its key, and with [StickyRequire] as long as it
// takes. Then no load passes the node over.
package route
