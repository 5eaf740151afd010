package why

// Code names a reason. The list is closed: docs/why.md describes each one.
type Code string

// The codes.
const (
	Unreadable       Code = "unreadable"
	NotDue           Code = "not_due"
	Retry            Code = "retry"
	RedisSilent      Code = "redis_silent"
	SlotMoving       Code = "slot_moving"
	NoLeader         Code = "no_leader"
	QueueUnserved    Code = "queue_unserved"
	TypeUnserved     Code = "type_unserved"
	QueuePaused      Code = "queue_paused"
	SlotsTaken       Code = "slots_taken"
	Delivery         Code = "delivery"
	WorkerSilent     Code = "worker_silent"
	Stopping         Code = "stopping"
	Moving           Code = "moving"
	SchedulePaused   Code = "paused"
	PausedByFailures Code = "paused_by_failures"
	Overlap          Code = "overlap"
	Ended            Code = "ended"
	RedisFull        Code = "redis_full"
	QueueFull        Code = "queue_full"
	SameKey          Code = "same_key"
	Limited          Code = "limited"
	NoNode           Code = "no_node"
	NodeFull         Code = "node_full"
)

// Meaning is a code and what it says.
type Meaning struct {
	Code Code
	Text string
}

// Codes is the list of all codes, in the order in which the reasons must change.
var Codes = []Meaning{
	{Unreadable, "Redis holds something that is needed, and that nobody can read."},
	{SchedulePaused, "Somebody has paused the schedule."},
	{PausedByFailures, "The schedule has paused itself, since too many of its tasks failed in a row."},
	{Overlap, "The next tick waits until the task before it has ended."},
	{Ended, "The schedule has no further tick."},
	{SameKey, "Another task with its key must end first."},
	{NotDue, "Its time has not come, or an attempt asked to run again later."},
	{Retry, "The last attempt did not succeed, and the time of the next one has not come."},
	{RedisSilent, "The server of Redis that is needed does not answer, turns this node away, or refuses writes."},
	{SlotMoving, "The data moves to another server of the cluster."},
	{NoLeader, "No node leads the partition, so nobody hands its tasks over."},
	{RedisFull, "Redis is almost full, so leaders hold ticks back."},
	{QueueUnserved, "No living node takes tasks from the queue."},
	{TypeUnserved, "Living nodes serve the queue, and none of them runs the type."},
	{NoNode, "No living node is one on which it may run, by its selector, its route or its slots."},
	{QueuePaused, "Somebody has paused the queue."},
	{Limited, "A limit has no slot, lets no task start yet, or is paused."},
	{NodeFull, "The nodes to which it may go have no free slot, or fewer than it needs."},
	{SlotsTaken, "All slots of the nodes that can run it are taken."},
	{QueueFull, "As many tasks wait in the queue as its capacity allows."},
	{Delivery, "Nothing holds it up: a leader hands it over, or a worker takes it."},
	{WorkerSilent, "It runs, and its worker has stopped answering."},
	{Stopping, "It runs, and was asked to stop."},
	{Moving, "It runs, and was asked to move to another worker."},
}
