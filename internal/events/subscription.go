package events

import (
	"cmp"
	"iter"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/task"
)

// SubscribeOptions says what a reader wants.
type SubscribeOptions struct {
	// Filter says which events to send; nil means all. The hub calls it for every event while all readers wait: it must
	// be quick, and must neither change the event nor call the hub.
	Filter func(*task.Event) bool
	// Changes says which changes of schedules, queues and nodes to send; nil means none. The hub calls it as it calls
	// Filter.
	Changes func(*change.Change) bool
	// Buffer is how many messages may wait for the reader; default 1.
	Buffer int
	// Signal is for readers who only want to know that there is something new, and look elsewhere for what it is. A
	// message that does not fit into the buffer is left out then, since the messages in the buffer say the same; the
	// subscription goes on.
	Signal bool
	// After is where the reader was in this feed, or in that of another node: Earlier has what came behind it. The zero
	// Position asks for nothing.
	After Position
}

// Message is an event of a task, another change, or says that some were lost: one of these fields is set.
type Message struct {
	Event    *task.Event    // shared by all readers: do not change it
	Change   *change.Change // in the same way
	Loss     *Loss
	Position Position // behind the message
	text     *text    // of the event, or of the change
}

// Format is how readers write events to their clients.
type Format struct {
	encode func(Message) ([]byte, error)
}

// NewFormat makes a format. Readers that share the text of an event share the format.
func NewFormat(encode func(Message) ([]byte, error)) *Format { return &Format{encode: encode} }

// text is an event in the format of its first reader.
type text struct {
	once   sync.Once
	format *Format
	b      []byte
	err    error
}

// Text returns the event or the change in a format. All readers that ask for the format of the first one share the
// text, which is made once: do not change it. For another format it is made at each call. Error: that of the
// format.
func (m Message) Text(f *Format) ([]byte, error) {
	t := m.text
	t.once.Do(func() {
		t.format = f
		t.b, t.err = f.encode(m)
	})
	if t.format != f {
		return f.encode(m)
	}
	return t.b, t.err
}

// Loss says that a reader did not get all of the events it wants.
type Loss struct {
	Reason Reason
	Count  int64     // the number of events; 0 if nobody knows
	Since  time.Time // events since then may be missing; zero if nobody knows

	ofChanges bool // only changes of schedules, queues and nodes
}

// Reason is why events were lost. The API sends it to clients.
type Reason string

// The reasons.
const (
	SlowReader     Reason = "slow_reader"     // the reader's buffer was full; its subscription has ended
	ConnectionLost Reason = "connection_lost" // the connection to Redis was lost for a while
	Unreadable     Reason = "unreadable"      // a message could not be decoded
	NotKept        Reason = "not_kept"        // they came while the reader was away, and are not kept any longer
)

// Subscription is one reader's part of the feed.
type Subscription struct {
	hub     *Hub
	filter  func(*task.Event) bool
	changes func(*change.Change) bool
	signal  bool
	c       chan Message
	ready   chan struct{}
	after   Position

	// The hub's mutex guards the rest.
	isReady    bool
	start      Position
	from       Position // where Earlier begins, of this hub; start if there is nothing earlier
	incomplete bool     // others may have come after what the reader had, and before from
	ended      bool
	err        error // why it ended
	missed     int64 // events that came after the buffer was full
}

func newSubscription(h *Hub, o SubscribeOptions) *Subscription {
	return &Subscription{
		hub: h, filter: o.Filter, changes: o.Changes, signal: o.Signal, after: o.After,
		c: make(chan Message, cmp.Or(o.Buffer, 1)), ready: make(chan struct{}),
	}
}

// C is the feed. It is closed when the subscription ends, after what was in the buffer; Err says why.
func (s *Subscription) C() <-chan Message { return s.c }

// Ready is closed once the hub is subscribed to Redis: what happens from then on is in the feed, or the feed says that
// events were lost. A reader who comes while the connection to Redis is lost waits until it is restored. Ready is
// closed, too, when the subscription ends before.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Earlier yields what a reader gets before what is in C, once Ready is closed: what has come behind the position that
// it asked for. It reads the record in pieces, so a slow reader keeps no messages that the record drops. A message says
// where some of them are missing.
func (s *Subscription) Earlier() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		s.hub.mu.Lock()
		at, incomplete := s.from, s.incomplete
		s.hub.mu.Unlock()
		for {
			piece, whole := s.piece(at)
			if (incomplete || !whole) && !yield(Message{Loss: &Loss{Reason: NotKept, Since: at.at}}) {
				return
			}
			if len(piece) == 0 {
				return
			}
			for _, m := range piece {
				if s.wants(m) && !yield(m) {
					return
				}
			}
			at, incomplete = piece[len(piece)-1].Position, false
		}
	}
}

// piece returns the next messages behind a position that came before the feed began. whole is false if some are
// missing.
func (s *Subscription) piece(at Position) (_ []Message, whole bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.record.piece(at, s.start)
}

// Start is where the feed was when the subscription became ready.
func (s *Subscription) Start() Position {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.start
}

// Err is why the subscription ended: ErrSlow, ErrStopped, or nil if it has not ended or was closed by its reader.
func (s *Subscription) Err() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.err
}

// Missed is how many events the reader has lost so far after its subscription ended with ErrSlow.
func (s *Subscription) Missed() int64 {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.missed
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() { s.hub.remove(s) }

// wants reports whether a message is one for the reader.
func (s *Subscription) wants(m Message) bool {
	switch {
	case m.Event != nil:
		return s.filter == nil || s.filter(m.Event)
	case m.Change != nil:
		return s.changes != nil && s.changes(m.Change)
	}
	return !m.Loss.ofChanges || s.changes != nil
}

// send adds a message to the buffer, and ends the subscription if it is full. The hub's mutex is held, as with the next
// two.
func (s *Subscription) send(m Message) {
	if !s.ended {
		select {
		case s.c <- m:
			return
		default:
		}
		if s.signal {
			return
		}
		s.end(ErrSlow)
		s.hub.o.Log.Debug("dropping a reader that fell too far behind", "waiting", cap(s.c))
	}
	if m.Loss != nil {
		s.missed += m.Loss.Count
		return
	}
	s.missed++
}

func (s *Subscription) end(err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	close(s.c)
	s.becomeReady()
}

// becomeReady begins the feed.
func (s *Subscription) becomeReady() {
	if s.isReady {
		return
	}
	s.isReady = true
	s.start = s.hub.record.last
	s.from = s.start
	if s.after != (Position{}) && !s.ended {
		known := false
		s.from, known = s.hub.record.place(s.after)
		s.incomplete = !known
	}
	close(s.ready)
}
