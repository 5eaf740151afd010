package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

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
	if task.CodeOf(err) == task.CodeTaskNotFound {
		err = c.whereToLook(ctx, ref, err)
	}
	if err != nil {
		return Why{}, err
	}
	return Why{
		At: f.Now, State: f.Task.State, Now: why.TaskNow(f.Task) + c.whyRun(ctx, f.Task), Reasons: why.OfTask(f),
		Warnings: u.texts,
	}, nil
}

// whyRun says why a run of a workflow that runs has not ended though its deadline is over; "" for any other task.
func (c *Control) whyRun(ctx context.Context, t task.Task) string {
	if t.Type != task.WorkflowType || t.State != task.Running {
		return ""
	}
	if run, err := c.readRun(ctx, t.Ref); err == nil && run.Waits != "" {
		return " " + run.Waits
	}
	return ""
}

// whereToLook is the error for a task that is not there, with what there may be instead. missing is the error without
// that: it may say already that the task was deleted.
func (c *Control) whereToLook(ctx context.Context, ref task.Ref, missing error) error {
	text := taskNotFound(ref).Error()
	if missing.Error() != text {
		return missing
	}
	if _, _, ok := ref.Tick(); ok {
		text += fmt.Sprintf(": a tick has none while it waits (dtsctl schedule why %s)", ref.Root())
		return &task.Error{Code: task.CodeTaskNotFound, Message: text}
	}
	var others []string
	if _, _, err := c.store.Schedules.Read(ctx, ref); err == nil {
		others = append(others, fmt.Sprintf("a schedule of that id (dtsctl schedule why %s)", ref.ID))
	}
	if _, err := c.store.Workflows.Get(ctx, ref); err == nil {
		const hint = "a workflow of that id (dtsctl flow get %s; its runs: dtsctl flow runs --workflow %s)"
		others = append(others, fmt.Sprintf(hint, ref.ID, ref.ID))
	}
	if len(others) > 0 {
		text += ", but " + strings.Join(others, " and ")
	} else {
		const hint = ": it may be in another namespace (dtsctl task get %s -A), or was deleted after its end"
		text += fmt.Sprintf(hint, ref.ID)
	}
	return &task.Error{Code: task.CodeTaskNotFound, Message: text}
}

// taskFacts reads what decides what a task waits for, in three round trips, each of which has several calls at once.
// Errors: CodeTaskNotFound, CodeInvalid for the id, CodeUnavailable.
func (c *Control) taskFacts(ctx context.Context, ref task.Ref, u *unread) (f why.TaskFacts, failure error) {
	f.Partition, f.Lease = c.store.PartitionOf(ref), c.store.Tasks.RunLease()
	calls.Do(
		func() { c.readLeader(ctx, &f.Path, u) }, // it takes two of the three
		func() { failure = c.readTask(ctx, ref, &f, u) },
	)
	return f, failure
}

// readTask reads a task, and all that decides what it waits for, but who leads its partition. Errors: as of taskFacts.
func (c *Control) readTask(ctx context.Context, ref task.Ref, f *why.TaskFacts, u *unread) error {
	var failure, silent error
	refuses := ""
	calls.Do(
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
	f.Stays = !c.CanMove(f.Task)
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
	node, delivery := "", ""
	if t.State == task.Queued {
		node, delivery = t.Placed, task.Delivery{Ref: t.Ref, Attempt: t.Attempt, Queue: t.Queue}.String()
	}
	reads := []func(){
		func() {
			standing, err := c.store.Tasks.Standing(ctx, t.Ref)
			if !u.note("what the leader does about the task", err) {
				f.LookAt, f.LeaseUntil, f.Last = standing.LookAt, standing.LeaseUntil, standing.Last
			}
		},
	}
	if t.State != task.Running {
		reads = append(reads, func() { f.Place = c.readQueue(ctx, &f.Path, node, delivery, u) },
			func() { c.readForeign(ctx, &f.Path, f.CanRun(t.Type), u) })
	}
	if isDue {
		reads = append(reads, func() {
			var err error
			running, err = c.store.LongestRunning(ctx, runningOfEach)
			u.note("which tasks run", err)
		})
	}
	reads = append(reads, func() { u.note("what its key knows", c.store.Tasks.ReadAfter(ctx, &f.Task)) })
	if isDue && t.State == task.Scheduled {
		reads = append(reads, func() {
			if first, err := c.store.CountReadyBefore(ctx, t); !u.note("how many tasks go first", err) {
				before, f.Keys = first.Tasks, first.Keys
			}
		}, func() { c.readTaskLimits(ctx, f, u) }, func() { c.readPausedNodes(ctx, f, u) })
	}
	calls.Do(reads...)
	if t.State == task.Scheduled {
		f.Ahead = sum(f.Ahead, before)
	}
	return running
}

// readPausedNodes reads which nodes get no tasks of the queue, as somebody has paused the queue that they have for it.
func (c *Control) readPausedNodes(ctx context.Context, f *why.TaskFacts, u *unread) {
	if f.Task.Reach == "" || c.queues == nil {
		return
	}
	var names []string
	for _, w := range f.Workers {
		if w.Alive && slices.Contains(w.Queues, f.Queue) {
			names = append(names, task.NodeQueue(f.Queue, w.ID))
		}
	}
	standings, err := c.queues.Standings(ctx, names)
	u.note("the queues of nodes", err)
	for _, s := range standings {
		if _, node := task.SplitNodeQueue(s.Name); s.Paused {
			f.PausedNodes = append(f.PausedNodes, node)
		}
	}
}

// readTaskLimits reads how the limits stand under which a task waits.
func (c *Control) readTaskLimits(ctx context.Context, f *why.TaskFacts, u *unread) {
	if len(f.Task.Limits) == 0 {
		return
	}
	standings, err := c.store.Rules.Standings(ctx, f.Task.Limits, f.Task.Cost)
	if u.note("the limits of the task", err) {
		return
	}
	for _, s := range standings {
		f.Limits = append(f.Limits, whyLimit(s))
	}
}

// whyLimit is how a limit stands, in the words of package why.
func whyLimit(s rules.Standing) why.Limit {
	return why.Limit{
		Name: s.Limit, Of: s.Set.Name.String(), Rule: s.Set.Rule, Note: s.Set.Note, By: s.Set.Pauser,
		Held: s.Held, Holders: s.Holders, Token: s.Token,
	}
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

// sum adds a number to one that may not be known; below 0, the number is not known.
func sum(known *int, n int) *int {
	if known == nil || n < 0 {
		return nil
	}
	n += *known
	return &n
}

// taskNotFound is the error for a task that is gone.
func taskNotFound(ref task.Ref) error {
	return task.Errorf(task.CodeTaskNotFound, "no task %q in namespace %q", ref.ID, ref.Namespace)
}
