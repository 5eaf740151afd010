package redisx

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// gate has commands for one server obey a Succession. Connections can stay when a server becomes a primary: those of clients of a cluster, which are
// connected to replicas, too, and those to a primary that was a replica meanwhile.
type gate struct {
	succession *Succession
	address    string // of the server; "" if Redis is no cluster
	server     *redis.Client
	vital      bool
}

func (gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.wait(ctx, cmd); err != nil {
			return err
		}
		err := next(ctx, cmd)
		g.look(err)
		return err
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
		err := next(ctx, cmds)
		if g.address == "" { // a replica of a cluster says MOVED, and the cluster's client may be sending these commands to another server by now
			for _, cmd := range cmds {
				g.look(cmd.Err())
			}
		}
		return err
	}
}

// wait returns when a primary that has taken over may be used. Errors: that of the context, or one of Redis.
func (g gate) wait(ctx context.Context, cmds ...redis.Cmder) error {
	if !slices.ContainsFunc(cmds, concernsData) {
		return nil
	}
	id, err := g.succession.primaryAt(ctx, g.address, g.server)
	if err != nil || id == "" || g.vital {
		return err
	}
	return g.succession.wait(ctx, id)
}

// look notes if a server has refused a write because it is a replica now. go-redis closes the connection that was told so, but no other one.
func (g gate) look(err error) {
	if err != nil && redis.HasErrorPrefix(unwrapped(err), "READONLY") {
		g.succession.doubt(g.address)
	}
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
