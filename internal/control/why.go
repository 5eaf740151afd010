package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// Why is what a task, a schedule or a queue waits for.
type Why struct {
	At      time.Time    // by the clock of Redis; zero if that does not answer
	State   task.State   // of a task; "" if that cannot be read, or the question is about something else
	Now     string       // what it does now, in sentences; "" if that cannot be read
	Reasons []why.Reason // what must change first at the beginning; none if it waits for nothing
	// Warnings say what could not be read: there may be further reasons.
	Warnings []string
}

// unread collects what could not be read.
type unread struct {
	mu     sync.Mutex
	texts  []string
	silent error // the first that says that Redis is away
}

// note notes what could not be read because of err; it returns false if err is nil.
func (u *unread) note(what string, err error) bool {
	if err == nil {
		return false
	}
	u.add(what + " cannot be read: " + redisx.WithoutDoubt(redisx.WhyNot(err)))
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.silent == nil && task.CodeOf(err) == task.CodeUnavailable {
		u.silent = err
	}
	return true
}

// add adds sentences without a full stop.
func (u *unread) add(texts ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.texts = append(u.texts, texts...)
}

// blockedWhy is the answer if a reason is all that is known.
func blockedWhy(blocked why.Reason) Why {
	return Why{
		Reasons: []why.Reason{blocked}, Warnings: []string{"what else it waits for is not known, as Redis does not answer"},
	}
}

// WhyTask says what a task waits for. If Redis does not answer, that is the reason.
// Errors: CodeTaskNotFound, CodeInvalid for the id.
func (c *Control) WhyTask(ctx context.Context, who Caller, id string) (Why, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, "whyTask", ref); err != nil {
		return Why{}, err
	}
	var u unread
	f, err := c.taskFacts(ctx, ref, &u)
	if blocked := c.blockedBy(err); blocked != nil {
		return blockedWhy(*blocked), nil
	}
	if task.CodeOf(err) == task.CodeTaskNotFound && ref.Root() != ref.ID {
		const text = "no task %q in namespace %q: a tick has none while it waits (dtsctl schedule why %s)"
		err = task.Errorf(task.CodeTaskNotFound, text, ref.ID, ref.Namespace, ref.Root())
	}
	if err != nil {
		return Why{}, err
	}
	return Why{
		At: f.Now, State: f.Task.State, Now: why.TaskNow(f.Task), Reasons: why.OfTask(f), Warnings: u.texts,
	}, nil
}

// taskFacts reads what decides what a task waits for, in three round trips, each of which has several calls at once.
// Errors: CodeTaskNotFound, CodeInvalid for the id, CodeUnavailable.
func (c *Control) taskFacts(ctx context.Context, ref task.Ref, u *unread) (f why.TaskFacts, failure error) {
	f.Partition, f.Lease = c.store.PartitionOf(ref), c.store.Tasks.RunLease()
	together(
		func() { c.readLeader(ctx, &f.Path, u) }, // it takes two of the three
		func() { failure = c.readTask(ctx, ref, &f, u) },
	)
	return f, failure
}

// readTask reads a task, and all that decides what it waits for, but who leads its partition. Errors: as of taskFacts.
func (c *Control) readTask(ctx context.Context, ref task.Ref, f *why.TaskFacts, u *unread) error {
	var failure, silent error
	refuses := ""
	together(
		func() { f.Task, failure = c.store.Tasks.Find(ctx, ref) },
		func() { f.Now, silent = c.store.Now(ctx, f.Partition) },
		func() { c.readFleet(ctx, &f.Path, u) },
		func() { refuses = c.store.RefusesWrites(ctx, f.Partition) },
	)
	if failure == nil {
		failure = silent
	}
	if failure != nil || f.Task.State.Final() {
		return failure
	}
	f.Blocked = blockedByRefusal(refuses)
	c.goVia(&f.Path, f.Task.Queue, f.Task.Type)
	running := c.readTaskPlaces(ctx, f, u)
	return c.readHolders(ctx, f, running, u)
}

// readTaskPlaces reads where a task is and what is around it. It returns the tasks that may hold the slots.
func (c *Control) readTaskPlaces(ctx context.Context, f *why.TaskFacts, u *unread) (running []task.Ref) {
	t := f.Task
	isDue := t.State == task.Queued || t.State == task.Scheduled && !t.DueAt.After(f.Now)
	before := -1 // tasks that wait in DTS and were due before
	delivery := ""
	if t.State == task.Queued {
		delivery = task.Delivery{Ref: t.Ref, Attempt: t.Attempt, Queue: t.Queue}.String()
	}
	calls := []func(){
		func() {
			standing, err := c.store.Tasks.Standing(ctx, t.Ref)
			if !u.note("what the leader does about the task", err) {
				f.LookAt, f.LeaseUntil, f.EndedAt = standing.LookAt, standing.LeaseUntil, standing.EndedAt
			}
		},
	}
	if t.State != task.Running {
		calls = append(calls, func() { f.Place = c.readQueue(ctx, &f.Path, delivery, u) },
			func() { c.readForeign(ctx, &f.Path, f.CanRun(t.Type), u) })
	}
	if isDue {
		calls = append(calls, func() {
			var err error
			running, err = c.store.LongestRunning(ctx, runningOfEach)
			u.note("which tasks run", err)
		})
	}
	if isDue && t.State == task.Scheduled {
		calls = append(calls, func() {
			names := []string{t.Queue, laneOf(t)}
			if n, err := c.store.CountReadyBefore(ctx, names, t.DueAt); !u.note("how many tasks go first", err) {
				before = n
			}
		})
	}
	together(calls...)
	if t.State == task.Scheduled {
		f.Ahead = sum(f.Ahead, before)
	}
	return running
}

