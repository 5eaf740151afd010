package redisx

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// hook is what a Link does with the commands of a client.
type hook struct {
	link    *Link
	address string // of the client's server; "" if Redis is no cluster
	whole   bool   // it is the client of a cluster, which passes commands on to clients of its servers
}

// sent is the key of when the client of a cluster got a command, which it may repeat.
type sent struct{}

// DialHook implements redis.Hook.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.do(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.do(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
		if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			for _, cmd := range cmds { // the link is severed, or Redis turned the connection away, of which go-redis tells the commands nothing
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// do sends commands, with the limit of the link.
func (h hook) do(ctx context.Context, cmds []redis.Cmder, send func(context.Context) error) error {
	if reason := h.link.Severed(); reason != nil {
		return reason
	}
	start := clock.Now()
	limit := answerLimit
	if h.whole {
		ctx = context.WithValue(ctx, sent{}, start)
	} else {
		limit = h.link.limit(h.address)
		if first, repeats := ctx.Value(sent{}).(time.Time); repeats {
			limit -= start.Sub(first)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := send(ctx)
	if h.tells(cmds, err) {
		h.link.record(h.address, start, err)
	}
	return err
}

// tells reports whether what became of commands says whether the server answers this process. A server of a cluster that is only asked for the map
// may be away: clients ask another one.
func (h hook) tells(cmds []redis.Cmder, err error) bool {
	return !h.whole && (h.address == "" || isAnswer(err) || slices.ContainsFunc(cmds, concernsData))
}
