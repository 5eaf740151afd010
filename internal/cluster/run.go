package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

const (
	leaveTimeout = 2 * time.Second       // how long leaving the list may take
	deathMargin  = 20 * time.Millisecond // added to the time when a node counts as dead, so that it is certainly over
)

// Run sends heartbeats until ctx ends. Then it removes this node from the list, and
// returns nil. Run may be called once.
func (r *Registry) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { r.listen(ctx) })
	for ctx.Err() == nil {
		r.wait(ctx, r.beat(ctx))
	}
	r.leave(ctx)
	listening.Wait()
	return nil
}

// listen requests a heartbeat whenever another node publishes a change, and after each (re)subscription, because
// changes may have been missed before.
func (r *Registry) listen(ctx context.Context) {
	onChange := func(_, message string) {
		if change.MemberOf(message) != r.o.ID || change.IsOfCordon(message) {
			r.requestBeat()
		}
	}
	listener := redisx.Listener{Connected: func(string) { r.requestBeat() }, Message: onChange}
	if err := r.o.DB.ListenShared(ctx, listener, string(r.o.Channel)); err != nil {
		r.o.Log.Warn("cannot subscribe to node changes; falling back to heartbeats", slog.Any("error", err))
	}
}

// wait returns after d, when a heartbeat is requested, or when ctx ends.
func (r *Registry) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

// beat sends one heartbeat and returns how long to wait before the next one.
func (r *Registry) beat(ctx context.Context) time.Duration {
	start := clock.Now()
	self := r.self()
	err := r.beatForGuests(ctx) // before this node reads the list
	var reply lua.BeatReply
	var failure error
	calls.Do(
		func() { reply, failure = r.send(ctx, self) },
		func() { r.refreshCordons(ctx) },
	)
	var members []member
	if failure == nil {
		members, failure = r.living(ctx, reply)
	}
	if err = errors.Join(failure, err); err != nil {
		r.reportFailure(ctx, err)
		return r.o.Beat / 4
	}
	r.reportRecovery()
	r.announced = self.State
	if before := r.View().seen; reply.Joined && !before.IsZero() {
		r.o.Rejoined(reply.Before.IsZero(), clock.Since(before) < missedLimit*r.o.Beat)
	}
	r.checkBefore(ctx, reply)
	r.noteView(View{At: reply.Now, Nodes: nodesOf(members), self: self, cordons: r.cordons, seen: clock.Now()})
	r.markReady()
	return max(r.untilNextBeat(reply.Now, members)-clock.Since(start), r.o.Beat/10)
}

// refreshCordons reads the cordons again. If they cannot be read, those that are known stay in force.
func (r *Registry) refreshCordons(ctx context.Context) {
	read, err := r.readCordons(ctx)
	if err == nil {
		r.cordons = read
	} else if r.unread == nil && ctx.Err() == nil {
		r.o.Log.WarnContext(ctx, "cannot read which nodes are cordoned: the last known cordons stay in force", "error", err)
	}
	r.unread = err
}

// noteView sets the view, and marks the nodes that are cordoned.
func (r *Registry) noteView(v View) {
	v.cordons.apply(v.Nodes, v.At)
	r.setView(v)
	r.o.Seen(v)
}

// checkBefore notices if Redis does not know the last heartbeat that it acknowledged. It says nothing if this node was away and Redis may have
// removed its entry.
func (r *Registry) checkBefore(ctx context.Context, reply lua.BeatReply) {
	if r.first.IsZero() {
		r.first = reply.Now
	}
	acknowledged := r.acknowledged
	r.acknowledged = r.sequence
	if r.o.WentBack == nil || reply.Known >= acknowledged {
		return
	}
	since := reply.Before
	if since.IsZero() {
		since = r.first
		if clock.Since(r.View().seen) > missedLimit*r.o.Beat {
			return
		}
	}
	if since.After(reply.Now) { // the clock of Redis has jumped back too
		since = reply.Now
	}
	r.o.WentBack(ctx, since, reply.Now, reply.Before.IsZero())
}

// living returns the nodes that live, by the reply to a heartbeat. It lets nodes live that this node knew to be alive, if its own last
// heartbeat was late, as Redis may have been out of reach for all of them, or if the clock of Redis has jumped ahead. They have the time in
// which a node counts as dead to send another one. Error: one of Redis.
func (r *Registry) living(ctx context.Context, reply lua.BeatReply) ([]member, error) {
	isDead := func(m member) bool { return m.State == StateDead }
	members := slices.DeleteFunc(r.members(ctx, reply.Now, reply.Nodes), isDead)
	before := r.View()
	if !before.seen.IsZero() && (clock.Since(before.seen) > 2*r.o.Beat || reply.Now.Sub(before.Now()) > r.o.Beat) {
		r.spareUntil = clock.Now().Add(missedLimit * r.o.Beat)
	}
	left := clock.Until(r.spareUntil)
	if left <= 0 {
		r.tellDeaths(ctx, reply.Now, before, members)
		return members, nil
	}
	all, err := redisx.Run(ctx, r.o.DB, lua.ReadNodes{Nodes: r.o.Key})
	if err != nil {
		return nil, err
	}
	states := before.liveStates()
	for _, m := range r.members(ctx, reply.Now, all.Nodes) {
		if state, alive := states[m.ID]; alive && isDead(m) {
			m.State, m.deadAt = state, reply.Now.Add(left)
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.ID, b.ID) })
	return members, nil
}

