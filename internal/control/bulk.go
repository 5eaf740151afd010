package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/task"
)

// Bulk is a bulk action: something that is done with all tasks that match a filter.
type Bulk = bulks.Bulk

// CodeBulkNotFound is the code of errors for a bulk action that does not exist.
const CodeBulkNotFound = bulks.CodeNotFound

// BulkAction is what a bulk action does with each task.
type BulkAction string

// The actions.
const (
	BulkRetry   BulkAction = "retry"   // runs tasks again that have ended
	BulkCancel  BulkAction = "cancel"  // ends tasks that wait, and asks the workers of others to stop them
	BulkForget  BulkAction = "forget"  // deletes tasks that have ended
	BulkRequeue BulkAction = "requeue" // moves tasks that wait to another queue
)

// SpreadLimit is the longest time over which retries are spread.
const SpreadLimit = 24 * time.Hour

// bulkStates are the states of the tasks with which each action can be done; the first ones are meant if the filter
// names none.
var bulkStates = map[BulkAction]struct{ usual, possible []task.State }{
	BulkRetry:   {[]task.State{task.Failed}, []task.State{task.Succeeded, task.Failed, task.Cancelled}},
	BulkCancel:  {waitingStates, []task.State{task.Scheduled, task.Queued, task.Running}},
	BulkForget:  {nil, []task.State{task.Succeeded, task.Failed, task.Cancelled}},
	BulkRequeue: {waitingStates, waitingStates},
}

var waitingStates = []task.State{task.Scheduled, task.Queued}

// BulkRequest asks for a bulk action. The filter's namespace is that of the caller, which may be EveryNamespace.
type BulkRequest struct {
	Action  BulkAction
	Filter  TaskFilter
	ToQueue string        // of a requeue
	Spread  time.Duration // of a retry: over which time the tasks become due; 0: at once
	Note    string        // why, for those who ask later
	// AsOf limits the action to tasks that matched at that time, by the clock of Redis. A preview returns it. Zero is now.
	AsOf time.Time
}

// BulkPreview is what a bulk action would do.
type BulkPreview struct {
	Total    int
	About    bool // the total is an estimate
	Examples []task.Task
	AsOf     time.Time
	Missing  string // which tasks it would not find; "" for none
}

// bulkExamples is how many examples a preview has at most.
const bulkExamples = 10

// PreviewBulk says what a bulk action would do now. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) PreviewBulk(ctx context.Context, who Caller, r BulkRequest) (BulkPreview, error) {
	if _, err := c.begin(ctx, who, "previewBulk"); err != nil {
		return BulkPreview{}, err
	}
	r, err := c.checkBulk(ctx, who, r)
	if err != nil {
		return BulkPreview{}, err
	}
	counted, examples, err := c.store.Listing.CountAndList(ctx, r.Filter, bulkExamples)
	return BulkPreview{
		Total: counted.Tasks, About: counted.About, Examples: examples, AsOf: r.AsOf, Missing: counted.Missing,
	}, err
}

// StartBulk starts a bulk action. The leader of partition 0 runs it. A caller with the Key of an earlier request gets
// the action that this has started, as long as it is kept. Errors: CodeInvalid, CodeUnavailable, CodeOverloaded.
func (c *Control) StartBulk(ctx context.Context, who Caller, r BulkRequest) (Bulk, error) {
	p, err := c.begin(ctx, who, "startBulk", who.Ref(""))
	if err != nil {
		return Bulk{}, err
	}
	defer p.leave()
	if r, err = c.checkBulk(ctx, who, r); err != nil {
		return Bulk{}, err
	}
	counted, err := c.store.Listing.Count(ctx, r.Filter)
	if err != nil {
		return Bulk{}, err
	}
	if counted.Unbuilt {
		return Bulk{}, task.Errorf(task.CodeUnavailable, "the action would miss %s", counted.Missing)
	}
	now, err := c.store.Now(ctx, 0)
	if err != nil {
		return Bulk{}, err
	}
	return c.store.Bulks.Create(ctx, Bulk{
		ID: c.bulkID(who), Action: string(r.Action), Filter: r.Filter,
		ToQueue: r.ToQueue, Spread: r.Spread, Note: r.Note,
		Name: who.Name, Verified: who.Verified, Address: who.Address, State: bulks.Running,
		Total: counted.Tasks, About: counted.About, AsOf: r.AsOf, StartedAt: now,
	})
}

// bulkID is the id of the bulk action that a caller starts, which follows from the key of the request if it has one.
func (c *Control) bulkID(who Caller) string {
	if who.Key == "" {
		return c.store.Tasks.NewID(task.DefaultNamespace)
	}
	sum := sha256.Sum256([]byte(who.Key))
	return base32.StdEncoding.EncodeToString(sum[:15]) // 24 characters, without padding
}

