// Package handover decides which waiting tasks a leader hands over to asynq's queues now. It is told what happens and
// when, and is asked for grants. It reads no clock, calls no Redis, holds no lock and draws no random number.
//
//	told                                    asked
//	nodes came or went    --+           +-->  what to look at (Asks)
//	a queue was looked at --+  Planner  +-->  what a claim may take (Grant)
//	a claim was answered  --+           +-->  which nodes to wake (Choose)
//
// Package scheduler has what stays outside: the mutex, the clock, the calls and the waiting (plan.go).
//
// A queue gets enough deliveries to keep its living workers busy, and no more. What is beyond waits in its partition,
// where it can be counted, changed, cancelled and moved. Of most queues nothing waits, and nothing is known of them
// here: a claim takes up to 16 of their tasks. Of the others, the planner knows how many more deliveries they may get,
// and which partitions have tasks for them. The partitions whose tasks have waited longest get what is free. See
// docs/adr/0013-a-backlog-waits-in-dts.md.
//
// Tasks of different fair keys wait in lanes of their own, which share the room of their queue, or of the lane of their
// type: their pool. They take turns by weight (turns.go). Priorities are no matter of the planner: they are part of the
// time by which tasks wait. See docs/adr/0046-turns-are-planned-priorities-are-time.md.
//
// Deliveries that only some of a queue's workers run, or none, must not take the room of the others. Too many of them
// wait in a lane of their type, which is planned as a queue of its own. What nobody serves waits apart, and claims look
// at it only when what is served has changed. See docs/adr/0017-tasks-wait-for-workers-of-their-type.md.
package handover
