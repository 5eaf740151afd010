package redisx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	defaultPingAfter = 5 * time.Second        // default of Options.PingAfter
	resubscribePause = 200 * time.Millisecond // wait between a failed subscription and the next one
)

// Listener has the functions that a Subscriber calls, one at a time.
type Listener struct {
	// Connected is called when a subscription to a channel is established, for the first time or again. Messages published
	// before are missing, so Connected must check the data itself.
	Connected func(channel string)
	// Disconnected is called when the connection of a subscription is lost, but not when ctx ends; nil for no call.
	Disconnected func()
	// Message is called for every message.
	Message func(channel, payload string)
}

// Listen subscribes to channels and calls l until ctx ends; then it returns nil. It subscribes again whenever the connection is
// lost. See Subscriber.
func (db *DB) Listen(ctx context.Context, l Listener, channels ...string) error {
	return db.NewSubscriber(l, channels...).Run(ctx)
}

// Subscriber listens to channels, which may change meanwhile, on one connection.
type Subscriber struct {
	db       *DB
	listener Listener

	mu       sync.Mutex
	channels []string
	added    []string      // those of channels to which Run is still to subscribe
	changed  chan struct{} // signalled when channels has changed
}

// NewSubscriber returns a subscriber to channels. It sends nothing to Redis.
func (db *DB) NewSubscriber(l Listener, channels ...string) *Subscriber {
	return &Subscriber{db: db, listener: l, channels: slices.Clone(channels), changed: make(chan struct{}, 1)}
}

// Run subscribes and calls the listener until ctx ends; then it returns nil. It subscribes again whenever the connection is lost.
//
// A dead connection (a firewall dropped its state, or the host is gone) looks like an idle one, and the operating
// system notices only after about 15 minutes. Therefore Run sends a ping after Options.PingAfter without a
// message, and closes the connection if no answer arrives within the same time. The channels of go-redis send pings
// too, but do not wait for the answer.
func (s *Subscriber) Run(ctx context.Context) error {
	for turn := 0; ctx.Err() == nil; turn++ {
		s.connect(ctx, turn)
		_ = clock.Sleep(ctx, resubscribePause)
	}
	return nil
}

// connect subscribes on a new connection and listens until that is lost or ctx ends. In a cluster, that connection is to
// the server of the first channel, which may be away: each turn begins with another channel.
func (s *Subscriber) connect(ctx context.Context, turn int) {
	channels, _ := s.wanted()
	first := turn % max(len(channels), 1)
	ps := s.db.Subscribe(ctx)
	if err := ps.Subscribe(ctx, slices.Concat(channels[first:], channels[:first])...); err != nil {
		// ps may have connected anew, but does not subscribe again.
		_ = ps.Close()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { s.follow(ctx, ps, channels) })
	one := subscription{pingAfter: s.db.pingAfter, listener: s.listener}
	one.serve(ctx, ps)
	cancel()
	following.Wait()
}

// follow changes the channels of a subscription as Add and Remove demand, until ctx ends. If it cannot, it closes the connection.
func (s *Subscriber) follow(ctx context.Context, ps *redis.PubSub, channels []string) {
	for {
		wanted, added := s.wanted()
		if err := subscribe(ctx, ps, added, without(channels, wanted)); err != nil {
			_ = ps.Close()
			return
		}
		channels = wanted
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
	}
}

func subscribe(ctx context.Context, ps *redis.PubSub, added, removed []string) error {
	var err error
	if len(added) > 0 {
		err = ps.Subscribe(ctx, added...)
	}
	if err == nil && len(removed) > 0 {
		err = ps.Unsubscribe(ctx, removed...)
	}
	return err
}

// without returns the elements of all that are not in others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(c string) bool { return slices.Contains(others, c) })
}

// wanted returns the channels, and which of them were added since the last call.
func (s *Subscriber) wanted() (channels, added []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added, s.added = s.added, nil
	return slices.Clone(s.channels), added
}

// Add adds a channel, without waiting for Redis. Connected is called when the subscription to it is established, also if the channel was removed
// just before and Redis has not been told that: it confirms a subscription each time that it is requested.
func (s *Subscriber) Add(channel string) {
	s.change(func(channels []string) []string { return append(channels, channel) })
}

// Remove removes a channel, without waiting for Redis.
func (s *Subscriber) Remove(channel string) {
	s.change(func(channels []string) []string { return without(channels, []string{channel}) })
}

func (s *Subscriber) change(f func(channels []string) []string) {
	s.mu.Lock()
	s.channels, s.added = f(s.channels), f(s.added)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// subscription is one subscription on one connection.
type subscription struct {
	pingAfter time.Duration
	listener  Listener
	connected bool // the subscription was confirmed
	pinged    bool // a ping was sent and nothing has arrived since
}

// serve receives messages until the connection fails or ctx ends.
func (s *subscription) serve(ctx context.Context, ps *redis.PubSub) {
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() }) // ends a waiting receive
	defer stop()
	defer func() { _ = ps.Close() }()
	for ctx.Err() == nil {
		received, err := ps.ReceiveTimeout(ctx, s.pingAfter)
		if err == nil {
			s.handle(received)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if s.ping(ctx, ps, err) != nil {
			s.disconnect()
			return
		}
	}
}

// handle calls Connected after a confirmed subscription to a channel, and Message for a message.
func (s *subscription) handle(received any) {
	s.pinged = false
	switch m := received.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			s.connected = true
			s.listener.Connected(m.Channel)
		}
	case *redis.Message:
		s.listener.Message(m.Channel, m.Payload)
	}
}

// disconnect calls Disconnected if Connected was called before.
func (s *subscription) disconnect() {
	if s.connected && s.listener.Disconnected != nil {
		s.listener.Disconnected()
	}
}

// ping sends a ping if err is the first timeout since the last message. Otherwise the connection is dead, and ping
// returns an error.
func (s *subscription) ping(ctx context.Context, ps *redis.PubSub, err error) error {
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() || s.pinged {
		return err
	}
	s.pinged = true
	if err := ps.Ping(ctx); err != nil {
		return fmt.Errorf("sending a ping: %w", err)
	}
	return nil
}
