package dts

import "time"

// ScheduleDefinition says when a schedule ticks and what each tick runs. Exactly one of Cron, Every and Specs says when; Task is
// required too. docs/schedules.md explains the fields.
type ScheduleDefinition struct {
	Cron     string        // as cron writes it, 5 fields; with 6, seconds come first; with 7, a year comes last
	Every    time.Duration // an interval, 100 ms to 10 years, counted from StartAt or the creation
	Specs    []Spec        // several rules: the schedule ticks where any of them does
	Exclude  []string      // dates, ranges of dates (a/b) and cron expressions whose ticks do not run
	Timezone string        // IANA name of the zone in which Cron and Exclude are read; "" means UTC
	StartAt  time.Time     // no tick before; zero: the creation
	EndAt    time.Time     // no tick after; zero: no end
	MaxRuns  int           // after so many ticks that ran, the schedule ends; 0: never
	Jitter   time.Duration // each task is due up to this much after its tick, always the same for a tick
	Misfire  Misfire       // what becomes of ticks that were missed
	Overlap  OverlapPolicy // what becomes of a tick while a task of the schedule has not ended; "" means OverlapSkip
	// PauseOnFailure has the schedule pause itself after so many tasks in a row that failed; 0: never.
	PauseOnFailure int
	Owner          string
	Description    string
	Labels         map[string]string
	Task           TaskTemplate
}

// Spec is one of several rules of a schedule: either field.
type Spec struct {
	Cron  string
	Every time.Duration
}

// TaskTemplate is what every tick runs. Its fields are those of a [Submission]; of a schedule that was read, Payload is a
// json.RawMessage.
type TaskTemplate struct {
	Type      string
	Queue     string
	Payload   any
	Timeout   time.Duration
	Retry     Retry
	Retention time.Duration
	Owner     string
	Labels    map[string]string
	StartBy   time.Duration // how long after its tick a task may begin; 0 for no bound
	OnEnd     *FollowUp     // the task that follows that of each tick; nil for none

	Priority   int
	FairKey    string
	FairWeight int // 0 means 1
	LimitKey   string
	Cost       int // 0 means 1
	Slots      int // 0 means 1
	Select     string
	Prefer     []Preference
	Route      Route
}

// Misfire is what becomes of ticks that are decided about more than 15 s late, or that were due during a pause.
type Misfire struct {
	Policy MisfirePolicy // "" means MisfireOnce
	Window time.Duration // how late a tick may be and still run; 0 means 1 h
	Max    int           // how many run at most, with MisfireAll; 0 means 100
}

// MisfirePolicy says which missed ticks run.
type MisfirePolicy string

// The policies for missed ticks.
const (
	MisfireSkip MisfirePolicy = "skip" // none
	MisfireOnce MisfirePolicy = "once" // the newest one, for all of them
	MisfireAll  MisfirePolicy = "all"  // those within the window, a second apart
)

// OverlapPolicy says what becomes of a tick while a task of the schedule has not ended.
type OverlapPolicy string

// The policies for overlapping runs.
const (
	OverlapAllow   OverlapPolicy = "allow"   // it runs all the same
	OverlapSkip    OverlapPolicy = "skip"    // it does not run
	OverlapQueue   OverlapPolicy = "queue"   // it waits for its turn
	OverlapReplace OverlapPolicy = "replace" // what has not ended is cancelled, and the tick runs then
)

// Schedule is a definition in force and its state. Times that have not come are zero.
type Schedule struct {
	ID         string
	Namespace  string
	Definition ScheduleDefinition
	Revision   int // counts the changes of the definition, from 1
	CreatedAt  time.Time
	UpdatedAt  time.Time // since when this revision decides about ticks
	Cursor     time.Time // what becomes of every tick up to this time has been decided
	NextAt     time.Time // the next tick; zero while it is paused, and when it has ended
	Paused     bool
	PausedAt   time.Time
	PauseNote  string
	EndedAt    time.Time // the time after which no tick was left
	Runs       int       // ticks that ran
	Failures   int       // tasks that failed since the last one that did not
	Live       int       // its tasks that have not ended
	Waiting    int       // ticks that wait for those

	// What became of its runs, in the answers of GetSchedule and ListSchedules.
	Conditions    []ScheduleCondition
	LastRun       *ScheduleRun // the run that ended last; nil if none is known
	LastSuccessAt time.Time    // when the newest success ended; zero if none is known
	Recent        []TickResult // the newest ticks and runs by hand, the oldest first: 30 in lists, 100 of one schedule
	Days          []TickDay    // counts for the newest 90 days that have any, the oldest first; not in lists

	// Warnings say, of PutSchedule, why its tasks may not run; of GetSchedule, which capacity of a queue holds its ticks
	// back.
	Warnings []string
}

// ScheduleCondition is what is wrong with the runs of a schedule.
type ScheduleCondition string

