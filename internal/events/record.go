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
	if m.Event != nil && m.Event.At.After(r.last.at) {
		r.last.at = m.Event.At
	}
	m.Position = r.last
	r.kept = append(r.kept, m)
	r.bytes += m.bytes()
	gone := 0
	for ; r.bytes > r.limit; gone++ {
		r.bytes -= r.kept[gone].bytes()
	}
	r.kept = r.kept[gone:] // readers may still read what goes
	return m
}

// bytes is about what a message takes.
func (m Message) bytes() int {
	if m.Event == nil {
		return messageBytes
	}
	return messageBytes + len(m.Event.Error) + len(m.Event.Note) + len(m.Event.Text)
}

// after returns the messages behind a position, which nobody changes any more. whole is false if others came before
// these that are not kept any longer, or that this hub has never had. For a position of another hub, messages of up to
// a second before may be among them.
func (r *record) after(p Position) (_ []Message, whole bool) {
	if p.hub == r.last.hub {
		oldest := r.last.number - int64(len(r.kept)) + 1
		if p.number > r.last.number {
			return nil, false
		}
		return r.kept[max(0, p.number+1-oldest):], p.number+1 >= oldest
	}
	since := p.at.Add(-overlap)
	first := slices.IndexFunc(r.kept, func(m Message) bool { return !m.Position.at.Before(since) })
	if first < 0 {
		first = len(r.kept)
	}
	return r.kept[first:], first > 0
}
