// Package status says in one sentence whether an installation needs somebody, and for what reasons. It is pure: package
// control reads the facts, and the same facts give the same status.
//
// Each rule looks at one kind of thing and may give reasons:
//
//	redis.go      the servers of Redis
//	fleet.go      leaders and nodes
//	queues.go     what waits
//	lanes.go      what waits apart: for a node that may run it, or for a limit
//	schedules.go  schedules and their ticks
//	past.go       the share of attempts that fail, and what doctor has found
//
// A reason is Bad while work does not happen, else Warn. What holds for a moment in normal operation becomes a reason
// after a while only: a Status notes since when it has seen each condition, and the next one goes on from there. So
// any node can compute it.
package status
