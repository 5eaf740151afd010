package handover

import (
	"testing"
	"time"
)

// flowOf returns a flow of which tasks wait since that number of ms in partitions 0, 1, ...; -1 stands for none, 0 for
// an unknown time.
func flowOf(free int, since ...int) *flow {
	f := &flow{free: free}
	for p, ms := range since {
		switch {
		case ms > 0:
			f.wait(Fair{}, p, time.UnixMilli(int64(ms)))
		case ms == 0:
			f.wait(Fair{}, p, time.Time{})
		}
	}
	return f
}

// plainPortion is what may be claimed of the tasks without a fair key.
func plainPortion(f *flow, p int) (quota Quota) {
	quota, _ = f.portions(p, nil)
	return quota
}

func TestFlow_PortionsGoToThoseThatHaveWaitedLongest(t *testing.T) {
	t.Parallel()
	const slack = int(OrderSlack / time.Millisecond)
	for name, c := range map[string]struct {
		flow *flow
		want []int // of partitions 0, 1, 2
	}{
		"no backlog":               {flowOf(100, -1), []int{LeastAhead, LeastAhead, LeastAhead}},
		"no backlog, nothing free": {flowOf(0, -1), []int{0, 0, 0}},
		"the only one":             {flowOf(100, 5000), []int{100, 0, 0}},
		"more than a claim takes":  {flowOf(1000, 5000), []int{ClaimLimit, 0, 0}},
		"all alike":                {flowOf(100, 5000, 5000+slack, 5001), []int{34, 34, 34}},
		"one later":                {flowOf(100, 5000, 5000+slack+1, 5000), []int{50, 0, 50}},
		"one unknown":              {flowOf(100, 5000, 0), []int{0, 100, 0}},
		"nothing free":             {flowOf(0, 5000, 5000), []int{0, 0, 0}},
	} {
		for p, want := range c.want {
			if got := plainPortion(c.flow, p).Number; got != want {
				t.Errorf("%s: partition %d gets %d, want %d", name, p, got, want)
			}
		}
	}
}

func TestFlow_PortionsEndWhereOthersBegin(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)).Add(OrderSlack) }
	for name, c := range map[string]struct {
		flow *flow
		want time.Time // of partition 0
	}{
		"the only one":         {flowOf(100, 5000), time.Time{}},
		"others are later":     {flowOf(100, 5000, 9000, 7000), at(7000)},
		"others are unknown":   {flowOf(100, 5000, 0, 7000), time.Time{}}, // it is their turn
		"itself is unknown":    {flowOf(100, 0, 9000, 7000), at(7000)},
		"as unknown as others": {flowOf(100, 0, 0, 7000), at(7000)},
	} {
		if got := plainPortion(c.flow, 0).UpTo; !got.Equal(c.want) {
			t.Errorf("%s: up to %s, want %s", name, got, c.want)
		}
	}
}

// Word of room counts from the first one since the last look, and none that came before there was no room.
func TestFlow_KnowsSinceWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	f, now := &flow{}, time.UnixMilli(0)
	pass := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	if f.noteRoom(pass()); !f.since.IsZero() {
		t.Errorf("there was no room so far, and now there is since %s", f.since)
	}
	word := pass()
	f.forgetAsked(now)
	f.forgetAsked(pass())
	f.free = 1
	if f.noteRoom(f.begin(pass())); !f.since.Equal(word) {
		t.Errorf("there is room since %s, want %s, the first word of it", f.since, word)
	}
	f.forgetAsked(now)
	f.free = 0
	f.noteRoom(f.begin(now))
	f.forgetAsked(now)
	f.fill()
	f.free, f.asked = 1, pass()
	if f.noteRoom(f.begin(pass())); !f.since.Equal(f.asked) {
		t.Errorf("there is room since %s, want %s, when it was asked", f.since, f.asked)
	}
}
