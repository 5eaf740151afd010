package contract

import (
	"time"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Unnamed stands in for the name of all tasks that nobody serves and that have got no name of their own. It is neither
// the name of a queue nor of a lane.
const Unnamed = "*"

// Limits that scripts keep, and that are not limits of a task.
const (
	LocksLimit      = 2000   // locks that are held in one partition
	LostLimit       = 100    // attempts that were lost of which one partition knows the node
	NamespacesLimit = 10_000 // namespaces remembered, those with the newest submissions

	// WorkerLeaseLimit is the longest lease of a run that a worker by HTTP may ask for.
	WorkerLeaseLimit = 10 * time.Minute

	// WaitingNamesLimit is how many names a partition has, after which due tasks that nobody can run get no further one.
	// They wait under the name of their queue or, if other types of it are run, under those of both. Nor do tasks of a
	// namespace get one that has as many names as are free.
	WaitingNamesLimit = 1000

	// LanesLimit is how many names a partition has, after which tasks that find no room get no further lane for their
	// fair key. They wait with those that have none.
	LanesLimit = 10_000

	// PriorityMarks is how many values of the part of a rank that is less than a ms could tell a priority.
	PriorityMarks = 16
)

// Constants are the values that scripts take from Go, by their names in Lua. Numbers are counts or ms, unless a comment
// says otherwise.
var Constants = map[string]any{
	"ATTEMPT_HISTORY_LIMIT": task.HistoryLimit,
	"INLINE_PAYLOAD_LIMIT":  task.InlinePayloadLimit,
	"LOST_LIMIT":            LostLimit,
	"CALLED_FOR":            time.Minute.Milliseconds(),        // how long it counts which workers of a queue were woken
	"REFERENCE_LIMIT":       2*task.IDLimit + 100,              // bytes of the payload of a delivery
	"LIST_SEARCHED":         5000,                              // length up to which a list of deliveries is searched
	"SCAN_LIMIT":            256,                               // deliveries at which a worker looks for its types
	"SKIPPED_FOR":           (10 * time.Second).Milliseconds(), // longer than workers sleep between two looks
	"LOOK_LIMIT":            (10 * time.Second).Milliseconds(), // how long a leader leaves a queued task alone at most
	"LOG_LIMIT":             task.LogLimit,
	"HORIZON_LIMIT":         task.HorizonLimit.Milliseconds(),
	"DEFAULT_QUEUE":         task.DefaultQueue,
	"FLOW_RUN":              task.FlowRun,
	"STEP_RETENTION":        task.RetentionLimit.Milliseconds(),
	"DEFAULT_RETENTION":     task.DefaultRetention.Milliseconds(),
	"FAILED_RETENTION":      task.DefaultFailedRetention.Milliseconds(),
	"LOCKS_LIMIT":           LocksLimit,
	"ASIDE_KEPT":            task.AsideKept.Milliseconds(),
	"WORKER_LEASE_LIMIT":    WorkerLeaseLimit.Milliseconds(),
	"DELETED_FOR":           2 * task.ReportedFor.Milliseconds(),
	"DELETED_LIMIT":         task.ReportedLimit,
	"LOSSES_LIMIT":          schedule.LossesLimit,
	"NAMESPACES_LIMIT":      NamespacesLimit,
	"NAMES_LIMIT":           WaitingNamesLimit,
	"LANES_LIMIT":           LanesLimit,
	"PRIORITY_STEP":         task.PriorityStep.Milliseconds(),
	"PRIORITY_MARKS":        PriorityMarks,
	"MOVED_MARK":            0.5,    // ms by which the score on the wheel of a task that was given up is less
	"NOTED_LIMIT":           20_000, // tasks of a partition that lists need a row of, about 1 MB
	"NOTED_WAKE":            64,     // of them, for which the leader is woken
	"LISTED_BLOCKS":         index.SegmentBlocks,
	"FREED_SAID":            16,            // limits in one message that slots are free
	"LIMITED_PAUSE":         1000,          // ms on the wheel, for a task with limits without a lane
	"ASKED_FRESH":           3000,          // ms for which a place in the line for a slot is kept
	"USE_KEPT":              5 * 60 * 1000, // ms for which the home of a limit keeps what it knows, when nothing is in use
	"NAMES_SAID":            256,           // names of queues and lanes that nobody serves in one reply
	"UNNAMED":               Unnamed,
	"HOLD_PAUSE":            schedule.HoldPause.Milliseconds(),
	"LIVE_LIMIT":            schedule.LiveLimit,
	"STOP_LIMIT":            schedule.StopLimit,
	"ASKED_FOR":             schedule.AskedFor.Milliseconds(),
	"ASKED_LIMIT":           schedule.AskedLimit,
	"ASKED_DROPPED":         100, // keys of requests, when there are more than that
	"WAITING_LIMIT":         schedule.WaitingLimit,
	"LEDGER_LIMIT":          schedule.LedgerLimit,
	"ENDS_CHUNK":            schedule.EndsChunk,
	"ENDS_CHUNKS":           schedule.EndsChunks,
	"DAYS_LIMIT":            schedule.DaysLimit,
	"LEDGER_HORIZON":        schedule.LedgerHorizon.Milliseconds(),
	"REVISIONS_LIMIT":       schedule.HistoryLimit - 1, // without the present one
	"REVISIONS_UNDECIDED":   schedule.UndecidedHistoryLimit - 1,
	"DEFAULT_OVERLAP":       string(schedule.DefaultOverlap),
	"MANUAL_SUFFIX":         schedule.ManualSuffix,
	"ARCHIVE_LIMIT":         10_000,                           // asynq's: dead letters of a queue
	"ARCHIVE_KEEP":          90 * 24 * 60 * 60,                // asynq's: s
	"DEAD_LIMIT":            100,                              // nodes that stay on the list
	"DEAD_REMOVED":          500,                              // of them in one run of a script
	"DEAD_SPARED":           (2 * time.Minute).Milliseconds(), // without a beat, until dead nodes count for that limit
	"STATISTICS_KEEP":       90 * 24 * 60 * 60,                // asynq's: s
}
