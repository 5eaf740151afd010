package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// recordBytes is how much a hub keeps of what has happened, as messageBytes counts it: up to 16,000 events.
	recordBytes = 16 << 20
	// pieceLength is how many messages a reader gets from a record at once.
	pieceLength = 64
	// messageBytes is what a message takes without its longer texts, with the text that readers share.
	messageBytes = 1 << 10
	// overlap is by how much the clocks of the servers of a cluster, and the order of messages, may differ between nodes.
	overlap = time.Second
)

// Position is where a reader is in the feed of a hub: behind a message. The zero Position is nowhere.
type Position struct {
	hub    string    // one hub, while it listens without a pause
	number int64     // of the message, from 1
	at     time.Time // of the newest event up to there
}

// String is the position as a text of letters, digits and dots; "" for the zero Position.
func (p Position) String() string {
	if p.hub == "" {
		return ""
	}
	return fmt.Sprintf("%s.%d.%d", p.hub, p.number, p.at.UnixMilli())
}

// ParsePosition reads what String returned. ok is false for any other text.
func ParsePosition(text string) (_ Position, ok bool) {
	hub, rest, _ := strings.Cut(text, ".")
	number, at, _ := strings.Cut(rest, ".")
	n, errNumber := strconv.ParseInt(number, 10, 64)
	ms, errAt := strconv.ParseInt(at, 10, 64)
	if hub == "" || n < 0 || errNumber != nil || errAt != nil {
		return Position{}, false
	}
	return Position{hub: hub, number: n, at: time.UnixMilli(ms)}, true
}

// record has the newest messages of a feed that has had no pause.
type record struct {
	last  Position // of the newest message
	kept  []Message
	bytes int
	limit int // of bytes
}

// newRecord makes a record of a feed that begins; hub tells it from all others.
func newRecord(hub string, limit int) record {
	return record{last: Position{hub: hub}, limit: limit}
}

// add adds a message, and returns it with its position. The oldest ones make room.
func (r *record) add(m Message) Message {
	r.last.number++
	if at := m.at(); at.After(r.last.at) {
		r.last.at = at
	}
	m.Position = r.last
	r.kept = append(r.kept, m)
	r.bytes += m.bytes()
	gone := 0
	for ; r.bytes > r.limit; gone++ {
		r.bytes -= r.kept[gone].bytes()
	}
	clear(r.kept[:gone])
	r.kept = r.kept[gone:]
	return m
}

// at is when it happened what a message tells; zero for a loss.
func (m Message) at() time.Time {
	switch {
	case m.Event != nil:
		return m.Event.At
	case m.Change != nil:
		return m.Change.At
	}
	return time.Time{}
}

// bytes is about what a message takes.
func (m Message) bytes() int {
	switch {
	case m.Event != nil:
		return messageBytes + len(m.Event.Error) + len(m.Event.Note) + len(m.Event.Text)
	case m.Change != nil:
		return messageBytes + len(m.Change.Note)
	}
	return messageBytes
}

// place returns where a reader goes on that was at a position: the same, or if it is one of another hub, the position
// here behind messages of more than a second before. A loss has no time: it is taken for newer if the next message is.
// known is false if others may have come in between that this hub has never had. For a position of another hub, it is
// true only if the record has an event from before that second: then the hub listened already.
func (r *record) place(p Position) (_ Position, known bool) {
	if p.hub == r.last.hub {
		return p, p.number <= r.last.number
	}
	since := p.at.Add(-overlap)
	first := slices.IndexFunc(r.kept, func(m Message) bool { return !m.Position.at.Before(since) })
	if first < 0 {
		first = len(r.kept)
	}
	for first > 0 && r.kept[first-1].Loss != nil {
		first--
	}
	here := Position{hub: r.last.hub, number: r.gone() + int64(first), at: p.at}
	return here, first > 0
}

// piece returns the next messages of this hub after one position and up to another one, at most pieceLength of them.
// whole is false if others came before these, or in their place, that are not kept any longer.
func (r *record) piece(after, end Position) (_ []Message, whole bool) {
	if after.number >= end.number {
		return nil, true
	}
	if end.hub != r.last.hub {
		return nil, false
	}
	first := max(0, after.number-r.gone())
	last := min(first+pieceLength, end.number-r.gone())
	if last <= first {
		return nil, false
	}
	return slices.Clone(r.kept[first:last]), after.number >= r.gone()
}

// gone is how many messages are not kept any longer.
func (r *record) gone() int64 { return r.last.number - int64(len(r.kept)) }
