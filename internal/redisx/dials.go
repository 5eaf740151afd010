package redisx

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// redialPause is how long a command waits before it asks a pool again that has not dialed for it.
const redialPause = 20 * time.Millisecond

// dials knows when the pool of a client last failed to connect. After as many failures as it has connections, go-redis tries only once in a second, and
// answers every command in between with the last error, also when the server is back. The zero value is ready for use.
type dials struct {
	failed atomic.Pointer[time.Time] // nil: never
}

// hook is the hook of the dials of a client.
func (d *dials) hook(next redis.DialHook) redis.DialHook {
	if d == nil {
		return next
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			now := clock.Now()
			d.failed.Store(&now)
		}
		return conn, err
	}
}

// repeated reports whether err, of a command that began at start, is that of an earlier dial: nobody has tried to connect since. So nothing was sent.
func (d *dials) repeated(start time.Time, err error) bool {
	var op *net.OpError
	if d == nil || !errors.As(err, &op) || op.Op != "dial" {
		return false
	}
	failed := d.failed.Load()
	return failed != nil && failed.Before(start)
}
