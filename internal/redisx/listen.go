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
	defaultQuiet = 5 * time.Second        // without a word from Redis, it is asked for one; without that, the connection is dead
	listenAgain  = 200 * time.Millisecond // before a subscription that failed is made anew
)

// Listen subscribes to channels and hands every message to message, until ctx ends; then it returns nil.
// connected is called whenever the subscription stands, at first and after every loss of the connection:
// what was published in between is gone, so look at the data itself then.
//
// A connection that has silently died (a firewall that forgot it, a host that is gone) looks like one on which
// nothing happens, and the system notices after a quarter of an hour. So Redis has to answer pings here; go-redis's
// own channels send pings, too, but do not wait for the answer.
func (db *DB) Listen(ctx context.Context, connected func(), message func(channel, payload string), channels ...string) error {
	for ctx.Err() == nil {
		s := subscription{quiet: db.quiet, connected: connected, message: message}
		s.serve(ctx, db.Subscribe(ctx, channels...))
		_ = clock.Sleep(ctx, listenAgain)
	}
	return nil
}

type subscription struct {
	quiet     time.Duration
	connected func()
	message   func(channel, payload string)
	pinged    bool // Redis was asked for a sign of life
}

// serve hands on what comes in until the connection fails or ctx ends.
func (s *subscription) serve(ctx context.Context, ps *redis.PubSub) {
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() }) // which ends a Receive that waits
	defer stop()
	defer func() { _ = ps.Close() }()
	for ctx.Err() == nil {
		received, err := ps.ReceiveTimeout(ctx, s.quiet)
		if err == nil {
			s.take(received)
			continue
		}
		if ctx.Err() != nil || s.stillThere(ctx, ps, err) != nil {
			return
		}
	}
}

func (s *subscription) take(received any) {
	s.pinged = false
	switch m := received.(type) {
	case *redis.Subscription:
		s.connected()
	case *redis.Message:
		s.message(m.Channel, m.Payload)
	}
}

// stillThere asks Redis for a sign of life after a time without one. Error: the connection is dead.
func (s *subscription) stillThere(ctx context.Context, ps *redis.PubSub, err error) error {
	var silence net.Error
	if !errors.As(err, &silence) || !silence.Timeout() || s.pinged {
		return err
	}
	s.pinged = true
	if err := ps.Ping(ctx); err != nil {
		return fmt.Errorf("asking for a sign of life: %w", err)
	}
	return nil
}