// tellDeaths logs which of the nodes that lived at the last heartbeat have died since; those that left are not on the list any more. One of
// the nodes publishes it, too.
func (r *Registry) tellDeaths(ctx context.Context, now time.Time, before View, living []member) {
	gone := before.liveStates()
	delete(gone, r.o.ID)
	for _, m := range living {
		delete(gone, m.ID)
	}
	if len(gone) == 0 {
		return
	}
	all, err := r.Nodes(ctx)
	if err != nil && ctx.Err() == nil {
		r.o.Log.WarnContext(ctx, "cannot read which nodes have died or left", "nodes", slices.Sorted(maps.Keys(gone)), "error", err)
	}
	for _, n := range all {
		if _, lived := gone[n.ID]; lived && n.State == StateDead {
			r.o.Log.WarnContext(ctx, "a node has died: others take over its partitions and attempts", "died", n.ID,
				"host", n.Host, "address", n.IP, "roles", strings.Join(n.Roles, ","),
				"partitions", len(n.Partitions), "last_beat", n.LastBeat, "running_at_last_beat", n.Tasks)
			if r.speaksFirst(living) {
				r.publishDeath(ctx, now, n.ID)
			}
		}
	}
}

// speaksFirst reports whether this node has the least id of the living ones: one of them publishes what all of them see. For
// a moment they may not agree who lives, so a death may be published twice, or by nobody.
func (r *Registry) speaksFirst(living []member) bool {
	return !slices.ContainsFunc(living, func(m member) bool { return m.Via == "" && m.ID < r.o.ID })
}

// publishDeath tells those who follow changes that a node counts as dead. If Redis does not answer, nobody hears of it.
func (r *Registry) publishDeath(ctx context.Context, now time.Time, id string) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Beat/2)
	defer cancel()
	_ = r.o.DB.Publish(ctx, string(r.o.Channel), fmt.Sprintf("%s %s %d", change.LostWord, id, now.UnixMilli())).Err()
}

// self returns the current data of this node.
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

// send writes the entry of this node and reads all entries. It publishes the state of this node if that has changed.
func (r *Registry) send(ctx context.Context, self Node) (lua.BeatReply, error) {
	r.sequence++
	text, err := json.Marshal(entry{Sequence: r.sequence, Node: self, BeatMS: r.o.Beat.Milliseconds()})
	if err != nil {
		return lua.BeatReply{}, fmt.Errorf("encoding the entry of this node: %w", err)
	}
	change := ""
	if self.State != r.announced {
		change = self.State
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Beat/2)
	defer cancel()
	return redisx.Run(ctx, r.o.DB, lua.Beat{
		Nodes: r.o.Key, ID: lua.NodeID(r.o.ID), Entry: string(text), Dead: missedLimit * r.o.Beat, Missed: missedLimit, Keep: r.o.Keep,
		Members: r.o.Channel, News: change,
	})
}

// untilNextBeat returns the time until the next regular heartbeat, or until another node would count as dead if
// that comes first, so that a death is noticed when it happens.
func (r *Registry) untilNextBeat(now time.Time, members []member) time.Duration {
	next := r.o.Beat
	for _, m := range members {
		if m.State != StateDead && m.ID != r.o.ID {
			next = min(next, m.deadAt.Sub(now)+deathMargin)
		}
	}
	return next
}

// members parses the entries of all nodes and logs a warning for each invalid one.
func (r *Registry) members(ctx context.Context, now time.Time, entries map[string]string) []member {
	members, errs := parseNodes(now, entries)
	for _, err := range errs {
		redisx.LeaveOut(ctx, "%v", err)
		r.o.Log.Warn("skipping the unreadable entry of a node", slog.Any("error", err))
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

// markReady closes ready, once.
func (r *Registry) markReady() {
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
}

// reportFailure logs the first of several failed heartbeats in a row.
func (r *Registry) reportFailure(ctx context.Context, err error) {
	if !r.failing && ctx.Err() == nil {
		r.o.Log.Warn("heartbeat failed, trying again", slog.Any("error", err))
		r.failing = true
	}
}

// reportRecovery logs the first successful heartbeat after a failed one.
func (r *Registry) reportRecovery() {
	if r.failing {
		r.o.Log.Info("heartbeat works again")
		r.failing = false
	}
}

// leave removes this node from the list, so that the other nodes need not wait until it counts as dead.
func (r *Registry) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := redisx.Run(ctx, r.o.DB, lua.Leave{Nodes: r.o.Key, ID: lua.NodeID(r.o.ID), Members: r.o.Channel}); err != nil {
		r.o.Log.Warn("cannot remove this node from the list of nodes; it will count as dead soon", slog.Any("error", err))
	}
}
