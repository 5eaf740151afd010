package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	batchLimit = 64 // deliveries in one script: Redis does nothing else meanwhile

	lookInterval  = 2 * time.Second        // a look at the queues comes after this time without a wake-up, or up to twice this time
	lookLimit     = 64                     // queues at which a look looks, so that its cost does not grow with their number
	retryInterval = time.Second            // wait before a delivery that could not be handled returns to its queue
	firstPause    = 200 * time.Millisecond // wait after a failed command
	longestPause  = 2 * time.Second        // wait after several failed commands
	closeBudget   = 2 * time.Second        // how long Run tries to settle what is left when its context has ended
)

// ConsumerOptions describe a consumer. DB, Queues and Log are required. Deliveries of other types than Types are left to other
// consumers; none means that all are taken.
type ConsumerOptions struct {
	DB          *redisx.DB // open until Run has returned
	Prefix      string     // prefix of the installation; "" means "dts"
	Node        string     // this node's id
	Name        string     // for logs
	Concurrency int        // most deliveries handled at once, for asynq's page of servers
	// Queues are weights by name: a queue of weight 6 gets twice the share of one of weight 3. With each comes the queue of
	// what was handed over to this node alone.
	Queues map[string]int
	// Small are queues that a larger pool of the node serves, too: it takes all that was handed over to this node alone.
	Small     map[string]bool
	Unhurried bool     // Redis loses no message: look at the queues once a day, and beat once an hour while a delivery is held
	Types     []string // of the tasks that are run here
	// Guest means that a client of the API named the queues: asynq lists one of them when it gets a delivery, and not
	// for the name alone.
	Guest bool
	Log   *slog.Logger
}

// Consumer takes deliveries from its queues, holds them while they are handled, and settles them. In asynq's tools it is a
// server. It is safe for concurrent use; Await and Take are meant for one goroutine.
type Consumer struct {
	o        ConsumerOptions
	log      *slog.Logger
	keys     lua.Keyspace
	types    string // as the scripts take them
	sources  *sources
	ends     *endings
	record   serverRecord
	ready    chan struct{} // closed, by becomeReady, when arrivals wake the consumer
	hasTaken chan struct{} // wakes beats; its buffer of one merges several signals
	stopped  atomic.Bool   // see Quiesce

	becomeReady sync.Once

	errands redisx.Errands // takes and looks

	beating sync.Mutex // held through a beat, so that the last one to begin writes last
	showed  bool       // deliveries may be in the list of what this server works on; guarded by beating

	mu     sync.Mutex
	held   map[*Taken]struct{} // taken and not settled
	takes  int                 // calls of Take that have begun and not returned
	cordon chan struct{}       // closed when the consumer may take again; nil: it may now
}

// Taken is a delivery that a consumer has taken.
type Taken struct {
	Ref     task.Ref
	Attempt int
	Queue   string // of the task
	Placed  bool   // it was handed over to this node alone
	Slots   int    // that the task holds while it runs

	holds   int // how many of these it has; guarded by the mutex of the consumer
	id      string
	queue   string // asynq's name
	message message
	encoded string    // the message in asynq's encoding
	at      time.Time // when it was taken
}

// NewConsumer returns a consumer that takes nothing until Take is called.
func NewConsumer(o ConsumerOptions) *Consumer {
	log := o.Log.With("pool", o.Name)
	listed := make(map[string]int, len(o.Queues))
	weights := make(map[string]int, 2*len(o.Queues))
	for name, weight := range o.Queues {
		listed[names(o.Prefix).asynq(name)] = weight
		if !o.Small[name] {
			weights[names(o.Prefix).asynq(task.NodeQueue(name, o.Node))] = weight
		}
	}
	maps.Copy(weights, listed)
	return &Consumer{
		o: o, log: log, keys: lua.NewKeyspace(o.Prefix, o.DB.Number()), types: lua.TypesText(o.Types), sources: newSources(weights), ends: newEndings(),
		record: newServerRecord(o.Concurrency, listed), ready: make(chan struct{}), hasTaken: make(chan struct{}, 1),
		held: make(map[*Taken]struct{}), errands: redisx.Errands{DB: o.DB, Patience: redisx.Patience},
	}
}

// Ready is closed when the queues are in asynq's list, but for those of a Guest, and arrivals wake the consumer.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// Quiesce tells asynq's tools that the consumer takes no more deliveries. The caller stops calling Take.
func (c *Consumer) Quiesce() { c.stopped.Store(true) }