// readHolders reads the tasks that may hold slots, and the task itself again: it may have begun, or ended, meanwhile.
// Error: CodeTaskNotFound.
func (c *Control) readHolders(ctx context.Context, f *why.TaskFacts, running []task.Ref, u *unread) error {
	if f.Task.State == task.Running {
		return nil
	}
	read, err := c.store.Tasks.Briefs(ctx, append([]task.Ref{f.Task.Ref}, running...))
	if u.note("which tasks hold the slots", err) {
		return nil // what was read before stands
	}
	if len(read) == 0 || read[0].Ref != f.Task.Ref {
		return taskNotFound(f.Task.Ref)
	}
	self := read[0]
	if self.State.Final() || self.State == task.Running {
		f.Task, f.LeaseUntil = self, time.Time{}
	}
	f.Holders = holdersAmong(read[1:])
	return nil
}

// WhySchedule says what the next tick of a schedule waits for. If Redis does not answer, that is the reason.
// Errors: CodeScheduleNotFound, CodeInvalid for the id, CodeUnreadable.
func (c *Control) WhySchedule(ctx context.Context, who Caller, id string) (Why, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, "whySchedule", ref); err != nil {
		return Why{}, err
	}
	var u unread
	f, err := c.scheduleFacts(ctx, ref, &u)
	if blocked := c.blockedBy(err); blocked != nil {
		return blockedWhy(*blocked), nil
	}
	if err != nil {
		return Why{}, err
	}
	return Why{At: f.Now, Now: why.ScheduleNow(f), Reasons: why.OfSchedule(f), Warnings: u.texts}, nil
}

// scheduleFacts reads what decides what the next tick of a schedule waits for, in three round trips.
// Errors: CodeScheduleNotFound, CodeInvalid for the id, CodeUnavailable, CodeUnreadable.
func (c *Control) scheduleFacts(
	ctx context.Context, ref task.Ref, u *unread,
) (f why.ScheduleFacts, failure error) {
	f.Partition = c.store.PartitionOf(ref)
	together(
		func() { c.readLeader(ctx, &f.Path, u) },
		func() { failure = c.readSchedule(ctx, ref, &f, u) },
	)
	return f, failure
}

// readSchedule reads a schedule, and all that decides what it waits for but who leads its partition. Errors: those of
// scheduleFacts.
func (c *Control) readSchedule(ctx context.Context, ref task.Ref, f *why.ScheduleFacts, u *unread) error {
	var failure, silent error
	refuses := ""
	together(
		func() {
			standing, err := c.store.Schedules.Standing(ctx, ref)
			f.Schedule, f.Live, f.WaitsTick, failure = standing.Schedule, standing.Live, standing.Waits, err
		},
		func() { f.Now, silent = c.store.Now(ctx, f.Partition) },
		func() { c.readFleet(ctx, &f.Path, u) },
		func() { refuses = c.store.RefusesWrites(ctx, f.Partition) },
	)
	if failure == nil {
		failure = silent
	}
	if failure != nil {
		return failure
	}
	f.Blocked = blockedByRefusal(refuses)
	c.goVia(&f.Path, f.Schedule.Task.Queue, f.Schedule.Task.Type)
	together(
		func() { c.readQueue(ctx, &f.Path, "", u) },
		func() { c.readForeign(ctx, &f.Path, f.CanRun(f.Type), u) },
		func() { f.Next, failure = c.nextUndecided(ctx, f.Schedule) },
		func() { c.readHolds(ctx, f, u) },
	)
	return failure
}

// undecidedTicks is how many ticks that are not decided are looked through for the first one that is not excluded.
const undecidedTicks = 1000

// nextUndecided returns the first tick of a schedule that is not decided and not excluded; the zero time if there is
// none. Errors: CodeUnavailable, CodeUnreadable.
func (c *Control) nextUndecided(ctx context.Context, s schedule.Schedule) (time.Time, error) {
	line, err := c.store.Schedules.Timeline(ctx, s)
	if err != nil {
		return time.Time{}, err
	}
	at := s.Cursor
	for range undecidedTicks {
		tick, ok := line.Next(at)
		if !ok {
			break
		}
		if !tick.Excluded {
			return tick.At, nil
		}
		at = tick.At
	}
	next, _ := s.NextTick()
	return next, nil
}

