package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

const (
	leaveLimit = 2 * time.Second       // how long leaving may take
	deathSlack = 20 * time.Millisecond // after the time when a node counts as dead, to be sure that it does
)

// Run beats until ctx ends, then ends what Guard guards, leaves the list, and returns nil. It runs once.
func (r *Registry) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { r.listen(ctx) })
	for ctx.Err() == nil {
		r.rest(ctx, r.beat(ctx))
	}
	r.guard.cut()
	r.leave(ctx)
	listening.Wait()
	return nil
}

// listen asks for a beat whenever another node has news, or when news may have been missed.
func (r *Registry) listen(ctx context.Context) {
	heard := func(_, news string) {
		if _, id, _ := strings.Cut(news, " "); id != r.o.ID {
			r.nudge()
		}
	}
	if err := r.o.DB.Listen(ctx, r.nudge, heard, string(r.o.Channel)); err != nil {
		r.o.Log.Warn("cannot subscribe to node changes; falling back to heartbeats", slog.Any("error", err))
	}
}

// rest waits for d, or until somebody asks for a beat.
func (r *Registry) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

// beat beats once, and says how long to rest until the next time.
func (r *Registry) beat(ctx context.Context) time.Duration {
	start := clock.Now()
	self := r.self()
	reply, err := r.send(ctx, self)
	if err != nil {
		r.complain(ctx, err)
		return r.o.Beat / 4
	}
	if reply.Joined { // whatever was guarded until now, others may have taken over
		r.guard.cut()
	}
	r.guard.extend(start)
	r.recovered()
	r.told = self.State
	members := r.members(reply.Now, reply.Nodes)
	r.adopt(View{At: reply.Now, Nodes: nodesOf(members), self: self})
	r.tellReady()
	return max(r.untilNews(reply.Now, members)-clock.Since(start), r.o.Beat/10)
}

// self is what this node says of itself now.
func (r *Registry) self() Node {
	n := r.o.Self()
	n.ID, n.State, n.LastBeat = r.o.ID, StateAlive, time.Time{}
	if r.draining.Load() {
		n.State = StateDraining
	}
	if n.StartedAt.IsZero() {
		n.StartedAt = r.started
	}
	n.StartedAt = n.StartedAt.UTC()
	return n
}

// send beats for this node.
func (r *Registry) send(ctx context.Context, self Node) (lua.BeatReply, error) {
	text, err := json.Marshal(entry{Node: self, BeatMS: r.o.Beat.Milliseconds()})
	if err != nil {
		return lua.BeatReply{}, fmt.Errorf("writing what this node says of itself: %w", err)
	}
	news := ""
	if self.State != r.told {
		news = self.State
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Beat/2)
	defer cancel()
	return redisx.Run(ctx, r.o.DB, lua.Beat{
		Nodes: r.o.Key, ID: lua.NodeID(r.o.ID), Entry: string(text), Dead: missable * r.o.Beat, Keep: r.o.Keep,
		Members: r.o.Channel, News: news,
	})
}

// untilNews is how long until the next beat, or until a node that seems to fail would be dead: a node's death
// is noticed when it happens, not a beat later.
func (r *Registry) untilNews(now time.Time, members []member) time.Duration {
	next := r.o.Beat
	for _, m := range members {
		if m.State != StateDead && m.ID != r.o.ID {
			next = min(next, m.dies.Sub(now)+deathSlack)
		}
	}
	return next
}

func (r *Registry) members(now time.Time, entries map[string]string) []member {
	members, wrong := parseNodes(now, entries)
	for _, err := range wrong {
		r.o.Log.Warn("a node's entry cannot be read", slog.Any("error", err))
	}
	return members
}

func nodesOf(members []member) []Node {
	nodes := make([]Node, len(members))
	for i, m := range members {
		nodes[i] = m.Node
	}
	return nodes
}

func (r *Registry) tellReady() {
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
}

// complain reports the first of several failures.
func (r *Registry) complain(ctx context.Context, err error) {
	if !r.failed && ctx.Err() == nil {
		r.o.Log.Warn("heartbeat failed, trying again", slog.Any("error", err))
		r.failed = true
	}
}

func (r *Registry) recovered() {
	if r.failed {
		r.o.Log.Info("heartbeat works again")
		r.failed = false
	}
}

// leave takes this node off the list, so that the others need not wait for its death. If it cannot, they do.
func (r *Registry) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	if _, err := redisx.Run(ctx, r.o.DB, lua.Leave{Nodes: r.o.Key, ID: lua.NodeID(r.o.ID), Members: r.o.Channel}); err != nil {
		r.o.Log.Warn("this node could not leave the list: it will count as dead soon", slog.Any("error", err))
	}
}
