// Package events passes on what happens to tasks, schedules, queues and nodes, from one subscription to Redis to any number of readers in this
// process.
//
// A Hub subscribes to Redis while at least one reader is subscribed to it, and decodes each message once. Every reader
// has a filter and a bounded buffer of its own. The hub never waits for a reader: one that falls too far behind loses its
// own subscription, and the others notice nothing.
//
// The feed is live. The hub keeps the newest messages in memory, so a reader who was away for a while goes on where it
// was. What happens while nobody is subscribed is not repeated. Readers are told when events were lost on the way, so that
// they can look at the data itself again.
package events

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

var (
	// ErrSlow ends the subscription of a reader whose buffer was full when another event came.
	ErrSlow = errors.New("the reader fell too far behind")
	// ErrStopped ends every subscription when the hub stops.
	ErrStopped = errors.New("the event hub has stopped")
)

// logType is the type of events that are lines of a log. They are not kept: the log has them.
const logType = "task.log"

// Source is where events come from: *tasks.Tasks.
type Source interface {
	// ListenEvents reports every event to l, one call at a time, until ctx ends; then it returns nil.
	ListenEvents(ctx context.Context, l tasks.EventListener) error
}

// DefaultLinger is how long a hub listens on for readers that come back.
const DefaultLinger = 30 * time.Second

// Options says what a hub passes on. All fields without a default must be set.
type Options struct {
	Source Source
	Log    *slog.Logger
	// Linger is how long the hub listens on after the last reader has left, so that it can come back. It does so for
	// readers of events only, and not for those of a signal. 0 means not at all.
	Linger time.Duration
}

// Hub passes events on to its subscribers. Its methods may be called from any goroutine.
type Hub struct {
	o      Options
	wanted chan struct{} // holds a value if there may be subscribers and nobody listens to the source

	mu           sync.Mutex
	subscribers  map[*Subscription]struct{}
	hangUp       context.CancelFunc // ends the listening to the source; nil while there is none
	connected    bool               // the subscription to Redis works: a new subscriber is ready at once
	stopped      bool
	wasConnected bool        // since it has listened
	followed     bool        // by a reader of events, since it has listened
	record       record      // since it has listened
	lingering    *time.Timer // hangs up, unless a reader comes; nil if there are readers
}

// New makes a hub. It passes nothing on before Run.
func New(o Options) *Hub {
	return &Hub{o: o, wanted: make(chan struct{}, 1), subscribers: map[*Subscription]struct{}{}}
}

// Run passes events on until ctx ends. Then it ends all subscriptions with ErrStopped and returns nil. A hub runs once.
// It fails only if the source does.
func (h *Hub) Run(ctx context.Context) error {
	defer h.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wanted:
		}
		if err := h.listen(ctx); err != nil {
			return fmt.Errorf("listening for events: %w", err)
		}
	}
}

// Subscribe adds a reader, who must call Close in the end. Subscribing to a hub that has stopped gives a subscription that
// has ended with ErrStopped.
func (h *Hub) Subscribe(o SubscribeOptions) *Subscription {
	s := newSubscription(h, o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		s.end(ErrStopped)
		return s
	}
	h.subscribers[s] = struct{}{}
	h.stay()
	h.followed = h.followed || !s.signal
	switch {
	case h.connected:
		s.becomeReady()
	case h.hangUp == nil:
		select {
		case h.wanted <- struct{}{}:
		default: // Run has not taken the one before yet
		}
	}
	return s
}

// listen listens to the source for as long as there are subscribers.
func (h *Hub) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !h.begin(cancel) {
		return nil
	}
	// After the last subscriber has left, the source may call a little longer, while a new subscriber already waits for
	// the next subscription to Redis. Such late calls must not reach it: ctx is cancelled under the mutex.
	locked := func(f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if ctx.Err() == nil {
			f()
		}
	}
	return h.o.Source.ListenEvents(ctx, tasks.EventListener{
		Connected:    func() { locked(h.connect) },
		Disconnected: func() { locked(h.disconnect) },
		Event:        func(e *task.Event) { locked(func() { h.pass(e) }) },
		Unreadable:   func(err error) { locked(func() { h.passOver(err, false) }) },
		Change:       func(c *change.Change) { locked(func() { h.tell(c) }) },

		UnreadableChange: func(err error) { locked(func() { h.passOver(err, true) }) },
	})
}

// begin notes how to end the listening to the source. It returns false if there is no need to begin it.
func (h *Hub) begin(hangUp context.CancelFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) == 0 {
		return false
	}
	h.hangUp = hangUp
	h.record = newRecord(rand.Text()[:8], recordBytes)
	return true
}

// connect makes subscribers ready. Those that were ready before the connection was lost may have missed events, and
// connect tells them. The caller holds the mutex, as with the next four.
func (h *Hub) connect() {
	again := h.wasConnected
	h.connected, h.wasConnected = true, true
	loss := Message{Loss: &Loss{Reason: ConnectionLost}}
	if again {
		loss = h.record.add(loss)
	}
	affected := 0
	for s := range h.subscribers {
		if !s.isReady {
			s.becomeReady()
			continue
		}
		affected++
		s.send(loss)
	}
	if affected > 0 {
		h.o.Log.Info("subscribed to events again; some may have been missed", "readers", affected)
	}
}

// disconnect lets subscribers that come from now on wait for the next connection.
func (h *Hub) disconnect() { h.connected = false }

// pass passes an event on to those who want it.
func (h *Hub) pass(e *task.Event) {
	m := Message{Event: e, text: &text{}}
	if e.Type != logType {
		m = h.record.add(m)
	}
	h.send(m)
}

// tell passes a change of a schedule, a queue or a node on to those who want it.
func (h *Hub) tell(c *change.Change) {
	m := h.record.add(Message{Change: c, text: &text{}})
	if c.At.IsZero() { // a node of an earlier release has told it; positions have Redis's times only
		c.At = clock.Now().UTC()
	}
	h.send(m)
}

// passOver tells everybody of a message that could not be decoded: nobody knows whom it concerned. If it was about a
// schedule, a queue or a node, those are told who want changes of any.
func (h *Hub) passOver(err error, ofChanges bool) {
	h.o.Log.Debug("skipping unreadable event", "error", err)
	h.send(h.record.add(Message{Loss: &Loss{Reason: Unreadable, Count: 1, ofChanges: ofChanges}}))
}

// send sends a message to those who want it.
func (h *Hub) send(m Message) {
	for s := range h.subscribers {
		if s.wants(m) {
			s.send(m)
		}
	}
}

// remove takes a subscriber off. The last one takes the subscription to Redis with it.
func (h *Hub) remove(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.end(nil)
	delete(h.subscribers, s)
	if len(h.subscribers) > 0 || h.hangUp == nil || h.lingering != nil {
		return
	}
	if h.o.Linger == 0 || s.signal && !h.followed {
		h.leave()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(h.o.Linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.lingering == timer {
			h.leave()
		}
	})
	h.lingering = timer
}

// stay keeps the hub from hanging up, as a reader has come.
func (h *Hub) stay() {
	if h.lingering != nil {
		h.lingering.Stop()
		h.lingering = nil
	}
}

// leave ends the listening to the source, and forgets what was kept.
func (h *Hub) leave() {
	h.stay()
	h.hangUp()
	h.hangUp, h.connected, h.wasConnected, h.followed = nil, false, false, false
	h.record = record{}
}

func (h *Hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.stay()
	for s := range h.subscribers {
		s.end(ErrStopped)
	}
	clear(h.subscribers)
}
