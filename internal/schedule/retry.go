package schedule

import "time"

// Retry is a task of a schedule that has not ended, and whose newest attempt that has ended failed: it is tried again,
// or the next attempt waits or runs. The zero value is none.
type Retry struct {
	Task     string    // its id
	Attempts int       // how many have ended
	EndedAt  time.Time // when the newest of them ended
	Error    string    // why that did not succeed
	DueAt    time.Time // when the next attempt is due; zero: its time has come
	// Outdated says that an earlier revision has created the task, and that the present one defines tasks otherwise.
	// Lists do not tell it.
	Outdated bool
	Revision int // that created the task, if it is outdated; 0: nobody knows
}