// Run listens for arrivals, extends the leases of the deliveries that are held, shows them to asynq's tools, and settles
// those that have ended, until ctx ends. Then it settles what has ended by then, gives back the rest, and returns nil. The
// caller must have stopped calling Take.
func (c *Consumer) Run(ctx context.Context) error {
	var background errgroup.Group
	background.Go(func() error { c.beats(ctx); return nil })
	background.Go(func() error { c.settleEnds(ctx); return nil })
	background.Go(func() error { return c.listen(ctx) })
	err := background.Wait()
	c.errands.Wait() // what is taken late goes back, too
	c.close(context.WithoutCancel(ctx))
	return err
}

// listen marks queues when something arrives in them.
func (c *Consumer) listen(ctx context.Context) error {
	if err := c.publishQueues(ctx); err != nil {
		return err
	}
	listener, channels := c.arrivals(ctx)
	return c.o.DB.Listen(ctx, listener, channels...)
}

// arrivals returns the channels of arrivals, and the listener to them.
func (c *Consumer) arrivals(ctx context.Context) (redisx.Listener, []string) {
	own := string(c.keys.Worker(c.o.Node))
	queues := make(map[string]string, len(c.o.Queues)) // asynq's name by channel
	for name := range c.o.Queues {
		for _, name := range []string{name, task.NodeQueue(name, c.o.Node)} {
			queues[string(c.keys.Arrivals(name))] = names(c.o.Prefix).asynq(name)
		}
	}
	channels := append(slices.Collect(maps.Keys(queues)), own)
	confirmed := make(map[string]bool, len(channels)) // on the present connection
	return redisx.Listener{
		Connected: func(channel string) {
			if channel == own { // messages may have been missed
				c.sources.markAll()
				c.lookAt(ctx, c.sources.own()) // which are mostly empty: a take shares its slots among those that are marked
			} else {
				c.sources.mark(queues[channel])
			}
			confirmed[channel] = true
			if len(confirmed) == len(channels) {
				c.becomeReady.Do(func() { close(c.ready) })
			}
		},
		Disconnected: func() { clear(confirmed) },
		Message: func(channel, message string) {
			if channel != own {
				c.sources.markTold(queues[channel])
			} else if name := names(c.o.Prefix).asynq(message); c.sources.markAlone(name) {
				c.tell(ctx, name)
			}
		},
	}, channels
}

// SetBusy tells the consumer that all slots of its caller are in use, until SetFree. Meanwhile the other workers are woken for what this one
// was woken for.
func (c *Consumer) SetBusy(ctx context.Context) {
	for _, name := range c.sources.setBusy() {
		c.tell(ctx, name)
	}
}

// SetFree tells the consumer that there is a free slot.
func (c *Consumer) SetFree() { c.sources.setFree() }

// SetCordoned says whether the consumer takes nothing: then Await waits. Deliveries that it has taken are handled.
func (c *Consumer) SetCordoned(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case is && c.cordon == nil:
		c.cordon = make(chan struct{})
	case !is && c.cordon != nil:
		close(c.cordon)
		c.cordon = nil
	}
}

// Held returns how many deliveries the consumer has taken that are not settled. isLast says that it is cordoned, and no
// call of Take is under way that may add some.
func (c *Consumer) Held() (n int, isLast bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held), c.cordon != nil && c.takes == 0
}

// Placed returns how many slots the deliveries hold, by queue, that the consumer has taken and that were handed over to
// its node alone; nil for none. Of one that waits for slots, those count that it has.
func (c *Consumer) Placed() (placed map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.held {
		if t.Placed && t.holds > 0 {
			if placed == nil {
				placed = make(map[string]int, 1)
			}
			placed[t.Queue] += t.holds
		}
	}
	return placed
}

// SetHolds says how many slots a delivery has that was taken and waits for some. At first, it has all.
func (c *Consumer) SetHolds(t *Taken, slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.holds = slots
}

// beginTake notes a call of Take. It returns false if the consumer is cordoned.
func (c *Consumer) beginTake() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cordon != nil {
		return false
	}
	c.takes++
	return true
}

func (c *Consumer) endTake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes--
}

// cordoned returns a channel that is closed when the consumer may take again; nil if it may now.
func (c *Consumer) cordoned() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cordon
}

// tell wakes all workers of a queue. If it fails, the leader does so later.
func (c *Consumer) tell(ctx context.Context, asynqName string) {
	err := c.o.DB.Publish(ctx, string(c.keys.Arrivals(c.queueOf(asynqName))), "").Err()
	c.note(ctx, err, 1, "cannot wake the other workers of a queue")
}