// readHolds reads whether the leader of a schedule holds its ticks back, and why.
func (c *Control) readHolds(ctx context.Context, f *why.ScheduleFacts, u *unread) {
	ref := f.Schedule.Ref
	f.Crowded = c.store.MemoryInUse(ctx, f.Partition) > layout.AlmostFull
	if c.limits == nil {
		return
	}
	if f.Limit = c.readLimit(ctx, f.Queue, u); f.Limit > 0 {
		held, err := c.store.Schedules.HeldBack(ctx, f.Partition, []string{ref.String()})
		f.Full = !u.note("whether ticks are held back", err) && len(held) > 0
	}
}

// WhyQueue says what the tasks of a queue wait for. If Redis does not answer, that is the reason.
// Errors: CodeQueueNotFound, CodeInvalid for the name.
func (c *Control) WhyQueue(ctx context.Context, who Caller, name string) (Why, error) {
	if _, err := c.begin(ctx, who, "whyQueue"); err != nil {
		return Why{}, err
	}
	if err := task.ValidateQueue(name); err != nil {
		return Why{}, err
	}
	var u unread
	f, known, err := c.queueFacts(ctx, name, &u)
	if blocked := c.blockedBy(err); blocked != nil {
		return blockedWhy(*blocked), nil
	}
	if err == nil && !known {
		err = task.Errorf(CodeQueueNotFound, "no queue %q", name)
	}
	if err != nil {
		return Why{}, err
	}
	return Why{At: f.Now, Now: why.QueueNow(f), Reasons: why.OfQueue(f), Warnings: u.texts}, nil
}

// queueFacts reads what decides what the tasks of a queue wait for, in three round trips. known is false if there is no
// such queue. Error: CodeUnavailable.
func (c *Control) queueFacts(
	ctx context.Context, name string, u *unread,
) (f why.QueueFacts, known bool, _ error) {
	partitions := make([]int, c.store.Layout.Partitions())
	for p := range partitions {
		partitions[p] = p
	}
	c.goVia(&f.Path, name, "")
	var failure, silent, leaderless error
	var sets []layout.ReadySet
	var leaders map[int]string
	var running []task.Ref
	refuses := ""
	together(
		func() { f.Now, silent = c.store.Now(ctx, 0) },
		func() { refuses = c.store.RefusesWrites(ctx, 0) },
		func() { c.readFleet(ctx, &f.Path, u) },
		func() { sets, failure = c.store.ReadyOf(ctx, name) },
		func() { leaders, leaderless = c.store.Leaders(ctx, partitions) },
		func() {
			standing, err := c.readStanding(ctx, &f.Path, "", u)
			f.Pending, known = standing.Pending, standing.Known || err != nil
		},
		func() {
			var err error
			running, err = c.store.LongestRunning(ctx, runningOfEach)
			u.note("which tasks run", err)
		},
		func() {
			if c.limits != nil {
				f.Limit = c.readLimit(ctx, name, u)
			}
		},
	)
	if failure == nil {
		failure = silent
	}
	if failure != nil {
		return f, false, failure
	}
	if f.Blocked == nil {
		f.Blocked = blockedByRefusal(refuses)
	}
	c.addSets(&f, sets, leaders, !u.note("who leads", leaderless))
	together(
		func() { c.readForeign(ctx, &f.Path, f.RunsAll(), u) },
		func() {
			read, err := c.store.Tasks.Briefs(ctx, running)
			u.note("which tasks hold the slots", err)
			f.Holders = holdersAmong(read)
		},
	)
	return f, known || len(sets) > 0 || f.Limit > 0 || f.WasServed(), nil
}

// blockedBy returns the reason that an error of a read is; nil if it is none.
func (c *Control) blockedBy(err error) *why.Reason {
	switch {
	case redisx.IsDamage(err):
		return &why.Reason{
			Code: why.Unreadable, Detail: "A key that is needed has the wrong type in Redis, or a value that is none.",
			Do: "See what is damaged: dtsctl doctor.",
		}
	case task.CodeOf(err) != task.CodeUnavailable:
		return nil
	case redisx.IsMoving(err):
		return &why.Reason{
			Code:   why.SlotMoving,
			Detail: "The data moves to another server of the cluster, and no script runs on it meanwhile.",
			Do:     "Wait for the end of the move: redis-cli cluster nodes shows it.",
		}
	}
	r := &why.Reason{Code: why.RedisSilent, Since: c.store.DB.Link().AwaySince().UTC()}
	r.Detail = "Redis does not answer this node, so nothing is handed over."
	if outage := c.store.DB.Link().Outage(); outage != nil {
		r.Detail = "Redis is away, so nothing is handed over: " + outage.Error() + "."
	}
	r.Do = "Bring Redis back. Tasks that run go on meanwhile, for --outage-tolerance."
	return r
}

// blockedByRefusal returns the reason that a Redis is that refuses writes; nil if it says nothing.
func blockedByRefusal(said string) *why.Reason {
	if said == "" {
		return nil
	}
	return &why.Reason{
		Code: why.RedisSilent, Detail: "Redis refuses writes, so nothing is handed over. It says: " + said + ".",
		Do: "Remove the cause that Redis names. Tasks that run go on meanwhile, for --outage-tolerance.",
	}
}

// together makes calls at once, and returns when all have ended.
func together(calls ...func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	all.Wait()
}
