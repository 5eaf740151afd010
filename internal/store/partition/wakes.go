package partition

import (
	"context"
	"strconv"
	"strings"
)

// LeaseFreed is the message on the wake channel that says that a lease was given back.
const LeaseFreed = "free"

// Wakes is what leaders listen for. All fields must be set.
type Wakes struct {
	Connected func()              // the subscription is established, for the first time or again: earlier messages may have been missed
	Freed     func()              // a lease was given back
	Wheel     func(partition int) // a task became the first on the wheel
	Schedules func(partition int) // a schedule became the first to be looked at
}

// tickWake begins the messages about schedules; the number of the partition follows.
const tickWake = "tick:"

// Listen reports what is said on the wake channel, one call at a time, until ctx ends; then it returns nil.
func (p *Partitions) Listen(ctx context.Context, w Wakes) error {
	return p.o.Layout.DB.Listen(ctx, w.Connected, func(_, payload string) {
		if payload == LeaseFreed {
			w.Freed()
			return
		}
		number, ofSchedules := strings.CutPrefix(payload, tickWake)
		partition, err := strconv.Atoi(number)
		switch {
		case err != nil || partition < 0 || partition >= p.Count(): // no partition of this installation
		case ofSchedules:
			w.Schedules(partition)
		default:
			w.Wheel(partition)
		}
	}, string(p.o.Layout.Keys.Wake()))
}
