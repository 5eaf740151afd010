// Package why says what a task, a schedule or a queue waits for. It is pure: package control reads the facts, and the
// same facts give the same reasons, in the order in which they must change.
//
// A task goes this way, and each step has the reasons that can hold it up:
//
//	waits for its time    same_key, not_due, retry
//	     |
//	is handed over        redis_silent, slot_moving, no_leader
//	     |
//	has a worker          queue_unserved, type_unserved, no_node
//	     |
//	is taken              queue_paused, limited, node_full, slots_taken; delivery if nothing holds it up
//	     |
//	runs                  it waits for nothing
//	     |
//	is to end             worker_silent, stopping, moving
//
// A schedule comes before: paused, paused_by_failures, overlap, ended, not_due, redis_full, queue_full.
//
// A fact that is not known is left out, and no reason is made of it. So a reason is never a guess, and what is said is
// what Redis and the newest heartbeats tell.
package why