// GetBulk returns a bulk action. Errors: CodeBulkNotFound, CodeUnavailable.
func (c *Control) GetBulk(ctx context.Context, who Caller, id string) (Bulk, error) {
	if _, err := c.begin(ctx, who, "getBulk"); err != nil {
		return Bulk{}, err
	}
	return c.store.Bulks.Get(ctx, id)
}

// ListBulks returns the newest bulk actions, the newest first. Error: CodeUnavailable.
func (c *Control) ListBulks(ctx context.Context, who Caller) ([]Bulk, error) {
	if _, err := c.begin(ctx, who, "listBulks"); err != nil {
		return nil, err
	}
	all, err := c.store.Bulks.List(ctx)
	return slices.DeleteFunc(all, func(b Bulk) bool { return !who.Covers(b.Filter.Namespace) }), err
}

// StopBulk has a bulk action end with the piece that is under way. Errors: CodeBulkNotFound, CodeUnavailable.
func (c *Control) StopBulk(ctx context.Context, who Caller, id string) (Bulk, error) {
	if _, err := c.begin(ctx, who, "stopBulk"); err != nil {
		return Bulk{}, err
	}
	return c.store.Bulks.Stop(ctx, id)
}

// ForgetTask deletes a task that has ended, before its retention is over. Errors: CodeTaskNotFound, CodeNotFinished.
func (c *Control) ForgetTask(ctx context.Context, who Caller, id string) error {
	if _, err := c.begin(ctx, who, "forgetTask", who.Ref(id)); err != nil {
		return err
	}
	t, err := c.store.Tasks.Find(ctx, who.Ref(id))
	if err != nil {
		return err
	}
	forgotten, err := c.store.Tasks.Forget(ctx, t.Ref, t.FinishedAt, c.forgetting)
	if err == nil && !forgotten {
		return task.Errorf(task.CodeNotFinished, "task %q has not ended yet: it is %s", id, t.State)
	}
	return err
}

// checkBulk returns the request with its filter narrowed to tasks that matched as of its time. The action does not
// change the order of these tasks. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) checkBulk(ctx context.Context, who Caller, r BulkRequest) (BulkRequest, error) {
	states, known := bulkStates[r.Action]
	if !known {
		return r, task.Invalid("action", "must be retry, cancel, forget or requeue")
	}
	if len(r.Filter.States) == 0 {
		r.Filter.States = states.usual
	}
	if len(r.Filter.States) == 0 {
		return r, task.Invalid("filter.state", "say which tasks to %s: succeeded, failed or cancelled ones", r.Action)
	}
	for _, state := range r.Filter.States {
		if !slices.Contains(states.possible, state) {
			return r, task.Invalid("filter.state", "%s is possible with tasks that are %s, and not with those that are %s",
				r.Action, orOf(states.possible), state)
		}
	}
	if err := cmp.Or(checkNote(r.Note), r.checkQueue(), r.checkSpread()); err != nil {
		return r, err
	}
	now, err := c.store.Now(ctx, 0)
	if err != nil {
		return r, err
	}
	if r.AsOf.IsZero() || r.AsOf.After(now) { // what it changes itself must not match
		r.AsOf = now
	}
	r.Filter.Namespace = who.Namespace
	until, by := &r.Filter.Created.Until, index.Due
	if r.Filter.States[0].Final() {
		until, by = &r.Filter.Ended.Until, index.Ended
	}
	if last := r.AsOf.Add(time.Millisecond); until.IsZero() || last.Before(*until) {
		*until = last
	}
	r.Filter.Sort = index.Order{By: by, Asc: true}
	return r, nil
}

func (r BulkRequest) checkQueue() error {
	switch {
	case r.Action != BulkRequeue && r.ToQueue != "":
		return task.Invalid("to_queue", "only requeue moves tasks to another queue")
	case r.Action == BulkRequeue && r.ToQueue == "":
		return task.Invalid("to_queue", "say to which queue the tasks move")
	case r.Action == BulkRequeue:
		return task.ValidateName("to_queue", r.ToQueue)
	}
	return nil
}

func (r BulkRequest) checkSpread() error {
	switch {
	case r.Spread == 0:
		return nil
	case r.Action != BulkRetry:
		return task.Invalid("spread", "only a retry can be spread")
	case r.Spread < 0:
		return task.Invalid("spread", "must not be negative")
	case r.Spread > SpreadLimit:
		return task.Invalid("spread", "must be at most %s", SpreadLimit)
	}
	return nil
}

// orOf joins states with "or".
func orOf(states []task.State) string {
	var names []string
	for _, s := range states {
		names = append(names, string(s))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