// The conditions.
const (
	ScheduleFailing ScheduleCondition = "failing" // of its runs that have succeeded or failed, the newest one has failed
	ScheduleMissed  ScheduleCondition = "missed"  // a tick of the last 24 h was missed, whether or not it was backfilled since
	ScheduleStale   ScheduleCondition = "stale"   // a tick was due for longer than a time, and nothing has succeeded since
)

// ScheduleRun is a run of a schedule that has ended. Its task may be forgotten.
type ScheduleRun struct {
	Task      string
	Tick      time.Time // the nominal time; of a run by hand, when it was asked for
	Outcome   State     // StateSucceeded, StateFailed or StateCancelled
	Attempts  int
	StartedAt time.Time // when the last attempt began; zero if none was running at the end
	EndedAt   time.Time
}

// RunResult is what became of a tick or a run by hand. A tick without a task has its outcome in the ledger: "missed", "skipped_overlap",
// "excluded" or "replaced". So has one whose task was cancelled for a later tick.
type RunResult string

// The results of ticks that have a task, or wait for one.
const (
	RunSucceeded RunResult = "succeeded"
	RunFailed    RunResult = "failed"
	RunCancelled RunResult = "cancelled"
	RunRunning   RunResult = "running"
	RunWaiting   RunResult = "waiting" // its task waits, or the tick waits for the task before it
	RunUnknown   RunResult = "unknown" // its end was not recorded, as by a node of an earlier release
)

// TickResult is a tick, or a run by hand, and what became of it.
type TickResult struct {
	Tick       time.Time
	Result     RunResult
	Task       string // its id; "" if it had none
	Triggered  bool
	Backfilled bool
	Attempts   int
	Took       *time.Duration // by the last attempt; nil if none was running at the end, or nobody knows
}

// TickDay is how many ticks and runs by hand of a day came to what.
type TickDay struct {
	Date   time.Time // midnight in UTC
	Counts map[RunResult]int
}

// TickOutcome is what became of a tick.
type TickOutcome string

// The outcomes of ticks.
const (
	TickFired          TickOutcome = "fired"           // its task was created
	TickSkippedOverlap TickOutcome = "skipped_overlap" // a task of the schedule had not ended
	TickMissed         TickOutcome = "missed"          // it could not be fired in time, and the misfire policy said no
	TickExcluded       TickOutcome = "excluded"
	TickQueued         TickOutcome = "queued"     // it waits for the end of the task before it
	TickReplaced       TickOutcome = "replaced"   // a later tick took its place
	TickTriggered      TickOutcome = "triggered"  // no tick: somebody ran the schedule by hand
	TickBackfilled     TickOutcome = "backfilled" // its task was created afterwards, by BackfillSchedule
)

// LedgerEntry is the record of what became of a tick.
type LedgerEntry struct {
	Tick      time.Time // the nominal time; of a run by hand, when it was asked for
	Outcome   TickOutcome
	Reason    string
	Task      string        // the id of its task; "" if none was created
	Late      time.Duration // from the tick to the decision
	DecidedAt time.Time
	Revision  int // that was in force at the decision
}

// LedgerFilter narrows a ledger. Zero times do not bound it.
type LedgerFilter struct {
	Since, Until time.Time
	Gaps         bool // only ticks that did not run though nothing excluded them
}

// UpcomingTick is a tick to come.
type UpcomingTick struct {
	Tick     time.Time
	Local    string // the same instant as the schedule's zone writes it
	Excluded bool   // it will not run
	Note     string // what is unusual about it, such as a change of the zone's clock
}

// AuditReport compares the ticks that there should have been with the ledger.
type AuditReport struct {
	From, To       time.Time
	Expected       int // ticks that there should have been
	Accounted      int // of those, ticks that have a record
	Outcomes       map[TickOutcome]int
	Gaps           []time.Time   // ticks that have no record
	Strays         []LedgerEntry // records that no definition explains
	Pending        int           // ticks that have not been decided about yet
	ForgottenUntil time.Time     // up to here the ledger or the history has forgotten what was; zero: nowhere
	LostWrites     []LostWrites  // when Redis has lost writes in the range, as far as a node noticed: ticks may have run twice
	Warnings       []string      // what cannot be read in Redis, and revisions that are missing
	Proved         bool          // every tick is accounted for, nothing else is recorded, and there are no warnings
}

// LostWrites is a span of time from which Redis has lost writes that it had acknowledged.
type LostWrites struct{ From, To time.Time }

// Revision is a definition that was in force. It decided about the ticks after From, up to and with Until.
type Revision struct {
	Revision   int
	From       time.Time
	Until      time.Time // zero: it still decides
	Definition ScheduleDefinition
}

// Deletion is what became of the tasks of a deleted schedule that had not ended.
type Deletion struct {
	Cancelled int // were not running
	Stopping  int // were running, and have been asked to stop
	Left      int // go on
}

// Backfill is a range of ticks to run afterwards, both ends included.
type Backfill struct {
	From, To time.Time
	Pace     *time.Duration // between two tasks; nil means 1 s
	Key      string         // within an hour, a call with the same key returns what the first one has created; "" for none
}
