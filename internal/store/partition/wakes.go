package partition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// LeaseFreed is the message on the channel of leaders that says that a lease was released.
const LeaseFreed = "free"

// Other messages.
const (
	taskWake     = "task"     // to a partition's leader: a task became the first on the wheel
	scheduleWake = "schedule" // to a partition's leader: a schedule became the first that is due
	roomWake     = "room "    // to all leaders, with the name of a queue behind it: it has room for more deliveries
)

// Wakes has the functions that a Listener calls, one at a time. All of them are required. Wheel and Schedules are also called when
// the subscription to a partition is established, for the first time or again: messages before it may be lost.
type Wakes struct {
	Connected func()              // the subscription to the channel of all leaders is established, for the first time or again
	Freed     func()              // a lease was released
	Wheel     func(partition int) // a task became the first on the wheel
	Schedules func(partition int) // a schedule became the first that is due
	Room      func(queue string)  // a queue of which leaders have a backlog has room again
}

// Wakes reads how often the leaders of partitions were woken so far, for the message that a Listener may have missed. It calls heard for the
// partitions of each server as soon as that has answered, from several goroutines. Error: those of the servers that did not answer, joined.
func (p *Partitions) Wakes(ctx context.Context, partitions []int, heard func(wakes map[int]string)) error {
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
		wakes := make(map[int]string, len(places))
		for k, i := range places {
			wakes[partitions[i]] = values[k]
		}
		heard(wakes)
	})
	if err := errors.Join(append(failures, err)...); err != nil {
		return fmt.Errorf("reading how often leaders were woken: %w", err)
	}
	return nil
}

// Listener receives the wake-ups of the partitions that this node leads, and the messages to all leaders.
type Listener struct {
	wakes      Wakes
	leaders    string         // the channel of all leaders
	partitions map[string]int // by the channel of their leader
	keys       lua.Keyspace
	subscriber *redisx.Subscriber
}

// NewListener returns a listener that calls w. It leads no partition yet.
func (p *Partitions) NewListener(w Wakes) *Listener {
	l := &Listener{wakes: w, leaders: string(p.o.Layout.Keys.Leaders()), partitions: make(map[string]int), keys: p.o.Layout.Keys}
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
		l.wakes.Connected()
	} else if p, known := l.partitions[channel]; known {
		l.wakes.Wheel(p)
		l.wakes.Schedules(p)
	}
}

func (l *Listener) message(channel, payload string) {
	p, known := l.partitions[channel]
	queue, ofRoom := strings.CutPrefix(payload, roomWake)
	switch {
	case known && payload == taskWake:
		l.wakes.Wheel(p)
	case known && payload == scheduleWake:
		l.wakes.Schedules(p)
	case !known && payload == LeaseFreed:
		l.wakes.Freed()
	case !known && ofRoom:
		l.wakes.Room(queue)
	}
}
