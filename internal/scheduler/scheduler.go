// Package scheduler leads partitions: it creates the tasks of ticks, moves due tasks into asynq's queues, and recovers
// what was lost.
//
// A node leads the partitions whose leases it holds; balance.go decides which. A term (term.go) is the time from acquiring
// a lease until it is released or lost. During a term, these loops run:
//
//   - tick (ticks.go) creates the tasks of schedules that are due.
//   - dispatch (dispatch.go) claims due tasks and enqueues their deliveries, as many as package handover grants (plan.go).
//     Neither of the two polls: they sleep until the first task or schedule is due, and are woken when something earlier
//     arrives.
//   - watch (watch.go) ends lost attempts, and delivers lost deliveries again. deaths.go tells which tasks kill their workers, and
//     losses.go what the log says of them.
//   - maintain (maintenance.go) deletes finished tasks whose retention is over.
//   - pack (pack.go) keeps the index by which lists find tasks.
//   - tend, in the term of partition 0 alone, does what asynq's servers would do for their queues.
//   - chores, in the term of partition 0 alone, does what one node does for all (Options.Chores).
//
// Besides, whatever a node leads, contact.go probes Redis, so that an outage or a jump of its clock is nobody's death, peek.go looks for wake-ups
// that were missed, and vacant.go leads partitions that stood free for long.
//
// Every write of a leader to DTS's own keys carries the lease's fence, so a leader that has lost its lease without knowing
// it changes none of them. Its writes to asynq carry none. They are harmless when repeated, because a delivery is named
// after its attempt.
package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/tracing"
)

// Members is what the scheduler knows of the other nodes: package cluster's Registry.
type Members interface {
	// View is what the last heartbeat saw.
	View() cluster.View
	// Watch returns a channel that is signalled when nodes come, go or begin to drain, and a function that stops it.
	Watch() (<-chan struct{}, func())
	// Nodes reads the list of nodes, with those that have died. Error: *task.Error with CodeUnavailable.
	Nodes(ctx context.Context) ([]cluster.Node, error)
}

// Options says what to schedule with. All of it is needed but Chores and Tracer.
type Options struct {
	DB       *redisx.DB
	Store    *store.Store
	Queues   *queue.Queues
	Members  Members
	Node     string         // this node's id
	LeaseTTL time.Duration  // upper bound of the time without a leader after a crash
	Keep     partition.Keep // what is kept of the past, over all partitions
	HandOver int            // deliveries that may wait in a queue for each slot of its living workers
	// Unhurried means that Redis loses no message: what is only a net under lost ones happens once a day.
	Unhurried bool
	// Chores does what one node does for all, until ctx ends. It is called while this node leads partition 0. For a
	// moment, two nodes may do it. nil: there is nothing to do.
	Chores  func(ctx context.Context, told Told)
	Metrics *telemetry.Metrics
	Tracer  *tracing.Tracer // nil: hand-overs have no spans
	Log     *slog.Logger
}

// Told tells who does the chores what to do at once.
type Told struct {
	Status <-chan struct{} // somebody reads the status
	Bulk   <-chan struct{} // there is a new bulk action
	Look   <-chan task.Ref // a schedule may need somebody, or no longer does
}

// Scheduler leads its share of the partitions.
type Scheduler struct {
	o           Options
	pace        pace
	cache       cacheSize
	leases      []*lease.Lease  // by partition
	wakes       []chan struct{} // by partition: claim again
	roomWakes   []chan struct{} // by partition: waiting tasks may be claimed
	tickWakes   []chan struct{} // by partition: read due schedules again
	followWakes []chan struct{} // by partition: read the outbox again
	evictWakes  []chan struct{} // by partition: Redis is almost full
	rowWakes    []chan struct{} // by partition: pack rows of the index of lists
	staleRows   []chan []int    // by partition: segments of that index with many rows that are out of date
	limitWakes  chan struct{}   // the limits have changed
	limitsRead  chan struct{}   // closed when the planner knows the limits, or nobody can read them
	limitsKnown sync.Once
	lookWakes   []chan struct{} // by partition: look after runs and deliveries
	asked       chan struct{}   // somebody reads the status of the installation
	bulk        chan struct{}   // there is a new bulk action
	look        chan task.Ref   // schedules that may need somebody, or no longer do; of too many some are left out
	freed       chan struct{}   // some node released a lease
	listener    *partition.Listener
	ready       chan struct{}
	heard       sync.Once

	plan    *plan
	limits  *limits.Limits
	contact *contact
	losses  *losses
	turns   turns
	packing chan struct{} // full while a term packs: the others wait, so that Redis serves tasks meanwhile

	mu  sync.Mutex
	led map[int]*partition.Leader
}

