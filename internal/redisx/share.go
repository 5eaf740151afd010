package redisx

import (
	"context"
	"slices"
	"sync"
)

// ListenShared is Listen to one channel, on a connection that all callers of ListenShared with this DB share. A listener that takes its time does
// not hold up those of the other callers. If it falls behind by more than backlogLimit calls, Connected is called in place of those that it
// has missed.
func (db *DB) ListenShared(ctx context.Context, l Listener, channel string) error {
	m := &member{listener: l, channel: channel, told: make(chan struct{}, 1)}
	leave := db.shared.join(db, m)
	defer leave()
	m.attend(ctx)
	return nil
}

// shared is the subscription of the callers of ListenShared, which lasts from the first one's call to the return of the last one.
type shared struct {
	mu      sync.Mutex
	current *sharedSubscription // nil: nobody listens
}

// sharedSubscription is one connection, and who listens on it.
type sharedSubscription struct {
	subscriber *Subscriber
	stop       func() // ends the subscription, and waits for that

	mu        sync.Mutex
	members   map[string][]*member // by channel
	connected map[string]bool      // the channels whose subscription is established
}

// join has a member told, until the function that it returns is called. Neither waits for what listeners do.
func (s *shared) join(db *DB, m *member) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.current == nil
	if first {
		s.current = newSharedSubscription(db)
	}
	c := s.current
	c.add(m)
	if first {
		c.start()
	}
	return func() {
		s.mu.Lock()
		last := c.remove(m)
		if last {
			s.current = nil
		}
		s.mu.Unlock()
		if last {
			c.stop()
		}
	}
}

func newSharedSubscription(db *DB) *sharedSubscription {
	c := &sharedSubscription{members: make(map[string][]*member), connected: make(map[string]bool)}
	c.subscriber = db.NewSubscriber(Listener{Connected: c.onConnected, Disconnected: c.onDisconnected, Message: c.onMessage})
	return c
}

// start subscribes, when there is a channel.
func (c *sharedSubscription) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.subscriber.Run(ctx) // it ends with ctx only
	}()
	c.stop = func() { cancel(); <-ended }
}

func (c *sharedSubscription) add(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.members[m.channel]) == 0 {
		c.subscriber.Add(m.channel)
	}
	c.members[m.channel] = append(c.members[m.channel], m)
	if c.connected[m.channel] {
		m.connected()
	}
}

// remove reports whether nobody listens any more.
func (c *sharedSubscription) remove(m *member) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[m.channel] = slices.DeleteFunc(c.members[m.channel], func(other *member) bool { return other == m })
	if len(c.members[m.channel]) == 0 {
		delete(c.members, m.channel)
		delete(c.connected, m.channel)
		c.subscriber.Remove(m.channel)
	}
	return len(c.members) == 0
}

func (c *sharedSubscription) onConnected(channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members[channel] {
		c.connected[channel] = true
		m.connected()
	}
}

func (c *sharedSubscription) onDisconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.connected)
	for _, members := range c.members {
		for _, m := range members {
			m.disconnected()
		}
	}
}

func (c *sharedSubscription) onMessage(channel, payload string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members[channel] {
		m.message(payload)
	}
}
