package redisx

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// gate has commands for one server of a cluster obey a Succession. Clients of a cluster are connected to replicas, too, and these connections
// stay when a replica takes over.
type gate struct {
	succession *Succession
	server     *redis.Client
	vital      bool
}

func (gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.wait(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (g gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := g.wait(ctx, cmds...); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// wait returns when a primary that has taken over may be used. Errors: that of the context, or one of Redis.
func (g gate) wait(ctx context.Context, cmds ...redis.Cmder) error {
	if !slices.ContainsFunc(cmds, concernsData) {
		return nil
	}
	id, err := g.succession.primaryAt(ctx, g.server)
	if err != nil || id == "" || g.vital {
		return err
	}
	return g.succession.wait(ctx, id)
}

// concernsData reports whether a command may read or write data. The others are those that clients send to prepare a connection, or to learn
// who a server is.
func concernsData(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "client", "select", "readonly", "asking", "ping", "command", "info", "cluster":
		return false
	}
	return true
}
