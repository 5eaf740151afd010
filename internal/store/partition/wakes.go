package partition

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// LeaseFreed is the message on the channel of leaders that says that a lease was released.
const LeaseFreed = "free"

// LimitsChanged is the message on that channel that says that the limits have changed.
const LimitsChanged = "limits"

// Other messages.
const (
	taskWake     = "task"     // to a partition's leader: a task became the first on the wheel
	scheduleWake = "schedule" // to a partition's leader: a schedule became the first that is due
	rowsWake     = "rows"     // to a partition's leader: some tasks are noted that need a row in the index of lists
	followWake   = "follow"   // to a partition's leader: the outbox has something new
	roomWake     = "room "    // to all leaders, with the name of a queue behind it: it has room for more deliveries
)

// Callbacks has the functions that a Listener calls, one at a time. All of them are required. Wheel, Schedules and
// Outbox are also called when the subscription to a partition is established, for the first time or again: messages
// before it may be lost.
type Callbacks struct {
	Connected func()                                    // the subscription to the channel of all leaders is established, for the first time or again
	Freed     func()                                    // a lease was released
	Wheel     func(partition int)                       // a task became the first on the wheel
	Schedules func(partition int)                       // a schedule became the first that is due
	Outbox    func(partition int)                       // the outbox has something new
	Rows      func(partition int)                       // some tasks are noted that need a row in the index of lists
	Stale     func(partition int, segments []int)       // of the index of lists: they have many rows that are out of date
	Room      func(queue string)                        // a queue has room again that had none for ready tasks
	Bulk      func()                                    // there is a new bulk action, which this node runs
	Status    func()                                    // somebody reads the status of the installation, which this node computes
	Limits    func()                                    // what limits allow has changed
	Slots     func(partition int, freed map[string]int) // tasks have ended that held slots of these limits
	Settle    func(partition int, limit string)         // the home of a limit may have slots, or wants some
	Look      func(schedule task.Ref)                   // a schedule may need somebody, or no longer does
}

// WakeCounts reads how often the leaders of partitions were woken so far, for the message that a Listener may have missed. It calls heard for the
// partitions of each server as soon as that has answered, from several goroutines. Error: those of the servers that did not answer, joined.
func (p *Partitions) WakeCounts(ctx context.Context, partitions []int, heard func(counts map[int]string)) error {
	keys := make([]string, len(partitions))
	for i, number := range partitions {
		keys[i] = string(p.o.Layout.Keys.Partition(number).Wakes())
	}
	var mu sync.Mutex
	var failures []error
	err := p.o.Layout.DB.EachServer(ctx, keys, func(_ redis.Cmdable, places []int) {
		some := make([]string, len(places))
		for k, i := range places {
			some[k] = keys[i]
		}
		values, err := p.o.Layout.DB.GetEach(ctx, some)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
			return
		}
		counts := make(map[int]string, len(places))
		for k, i := range places {
			counts[partitions[i]] = values[k]
		}
		heard(counts)
	})
	if err := errors.Join(append(failures, err)...); err != nil {
		return fmt.Errorf("reading how often leaders were woken: %w", err)
	}
	return nil
}

// Listener receives the wake-ups of the partitions that this node leads, and the messages to all leaders.
type Listener struct {
	callbacks  Callbacks
	leaders    string         // the channel of all leaders
	partitions map[string]int // by the channel of their leader
	keys       lua.Keyspace
	subscriber *redisx.Subscriber
}

// NewListener returns a listener that calls c. It leads no partition yet.
func (p *Partitions) NewListener(c Callbacks) *Listener {
	l := &Listener{callbacks: c, leaders: string(p.o.Layout.Keys.Leaders()), partitions: make(map[string]int), keys: p.o.Layout.Keys}
	for number := range p.Count() {
		l.partitions[l.channel(number)] = number
	}
	l.subscriber = p.o.Layout.DB.NewSubscriber(redisx.Listener{Connected: l.connected, Message: l.message}, l.leaders)
	return l
}

// Run listens until ctx ends; then it returns nil.
func (l *Listener) Run(ctx context.Context) error { return l.subscriber.Run(ctx) }

// Lead has the listener hear what concerns the leader of a partition, until Leave is called.
func (l *Listener) Lead(partition int) { l.subscriber.Add(l.channel(partition)) }

// Leave ends what Lead began.
func (l *Listener) Leave(partition int) { l.subscriber.Remove(l.channel(partition)) }

func (l *Listener) channel(partition int) string { return string(l.keys.Wake(partition)) }

func (l *Listener) connected(channel string) {
	if channel == l.leaders {
		l.callbacks.Connected()
	} else if p, known := l.partitions[channel]; known {
		l.callbacks.Wheel(p)
		l.callbacks.Schedules(p)
		l.callbacks.Outbox(p)
	}
}

func (l *Listener) message(channel, payload string) {
	if p, known := l.partitions[channel]; known {
		l.ofPartition(p, payload)
	} else if queue, ofRoom := strings.CutPrefix(payload, roomWake); ofRoom {
		l.callbacks.Room(queue)
	} else if payload == LeaseFreed {
		l.callbacks.Freed()
	} else if payload == LimitsChanged {
		l.callbacks.Limits()
	}
}

// ofPartition takes a message to the leader of a partition.
func (l *Listener) ofPartition(p int, payload string) {
	segments, stale := strings.CutPrefix(payload, layout.StaleWake)
	name, look := strings.CutPrefix(payload, layout.LookWake)
	freed, isFreed := strings.CutPrefix(payload, freedWake)
	limit, isSettle := strings.CutPrefix(payload, settleWake)
	switch {
	case isFreed:
		l.callbacks.Slots(p, freedIn(freed))
	case isSettle:
		l.callbacks.Settle(p, limit)
	case stale:
		l.callbacks.Stale(p, numbersOf(segments))
	case look:
		if ref, err := task.ParseRef(name); err == nil {
			l.callbacks.Look(ref)
		}
	case payload == taskWake:
		l.callbacks.Wheel(p)
	case payload == scheduleWake:
		l.callbacks.Schedules(p)
	case payload == followWake:
		l.callbacks.Outbox(p)
	case payload == rowsWake:
		l.callbacks.Rows(p)
	case payload == layout.BulkWake:
		l.callbacks.Bulk()
	case payload == layout.StatusWake:
		l.callbacks.Status()
	}
}

// numbersOf returns the numbers in a text, which are separated by blanks. It leaves out what is none.
func numbersOf(text string) (numbers []int) {
	for word := range strings.FieldsSeq(text) {
		if n, err := strconv.Atoi(word); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
