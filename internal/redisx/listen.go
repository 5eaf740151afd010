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

// Listen subscribes to channels and calls message for every message, until ctx ends; then it returns nil. It
// subscribes again whenever the connection is lost. It calls connected after every subscription, including the
// first. Messages published while the connection was lost are missing, so connected must check the data itself.
//
// A dead connection (a firewall dropped its state, or the host is gone) looks like an idle one, and the operating
// system notices only after about 15 minutes. Therefore Listen sends a ping after Options.PingAfter without a
// message, and closes the connection if no answer arrives within the same time. The channels of go-redis send pings
// too, but do not wait for the answer.
func (db *DB) Listen(ctx context.Context, connected func(), message func(channel, payload string), channels ...string) error {
	for ctx.Err() == nil {
		s := subscription{pingAfter: db.pingAfter, connected: connected, message: message}
		s.serve(ctx, db.Subscribe(ctx, channels...))
		_ = clock.Sleep(ctx, resubscribePause)
	}
	return nil
}

// subscription is one subscription on one connection.
type subscription struct {
	pingAfter time.Duration
	connected func()
	message   func(channel, payload string)
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
		if ctx.Err() != nil || s.ping(ctx, ps, err) != nil {
			return
		}
	}
}

// handle calls connected after a confirmed subscription, and message for a message.
func (s *subscription) handle(received any) {
	s.pinged = false
	switch m := received.(type) {
	case *redis.Subscription:
		s.connected()
	case *redis.Message:
		s.message(m.Channel, m.Payload)
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
