package schedule

import "github.com/dts-sched/dts/internal/task"

// Codes of errors.
const (
	CodeNotFound         task.Code = "schedule_not_found" // the namespace has no schedule with this id
	CodeChanged          task.Code = "schedule_changed"   // the current revision is not the one that the request names
	CodeBusy             task.Code = "schedule_busy"      // the overlap policy of the schedule does not allow a run now
	CodeRevisionNotFound task.Code = "revision_not_found" // the schedule never had this revision, or has forgotten it
)