// New prepares a scheduler.
func New(o Options) *Scheduler {
	s := &Scheduler{
		o: o, pace: defaultPace, cache: defaultCache,
		freed: make(chan struct{}, 1), asked: make(chan struct{}, 1), bulk: make(chan struct{}, 1),
		look: make(chan task.Ref, 1000), ready: make(chan struct{}), led: make(map[int]*partition.Leader),
		losses: newLosses(), limitWakes: make(chan struct{}, 1), limitsRead: make(chan struct{}),
		packing: make(chan struct{}, 1),
	}
	if o.Unhurried {
		s.pace = unhurriedPace
	}
	s.plan = newPlan(s)
	s.limits = limits.New(o.Store.Layout, o.Queues)
	s.contact = s.newContact(o.Store.Tasks.RunLease())
	s.listener = o.Store.Partitions.NewListener(partition.Callbacks{
		Connected: s.connected, Freed: func() { signal(s.freed) },
		Wheel: s.wake, Schedules: s.wakeTick, Outbox: s.wakeFollow, Room: s.hasRoom,
		Rows: func(p int) { signal(s.rowWakes[p]) }, Stale: s.toldStale, Bulk: func() { signal(s.bulk) }, Status: func() { signal(s.asked) },
		Look: s.toldLook, Slots: s.slotsFreed, Settle: s.limitWoken, Limits: func() { signal(s.limitWakes) },
	})
	for p := range o.Store.Partitions.Count() {
		s.leases = append(s.leases, lease.New(lease.Options{
			DB: o.Store.Vital, Key: o.Store.Partitions.LeaseKey(p), Owner: o.Node, TTL: o.LeaseTTL, Log: o.Log,
			Channel: string(o.Store.Keys.Leaders()), Message: partition.LeaseFreed,
		}))
		s.wakes = append(s.wakes, make(chan struct{}, 1))
		s.roomWakes = append(s.roomWakes, make(chan struct{}, 1))
		s.tickWakes = append(s.tickWakes, make(chan struct{}, 1))
		s.followWakes = append(s.followWakes, make(chan struct{}, 1))
		s.evictWakes = append(s.evictWakes, make(chan struct{}, 1))
		s.rowWakes = append(s.rowWakes, make(chan struct{}, 1))
		s.staleRows = append(s.staleRows, make(chan []int, 4))
		s.lookWakes = append(s.lookWakes, make(chan struct{}, 1))
	}
	return s
}

// Run leads until ctx ends; then it releases its leases and returns nil.
func (s *Scheduler) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.listener.Run(ctx) })
	g.Go(func() error { return s.watchMembers(ctx) })
	g.Go(func() error { return s.peek(ctx) })
	g.Go(func() error { return s.tellLosses(ctx) })
	g.Go(func() error { return s.watchLimits(ctx) })
	if !s.o.Unhurried {
		g.Go(func() error { return s.contact.run(ctx) })
	}
	g.Go(func() error { return s.balance(ctx) })
	err := g.Wait()
	s.plan.wait()
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

// Ready is closed when the scheduler hears of leases that are free: it leads its share from then on.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Led lists the partitions this node leads, in ascending order.
func (s *Scheduler) Led() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	led := make([]int, 0, len(s.led))
	for p := range s.leases {
		if s.led[p] != nil {
			led = append(led, p)
		}
	}
	return led
}

// Leads reports whether this node leads a partition.
func (s *Scheduler) Leads(partition int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.led[partition] != nil
}

// Depths counts what is in each of the partitions this node leads. Error: why something is left out or unknown, joined.
func (s *Scheduler) Depths(ctx context.Context) (map[int]partition.Depth, error) {
	return s.o.Store.Partitions.Depths(ctx, s.Led())
}

// watchMembers has backlogs looked at again when workers come or go, until ctx ends.
func (s *Scheduler) watchMembers(ctx context.Context) error {
	changed, stop := s.o.Members.Watch()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			s.plan.workersChanged()
			for _, wake := range s.rowWakes {
				signal(wake)
			}
		}
	}
}

// connected is called when the scheduler has subscribed to the channel of all leaders; earlier messages may be lost.
func (s *Scheduler) connected() {
	s.heard.Do(func() { close(s.ready) })
	signal(s.freed)
	signal(s.limitWakes)
	s.plan.workersChanged()
}

func (s *Scheduler) hasRoom(queue string) {
	s.plan.tell(func(h *handover.Planner, now time.Time) { h.HasRoom(queue, now) })
}

func (s *Scheduler) wakeTick(partition int) { signal(s.tickWakes[partition]) }

func (s *Scheduler) wakeFollow(partition int) { signal(s.followWakes[partition]) }

func (s *Scheduler) wake(partition int) { signal(s.wakes[partition]) }

// signal sends to a channel with a buffer of one, unless a signal is pending already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
