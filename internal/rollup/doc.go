// Package rollup counts what tasks do, by minute. It is pure: it knows no Redis, and its clock is given to it.
//
//	begin, end of an attempt         Tally    each node counts what it has recorded itself, in memory
//	         |
//	one row of each node             Row      the whole count of a minute so far: writing it again changes nothing
//	         |  Merge
//	a minute of the cluster          Minute   with what waits and what runs, which the leader adds
//	         |  Merge
//	an hour of the cluster           Minute   with a Span of an hour
//
// Everything is bounded. A minute has at most QueuesLimit queues and MinuteCauses causes of failures, an hour
// HourCauses, and neither is longer than its limit when it is encoded. What is beyond that is counted under the
// name Rest.
package rollup

import "time"

// Limits of what is kept.
const (
	QueuesLimit  = 100 // queues with counts of their own
	MinuteCauses = 16  // causes of failures of one minute
	HourCauses   = 32  // causes of failures of one hour
	TextLimit    = 160 // bytes of the text of a cause

	// What is encoded fits into the sizes in which Redis's allocator gives memory: 8 KiB and 16 KiB.
	MinuteBytes = 8<<10 - 64
	HourBytes   = 16<<10 - 64

	MinutesKept = 65 // more than an hour, as the newest minute is closed late
	HoursKept   = 25
)

// Rest is the name of all queues beyond the limit, the text of all causes beyond the limit, and the schedule of a
// cause in which those of several schedules are counted together.
const Rest = "*"

// Span is how long a minute is.
const Span = time.Minute
