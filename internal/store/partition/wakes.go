package partition

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/redisx"
)

// Messages on the wake channel. A partition's number alone says that a task became the first on its wheel.
const (
	LeaseFreed = "free"  // a lease was released
	tickWake   = "tick:" // with a partition's number behind it: a schedule became the first that is due
	roomWake   = "room:" // with the name of a queue behind it: it has room for more deliveries
)

// Wakes has the functions that Listen calls, one at a time. All of them are required.
type Wakes struct {
	Connected func()              // the subscription is established, for the first time or again: messages before it may be lost
	Freed     func()              // a lease was released
	Wheel     func(partition int) // a task became the first on the wheel
	Schedules func(partition int) // a schedule became the first that is due
	Room      func(queue string)  // a queue of which leaders have a backlog has room again
}

// Wakes reads how often the leaders of partitions were woken so far, for the message that Listen may have missed. Error: one of
// Redis.
func (p *Partitions) Wakes(ctx context.Context, partitions []int) (map[int]string, error) {
	keys := make([]string, len(partitions))
	for i, number := range partitions {
		keys[i] = string(p.o.Layout.Keys.Partition(number).Wakes())
	}
	values, err := p.o.Layout.DB.GetEach(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading how often leaders were woken: %w", err)
	}
	wakes := make(map[int]string, len(partitions))
	for i, number := range partitions {
		wakes[number] = values[i]
	}
	return wakes, nil
}

// Listen calls w for the messages on the wake channel until ctx ends; then it returns nil. It ignores messages that are
// none of these.
func (p *Partitions) Listen(ctx context.Context, w Wakes) error {
	onMessage := func(_, payload string) {
		if payload == LeaseFreed {
			w.Freed()
			return
		}
		if queue, ofRoom := strings.CutPrefix(payload, roomWake); ofRoom {
			w.Room(queue)
			return
		}
		number, ofSchedules := strings.CutPrefix(payload, tickWake)
		partition, err := strconv.Atoi(number)
		switch {
		case err != nil || partition < 0 || partition >= p.Count(): // not a partition of this installation
		case ofSchedules:
			w.Schedules(partition)
		default:
			w.Wheel(partition)
		}
	}
	return p.o.Layout.DB.Listen(ctx, redisx.Listener{Connected: w.Connected, Message: onMessage}, string(p.o.Layout.Keys.Wake()))
}
