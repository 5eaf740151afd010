package events

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

func TestPosition_IsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1767366245120)
	for _, p := range []Position{{hub: "ABC", number: 17, at: at}, {hub: "A", at: time.UnixMilli(0)}} {
		if got, ok := ParsePosition(p.String()); !ok || got != p {
			t.Errorf("%s is read as %+v", p, got)
		}
	}
	if text := (Position{}).String(); text != "" {
		t.Errorf("nowhere is %q", text)
	}
	for _, text := range []string{"", "A", "A.1", "A.x.1", "A.1.x", ".1.1", "A.-1.1", "A.1.1.1"} {
		if got, ok := ParsePosition(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// A record keeps some events of a feed, which are mostly in order of time. A reader has missed all events after its
// position. If the record says that it is whole, it has all of them.
func TestRecord_HasWhatAReaderMissed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		here, there := newRecord("HERE", 1+random.IntN(20)*messageBytes), newRecord("THERE", 1<<20)
		var all []*task.Event
		var own, foreign []Position
		at := time.UnixMilli(1_000_000)
		joined := random.IntN(10) // this hub begins to listen at this event
		for i := range 30 {
			at = at.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
			if i >= joined && random.IntN(4) == 0 {
				here.add(Message{Loss: &Loss{Reason: Unreadable}})
			}
			e := &task.Event{At: at.Add(-time.Duration(random.IntN(300)) * time.Millisecond)}
			all, foreign = append(all, e), append(foreign, there.add(Message{Event: e}).Position)
			if i >= joined {
				own = append(own, here.add(Message{Event: e}).Position)
			}
		}
		for i, p := range own {
			check(t, &here, p, all[joined+i+1:], true)
		}
		for i, p := range foreign {
			check(t, &here, p, all[i+1:], false)
		}
	}
}

// check compares what a record has behind a position with what there was.
func check(t *testing.T, r *record, p Position, want []*task.Event, exact bool) {
	t.Helper()
	kept, whole := readAfter(r, p)
	var got []*task.Event
	for _, m := range kept {
		if m.Event != nil {
			got = append(got, m.Event)
		}
	}
	if exact && !slices.Equal(got, want[len(want)-len(got):]) {
		t.Fatalf("behind %s: events that came before, or in another order", p)
	}
	if whole && exact && len(got) != len(want) {
		t.Fatalf("behind %s: %d events, want %d", p, len(got), len(want))
	}
	for _, e := range want {
		if whole && !slices.Contains(got, e) {
			t.Fatalf("behind %s: an event is missing, and nobody is told", p)
		}
	}
}

// readAfter reads all that a record has behind a position, in pieces.
func readAfter(r *record, p Position) (all []Message, whole bool) {
	at, whole := r.place(p)
	for {
		piece, next := r.piece(at, r.last)
		if whole = whole && next; len(piece) == 0 {
			return all, whole
		}
		all, at = append(all, piece...), piece[len(piece)-1].Position
	}
}

// A hub that lost its connection while nothing happened does not know when, so its loss may be behind the position.
func TestRecord_TellsOfALossWithoutATime(t *testing.T) {
	t.Parallel()
	event := func(second int64) Message { return Message{Event: &task.Event{At: time.Unix(second, 0)}} }
	loss := Message{Loss: &Loss{Reason: ConnectionLost}}
	for name, c := range map[string]struct {
		feed []Message
		want int
		told bool
	}{
		"before the first event": {[]Message{loss, event(9)}, 2, true},
		"after an event":         {[]Message{event(1), loss, event(9)}, 2, false},
		"at the end":             {[]Message{event(1), loss}, 1, false},
	} {
		r := newRecord("HERE", 1<<20)
		for _, m := range c.feed {
			r.add(m)
		}
		kept, whole := readAfter(&r, Position{hub: "THERE", number: 7, at: time.Unix(5, 0)})
		if len(kept) != c.want || kept[0].Loss == nil || whole == c.told {
			t.Errorf("%s: %d messages, whole %t", name, len(kept), whole)
		}
	}
}

func TestRecord_KnowsNoPositionOfItsFuture(t *testing.T) {
	t.Parallel()
	r := newRecord("HERE", 1<<20)
	r.add(Message{Loss: &Loss{Reason: Unreadable}})
	if kept, whole := readAfter(&r, Position{hub: "HERE", number: 2}); len(kept) > 0 || whole {
		t.Errorf("%d messages, whole %t", len(kept), whole)
	}
	if kept, whole := readAfter(&record{}, Position{hub: "HERE", number: 2}); len(kept) > 0 || whole {
		t.Errorf("an empty record has %d messages, whole %t", len(kept), whole)
	}
}

// What it costs a node to keep an event, beside passing it on.
func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	r := newRecord("HERE", recordBytes)
	e := &task.Event{At: time.UnixMilli(1_000_000), Error: "boom"}
	for b.Loop() {
		r.add(Message{Event: e})
	}
}
