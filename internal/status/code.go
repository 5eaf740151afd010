package status

// Code names a kind of reason. The list is closed: docs/status.md describes each one.
type Code string

// The codes.
const (
	RedisSilent    Code = "redis_silent"
	RedisReadOnly  Code = "redis_read_only"
	RedisFull      Code = "redis_full"
	RedisFilling   Code = "redis_filling"
	RedisDisk      Code = "redis_disk"
	NoLeader       Code = "no_leader"
	NodeDied       Code = "node_died"
	QueueUnserved  Code = "queue_unserved"
	TypeUnserved   Code = "type_unserved"
	NoNode         Code = "no_node"
	CostOverLimit  Code = "cost_over_limit"
	SlotsTaken     Code = "slots_taken"
	Late           Code = "late"
	QueuePaused    Code = "queue_paused"
	LimitPaused    Code = "limit_paused"
	PausedItself   Code = "paused_by_failures"
	TicksHeldBack  Code = "ticks_held_back"
	TicksMissed    Code = "ticks_missed"
	Failing        Code = "schedule_failing"
	FailuresJumped Code = "failures_jumped"
	DoctorFound    Code = "doctor_found"
)

// Meaning is a code and what it says.
type Meaning struct {
	Code Code
	Text string
}

// Codes is the list of all codes, in the order in which reasons of the same severity come.
var Codes = []Meaning{
	{RedisSilent, "A server of Redis does not answer, or turns nodes away."},
	{RedisReadOnly, "Redis refuses writes."},
	{RedisFull, "Redis uses more than 90 % of its maxmemory, so new work is refused."},
	{NoLeader, "Nobody has led some partitions for 15 seconds, so their tasks and ticks wait."},
	{QueueUnserved, "Tasks wait in a queue from which no living node takes any."},
	{TypeUnserved, "Tasks wait whose type no living node of their queue runs."},
	{NoNode, "Tasks wait that have a selector, a route or several slots, and no living node of their queue may run them."},
	{CostOverLimit, "Tasks wait that cost more than a limit has: they can never start."},
	{SlotsTaken, "Tasks have held all slots of a queue for two minutes, or most while none is free, and others wait."},
	{PausedItself, "A schedule has paused itself, since too many of its tasks failed in a row."},
	{TicksHeldBack, "A tick of a schedule is more than 15 seconds late, and has not been decided."},
	{FailuresJumped, "Far more attempts fail than in the hour before."},
	{Failing, "The newest tasks of a schedule have failed."},
	{DoctorFound, "The newest examination by doctor has found something."},
	{RedisDisk, "Redis could not write to its disk."},
	{RedisFilling, "Redis uses more than 80 % of its maxmemory."},
	{TicksMissed, "Ticks of a schedule were missed in the last 24 hours, not for a pause, and were not backfilled since."},
	{NodeDied, "A node has died in the last 15 minutes."},
	{Late, "The first task of a queue has waited for more than a minute, for at least a minute."},
	{QueuePaused, "Tasks wait in a queue that is paused."},
	{LimitPaused, "Tasks wait for a limit that is paused for another minute at least."},
}