// publishQueues adds the queues to asynq's list of queues, unless a client named them. It tries until it succeeds or
// ctx ends; then it returns nil.
func (c *Consumer) publishQueues(ctx context.Context) error {
	if c.o.Guest {
		return nil
	}
	for try := 1; ctx.Err() == nil; try++ {
		err := publish(ctx, c.o.DB, shared(c.sources.names()))
		c.note(ctx, err, try, "cannot list the queues in asynq; trying again")
		if err == nil {
			return nil
		}
		_ = clock.Sleep(ctx, pauseAfter(try))
	}
	return nil
}

// publish adds queues to asynq's list of queues.
func publish(ctx context.Context, db *redisx.DB, asynqNames []string) error {
	if _, err := redisx.Run(ctx, db, lua.ListQueues{Queues: lua.AsynqQueues, Names: asynqNames}); err != nil {
		return fmt.Errorf("listing queues in asynq: %w", err)
	}
	return nil
}

// Await blocks until one of the queues may hold a delivery. It returns an error only if ctx ends. While too many endings
// wait to be settled, it blocks as well, so that their number is bounded.
func (c *Consumer) Await(ctx context.Context) error {
	for {
		if err := c.awaitTurn(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil || c.sources.ready() {
			return ctx.Err()
		}
		timer := time.NewTimer(c.lookPause())
		select {
		case <-ctx.Done():
		case <-c.sources.arrived:
		case <-timer.C:
			c.look(ctx)
		}
		timer.Stop()
	}
}

// lookPause is the time until the next look at the queues.
func (c *Consumer) lookPause() time.Duration {
	if c.o.Unhurried {
		return 24 * time.Hour
	}
	return lookInterval + rand.N(lookInterval)
}

// awaitTurn waits while too many endings wait to be settled, and while the consumer is cordoned. Meanwhile the other
// workers are woken for what this one is woken for.
func (c *Consumer) awaitTurn(ctx context.Context) error {
	cordon := c.cordoned()
	if cordon == nil && c.ends.hasRoom() {
		return nil
	}
	c.SetBusy(ctx)
	defer c.SetFree()
	for ; cordon != nil; cordon = c.cordoned() {
		select {
		case <-cordon:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.ends.awaitRoom(ctx)
}

// queueOf returns DTS's name of a queue.
func (c *Consumer) queueOf(asynqName string) string {
	name, _ := names(c.o.Prefix).queue(asynqName)
	return name
}

// hold records that the consumer has deliveries, and returns those that are references. The others end as dead letters.
func (c *Consumer) hold(all []*Taken) []*Taken {
	var references, others []*Taken
	var reasons []error
	for _, t := range all { // before the beat, in another goroutine, can see them
		if err := t.read(); err != nil {
			others, reasons = append(others, t), append(reasons, err)
			continue
		}
		references = append(references, t)
	}
	c.mu.Lock()
	for _, t := range all {
		c.held[t] = struct{}{}
	}
	c.mu.Unlock()
	select {
	case c.hasTaken <- struct{}{}:
	default: // beats is told already
	}
	for i, t := range others {
		c.log.Warn("archiving a task of another asynq client", "queue", t.queue, "id", t.id, "error", reasons[i])
		c.End(t, fmt.Errorf("%w: %w", ErrDeadLetter, reasons[i]))
	}
	return references
}

// read decodes the delivery. Error: it is no reference.
func (t *Taken) read() (err error) {
	if t.message, err = decode(t.encoded); err != nil {
		return err
	}
	t.Slots = t.message.slots()
	t.holds = t.Slots
	t.Ref, t.Attempt, err = t.message.reference()
	return err
}

// note logs the first of several errors in a row; not after the end of ctx, and not if the error comes from an outage, which is logged once for
// all calls.
func (c *Consumer) note(ctx context.Context, err error, failures int, what string) {
	if err != nil && ctx.Err() == nil && failures == 1 && (c.o.DB.Link().Up() || isReply(err)) {
		c.log.Warn(what, "error", redisx.Advise(err))
	}
}

// isReply reports whether a server replied with an error: then it is not away, though another one of a cluster may be.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// pauseAfter returns how long to wait after so many failures in a row.
func pauseAfter(failures int) time.Duration {
	return min(firstPause<<min(failures-1, 10), longestPause)
}
