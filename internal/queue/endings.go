package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// endingsLimit is the number of endings that may wait to be settled before Await blocks.
const endingsLimit = 4096

var (
	// ErrDeadLetter ends a delivery whose task used up its attempts. asynq's tools show it as a dead letter.
	ErrDeadLetter = errors.New("the task failed and has no attempts left")
	// ErrGiveBack ends a delivery that was not handled and returns to its queue at once.
	ErrGiveBack = errors.New("the delivery was not handled")
)

// End settles a delivery that Take returned. If err is nil, the delivery is deleted; for ErrDeadLetter, it becomes a dead
// letter with the text of err; for ErrGiveBack, it returns to its queue, where it is the next to be taken; for any other
// error, it returns after a second. End does not wait for Redis: Run settles deliveries, together with all that have ended
// meanwhile, until Redis answers.
func (c *Consumer) End(t *Taken, err error) {
	if err == nil || errors.Is(err, ErrDeadLetter) || errors.Is(err, ErrGiveBack) {
		c.ends.add(ending{t, err})
		return
	}
	time.AfterFunc(retryInterval, func() { c.ends.add(ending{t, err}) })
}

// ending is a delivery that has ended, and how.
type ending struct {
	*Taken
	err error
}

// endings are what has ended and is not settled yet.
type endings struct {
	mu      sync.Mutex
	waiting []ending
	parked  []ending      // could not be settled and wait for another try
	added   chan struct{} // signalled when there are any; capacity 1
	room    chan struct{} // signalled when some were settled; capacity 1
}

func newEndings() *endings {
	return &endings{added: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (e *endings) add(ended ...ending) {
	e.mu.Lock()
	e.waiting = append(e.waiting, ended...)
	e.mu.Unlock()
	notify(e.added)
}

// take removes and returns all that are not parked.
func (e *endings) take() []ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.waiting
	e.waiting = nil
	return all
}

// park keeps endings until unpark is called, so that they do not hold up others.
func (e *endings) park(ended []ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parked = append(e.parked, ended...)
}

// unpark has all that are parked settled now.
func (e *endings) unpark() {
	e.mu.Lock()
	parked := e.parked
	e.parked = nil
	e.mu.Unlock()
	e.add(parked...)
}

// awaitRoom blocks until fewer than endingsLimit endings wait. It returns an error only if ctx ends.
func (e *endings) awaitRoom(ctx context.Context) error {
	for !e.hasRoom() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.room:
		}
	}
	return nil
}

func (e *endings) hasRoom() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)+len(e.parked) < endingsLimit
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// trouble is what settleEnds knows of a queue in which it could not settle deliveries.
type trouble struct {
	failures int // in a row
	until    time.Time
}

// settleEnds settles deliveries until ctx ends: in each turn all that have ended during the turn before, but for those of
// queues in which that has just failed. These have a pause, which grows with each failure.
func (c *Consumer) settleEnds(ctx context.Context) {
	troubles := make(map[string]trouble) // by queue
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.ends.added:
		}
		start := clock.Now()
		var ended, early []ending
		for _, e := range c.ends.take() {
			if start.Before(troubles[e.queue].until) {
				early = append(early, e)
			} else {
				ended = append(ended, e)
			}
		}
		c.ends.park(early)
		left, err := c.settle(ctx, ended)
		for _, e := range ended {
			if !slices.ContainsFunc(left, func(l ending) bool { return l.queue == e.queue }) {
				delete(troubles, e.queue)
			}
		}
		c.note(ctx, err, c.postpone(troubles, left), "cannot settle deliveries; trying again")
		notify(c.ends.room)
	}
}

// postpone parks what could not be settled, and has it tried again after a pause for each queue. It returns the least number
// of failures in a row of these queues; 0 for none.
func (c *Consumer) postpone(troubles map[string]trouble, left []ending) (failures int) {
	c.ends.park(left)
	queues := make(map[string]bool)
	for _, e := range left {
		if queues[e.queue] {
			continue
		}
		queues[e.queue] = true
		t := trouble{failures: troubles[e.queue].failures + 1}
		pause := pauseAfter(t.failures)
		t.until = clock.Now().Add(pause)
		troubles[e.queue] = t
		time.AfterFunc(pause, c.ends.unpark)
		if failures == 0 || t.failures < failures {
			failures = t.failures
		}
	}
	return failures
}

