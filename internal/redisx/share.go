package redisx

import (
	"context"
	"slices"
	"sync"
)

// ListenShared is Listen to one channel, on a connection that all callers of ListenShared with this DB share. It is for channels with few messages:
// a listener that takes its time holds up those of the other callers.
func (db *DB) ListenShared(ctx context.Context, l Listener, channel string) error {
	leave := db.shared.join(db, channel, &l)
	defer leave()
	<-ctx.Done()
	return nil
}

// shared is the subscription of the callers of ListenShared, which lasts from the first one's call to the return of the last one.
type shared struct {
	mu    sync.Mutex
	round *sharing // nil: nobody listens
}

// sharing is one connection, and who listens on it.
type sharing struct {
	subscriber *Subscriber
	stop       func() // ends the subscription, and waits for that

	mu        sync.Mutex             // held while listeners are called: they are called one at a time
	listeners map[string][]*Listener // by channel
	connected map[string]bool        // the channels whose subscription is established
}

// join has a listener called, until the function that it returns is.
func (s *shared) join(db *DB, channel string, l *Listener) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.round == nil
	if first {
		s.round = newSharing(db)
	}
	r := s.round
	r.add(channel, l)
	if first {
		r.start()
	}
	return func() {
		s.mu.Lock()
		last := r.remove(channel, l)
		if last {
			s.round = nil
		}
		s.mu.Unlock()
		if last {
			r.stop()
		}
	}
}

func newSharing(db *DB) *sharing {
	r := &sharing{listeners: make(map[string][]*Listener), connected: make(map[string]bool)}
	r.subscriber = db.NewSubscriber(Listener{Connected: r.onConnected, Disconnected: r.onDisconnected, Message: r.onMessage})
	return r
}

// start subscribes, when there is a channel.
func (r *sharing) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.subscriber.Run(ctx) // it ends with ctx only
	}()
	r.stop = func() { cancel(); <-ended }
}

func (r *sharing) add(channel string, l *Listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.listeners[channel]) == 0 {
		r.subscriber.Add(channel)
	}
	r.listeners[channel] = append(r.listeners[channel], l)
	if r.connected[channel] {
		l.Connected(channel)
	}
}

// remove reports whether nobody listens any more.
func (r *sharing) remove(channel string, l *Listener) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners[channel] = slices.DeleteFunc(r.listeners[channel], func(other *Listener) bool { return other == l })
	if len(r.listeners[channel]) == 0 {
		delete(r.listeners, channel)
		delete(r.connected, channel)
		r.subscriber.Remove(channel)
	}
	return len(r.listeners) == 0
}

func (r *sharing) onConnected(channel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.listeners[channel] {
		r.connected[channel] = true
		l.Connected(channel)
	}
}

func (r *sharing) onDisconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.connected)
	for _, listeners := range r.listeners {
		for _, l := range listeners {
			if l.Disconnected != nil {
				l.Disconnected()
			}
		}
	}
}

func (r *sharing) onMessage(channel, payload string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.listeners[channel] {
		l.Message(channel, payload)
	}
}
