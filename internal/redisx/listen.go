package redisx

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Listen subscribes to channels and hands every message to message, until ctx ends; then it returns nil.
// connected is called whenever the subscription stands, at first and after every loss of the connection:
// what was published in between is gone, so look at the data itself then.
func (db *DB) Listen(ctx context.Context, connected func(), message func(channel, payload string), channels ...string) error {
	ps := db.Subscribe(ctx, channels...)
	defer func() { _ = ps.Close() }()
	in := ps.ChannelWithSubscriptions(redis.WithChannelSize(1000))
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg, ok := <-in:
			if !ok {
				return nil
			}
			switch m := msg.(type) {
			case *redis.Subscription:
				connected()
			case *redis.Message:
				message(m.Channel, m.Payload)
			}
		}
	}
}
