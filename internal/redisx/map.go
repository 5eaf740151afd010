package redisx

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// mapLimit is how long a server may take to answer with its map, or with the commands that it knows, before another one is asked: go-redis asks one
// after the other, and begins with any. It asks for the commands once, before the first one, and all others wait for that.
const mapLimit = 300 * time.Millisecond

// mapReloader has the client of a cluster read its map of the cluster again when a server does not answer, as that one may have been
// replaced. By itself, go-redis reads the map when a server sends it elsewhere, which one that has died does not, and after
// mapLifetime.
type mapReloader struct{ reload func(context.Context) }

func (m mapReloader) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		m.check(ctx, err)
		return conn, err
	}
}

func (m mapReloader) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "cluster" || name == "command" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, mapLimit)
			defer cancel()
		}
		err := next(ctx, cmd)
		m.check(ctx, err)
		return err
	}
}

func (m mapReloader) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		m.check(ctx, err)
		return err
	}
}

// check reads the map again, not more often than five times a second, if a server did not answer or has lost the others.
func (m mapReloader) check(ctx context.Context, err error) {
	var answer redis.Error
	if err == nil || errors.As(err, &answer) && !redis.HasErrorPrefix(err, "CLUSTERDOWN") || errors.Is(err, context.Canceled) {
		return
	}
	m.reload(ctx)
}