// settle settles deliveries, each queue by itself. It returns those that Redis may not have settled, and an error if there
// are any.
func (c *Consumer) settle(ctx context.Context, ended []ending) (left []ending, failure error) {
	var done, dead, back []ending
	for _, e := range ended {
		switch {
		case e.err == nil:
			done = append(done, e)
		case errors.Is(e.err, ErrDeadLetter):
			dead = append(dead, e)
		default:
			back = append(back, e)
		}
	}
	for _, kind := range []struct {
		ended []ending
		do    func(context.Context, [][]ending) []error
	}{{done, c.deleteDone}, {dead, c.archiveDead}, {back, c.giveBack}} {
		groups := inQueues(kind.ended)
		for i, err := range kind.do(ctx, groups) {
			if err != nil {
				left, failure = append(left, groups[i]...), err
				continue
			}
			c.release(groups[i])
		}
	}
	return left, failure
}

// release removes settled deliveries from those that are held.
func (c *Consumer) release(settled []ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range settled {
		delete(c.held, e.Taken)
	}
}

// inQueues groups endings by queue, in groups that one script can take, in their order.
func inQueues(ended []ending) [][]ending {
	var groups [][]ending
	open := map[string]int{} // index of the group of a queue that is not full
	for _, e := range ended {
		i, ok := open[e.queue]
		if !ok || len(groups[i]) == batchLimit {
			i = len(groups)
			open[e.queue] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}

func (c *Consumer) deleteDone(ctx context.Context, groups [][]ending) []error {
	calls := make([]lua.Done, len(groups))
	for i, group := range groups {
		k, day := lua.AsynqQueue(group[0].queue), today()
		calls[i] = lua.Done{Active: k.Active(), Deadline: k.Deadline(), ProcessedToday: k.ProcessedToday(day), Processed: k.Processed(), Ends: nil}
		for _, e := range group {
			calls[i].Ends = append(calls[i].Ends, lua.DoneEnd{ID: e.id, Lock: e.message.uniqueKey})
		}
	}
	return errorsOf(redisx.RunEach[lua.DoneReply](ctx, c.o.DB, calls))
}

func (c *Consumer) archiveDead(ctx context.Context, groups [][]ending) []error {
	calls := make([]lua.Archive, len(groups))
	for i, group := range groups {
		k, day := lua.AsynqQueue(group[0].queue), today()
		calls[i] = lua.Archive{
			Active: k.Active(), Deadline: k.Deadline(), Archived: k.Archived(), ProcessedToday: k.ProcessedToday(day),
			Processed: k.Processed(), FailedToday: k.FailedToday(day), Failed: k.Failed(), Letters: nil,
		}
		for _, e := range group {
			letter, err := withError(e.encoded, e.err.Error(), clock.Now())
			if err != nil { // not a message at all: nothing can be added to it
				letter = []byte(e.encoded)
			}
			calls[i].Letters = append(calls[i].Letters, lua.ArchiveLetter{ID: e.id, Msg: string(letter)})
		}
	}
	return errorsOf(redisx.RunEach[lua.ArchiveReply](ctx, c.o.DB, calls))
}

func (c *Consumer) giveBack(ctx context.Context, groups [][]ending) []error {
	calls := make([]lua.GiveBack, len(groups))
	for i, group := range groups {
		k := lua.AsynqQueue(group[0].queue)
		name, _ := names(c.o.Prefix).queue(group[0].queue)
		calls[i] = lua.GiveBack{Pending: k.Pending(), Active: k.Active(), Deadline: k.Deadline(), Arrivals: c.keys.Arrivals(name), Ids: nil}
		for _, e := range group {
			calls[i].Ids = append(calls[i].Ids, e.id)
		}
	}
	return errorsOf(redisx.RunEach[lua.GiveBackReply](ctx, c.o.DB, calls))
}

func errorsOf[R any](results []redisx.Result[R]) []error {
	all := make([]error, len(results))
	for i, r := range results {
		all[i] = r.Err
	}
	return all
}

// today is the day of asynq's daily counters.
func today() string { return clock.Now().UTC().Format(time.DateOnly) }

// close settles what has ended, gives back what is still held, and removes the consumer from asynq's list of servers, all
// within closeBudget. What it cannot settle is found by the leaders.
func (c *Consumer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeBudget)
	defer cancel()
	c.ends.unpark()
	_, err := c.settle(ctx, c.ends.take())
	if err == nil {
		var rest []ending
		for _, t := range c.holding() {
			rest = append(rest, ending{t, ErrGiveBack})
		}
		_, err = c.settle(ctx, rest)
	}
	if err == nil {
		err = c.removeRecord(ctx)
	}
	if err != nil {
		c.log.Warn("cannot give deliveries back; leaving them to the leaders", "error", err)
	}
}
