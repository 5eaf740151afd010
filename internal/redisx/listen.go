package redisx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	defaultPingAfter = 5 * time.Second        // default of Options.PingAfter
	resubscribePause = 200 * time.Millisecond // wait between a failed subscription and the next one
)

// Listener has the functions that Listen calls, one at a time.
type Listener struct {
	// Connected is called after every subscription, including the first. Messages published while the connection was
	// lost are missing, so Connected must check the data itself.
	Connected func()
	// Disconnected is called when the connection of a subscription is lost, but not when ctx ends; nil for no call.
	Disconnected func()
	// Message is called for every message.
	Message func(channel, payload string)
}

// Listen subscribes to channels and calls l until ctx ends; then it returns nil. It subscribes again whenever the
// connection is lost.
//
// A dead connection (a firewall dropped its state, or the host is gone) looks like an idle one, and the operating
// system notices only after about 15 minutes. Therefore Listen sends a ping after Options.PingAfter without a
// message, and closes the connection if no answer arrives within the same time. The channels of go-redis send pings
// too, but do not wait for the answer.
func (db *DB) Listen(ctx context.Context, l Listener, channels ...string) error {
	for ctx.Err() == nil {
		s := subscription{pingAfter: db.pingAfter, listener: l}
		s.serve(ctx, db.Subscribe(ctx, channels...))
		_ = clock.Sleep(ctx, resubscribePause)
	}
	return nil
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

// handle calls Connected after a confirmed subscription, and Message for a message.
func (s *subscription) handle(received any) {
	s.pinged = false
	switch m := received.(type) {
	case *redis.Subscription:
		s.connected = true
		s.listener.Connected()
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
