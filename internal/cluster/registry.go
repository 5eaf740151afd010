package cluster

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// The defaults of Options.
const (
	DefaultBeat = 2 * time.Second
	DefaultKeep = time.Hour
)

// Options describe this node and the list of nodes. DB, Key and ID are required.
type Options struct {
	DB *redisx.DB
	// Key is the key of the hash that lists all nodes.
	Key lua.NodesKey
	// Cordons is the key of the hash of cordons. "" means that there are none.
	Cordons lua.CordonsKey
	// Channel is the pub/sub channel on which "<word> <id> <ms>" is published when a node joins, leaves, dies or changes
	// its state. "" means the same name as Key.
	Channel lua.MembersChannel
	// ID is the id of this node, see NewNodeID.
	ID string
	// Beat is the time between two heartbeats. 0 means DefaultBeat; the least is 1 ms.
	Beat time.Duration
	// Keep is how long the entry of a dead node stays in the list for people to see. 0 means DefaultKeep.
	Keep time.Duration
	// Self returns the current data of this node. The registry calls it at each heartbeat and sets ID, State
	// and LastBeat, and StartedAt if it is zero.
	Self func() Node
	// Guests returns the workers that reach Redis through this node, each with its ID. They are on the list while they are
	// among them. nil means none.
	Guests func() []Node
	// Rejoined is called by Run when this node is not on the list, or as a dead one, although it was before. forgotten says that it is not there at
	// all, and lately that it had sent a heartbeat so recently that nobody has removed it for its age. nil for no call.
	Rejoined func(forgotten, lately bool)
	// Seen is called by Run with each view; with the first one before Ready is closed. nil for no call.
	Seen func(View)
	// Check is called by an Observer when it reads the list for a view; nil for no call.
	Check func(ctx context.Context)
	// WentBack, if set, is called when Redis does not know a heartbeat that it had acknowledged: it has lost writes since a time. forgotten
	// says that it does not know this node at all.
	WentBack func(ctx context.Context, since, now time.Time, forgotten bool)
	// Log receives warnings about failed heartbeats and invalid entries. nil discards them.
	Log *slog.Logger
}

// Registry sends the heartbeats of this node and tracks the other nodes.
type Registry struct {
	o       Options
	started time.Time

	draining atomic.Bool
	wake     chan struct{} // requests a heartbeat at once; its buffer of one merges several requests
	ready    chan struct{} // closed after the first heartbeat

	// Only the goroutine of Run uses these.
	announced string    // the state in the last successful heartbeat
	first     time.Time // successful heartbeat, by the clock of Redis
	failing   bool      // whether the last heartbeat failed
	// Heartbeats are numbered from the time at which the process started, in ms, so that those of another process with the same id are lower.
	sequence     int     // of the last heartbeat that was sent
	acknowledged int     // sequence of the last successful heartbeat; 0: none
	cordons      cordons // that were read last
	unread       error   // why the last heartbeat could not read them; nil if it could
	// spareUntil is until when nodes are spared that missed heartbeats when this node missed its own.
	spareUntil time.Time

	mu       sync.Mutex
	view     View
	watchers map[chan struct{}]struct{}
}

// New returns a registry. Its View is empty until Run has sent the first heartbeat.
func New(o Options) *Registry {
	if o.Channel == "" {
		o.Channel = lua.MembersChannel(o.Key)
	}
	if o.Beat <= 0 {
		o.Beat = DefaultBeat
	}
	o.Beat = max(o.Beat.Truncate(time.Millisecond), time.Millisecond)
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	if o.Self == nil {
		o.Self = func() Node { return Node{} }
	}
	if o.Guests == nil {
		o.Guests = func() []Node { return nil }
	}
	if o.Seen == nil {
		o.Seen = func(View) {}
	}
	if o.Rejoined == nil {
		o.Rejoined = func(bool, bool) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	started := clock.Now()
	return &Registry{
		o:        o,
		started:  started,
		sequence: int(started.UnixMilli()),
		wake:     make(chan struct{}, 1),
		ready:    make(chan struct{}),
		view:     View{self: Node{ID: o.ID}},
		watchers: map[chan struct{}]struct{}{},
	}
}

// Ready is closed after the first successful heartbeat. This node is then on the list, and View shows it.
func (r *Registry) Ready() <-chan struct{} { return r.ready }

// View returns the nodes as of the last successful heartbeat (View.At).
func (r *Registry) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// Now is the time by Redis's clock, as far as the heartbeats of this node tell it; zero before the first one.
func (r *Registry) Now() time.Time { return r.View().Now() }

// Nodes reads the list from Redis, including dead nodes, sorted by id. Entries that cannot be read are left out, which
// redisx.LeavingOut notes. Error: *task.Error with CodeUnavailable.
func (r *Registry) Nodes(ctx context.Context) ([]Node, error) {
	_, nodes, err := r.read(ctx)
	if redisx.LeaveOutKey(ctx, string(r.o.Key), err) {
		return nil, nil
	}
	return nodes, err
}

// read is Nodes with the time of Redis.
func (r *Registry) read(ctx context.Context) (time.Time, []Node, error) {
	var reply lua.ReadNodesReply
	var found cordons
	var err, unread error
	calls.Do(
		func() { reply, err = redisx.Run(ctx, r.o.DB, lua.ReadNodes{Nodes: r.o.Key}) },
		func() { found, unread = r.readCordons(ctx) },
	)
	if err == nil && unread != nil {
		found, err = r.knownCordons(ctx, unread)
	}
	if err != nil {
		message := "cannot read the list of nodes: " + redisx.WithoutDoubt(redisx.WhyNot(err))
		return time.Time{}, nil, &task.Error{Code: task.CodeUnavailable, Message: message, Err: err}
	}
	nodes := nodesOf(r.members(ctx, reply.Now, reply.Nodes))
	found.apply(nodes, reply.Now)
	return reply.Now, nodes, nil
}

// knownCordons returns the cordons as of the last heartbeat, as they cannot be read now. Error: why not, if this node has
// no heartbeats, unless something else is stored in their place.
func (r *Registry) knownCordons(ctx context.Context, unread error) (cordons, error) {
	known := r.View()
	if known.At.IsZero() && !redisx.IsDamage(unread) {
		return nil, unread
	}
	redisx.LeaveOut(ctx, "it is not known which nodes are cordoned: %s", redisx.WithoutDoubt(redisx.WhyNot(unread)))
	return known.cordons, nil
}

// SetDraining sets whether this node finishes its work and accepts no new work. A heartbeat tells the other nodes
// at once.
func (r *Registry) SetDraining(draining bool) {
	r.draining.Store(draining)
	r.requestBeat()
}

// BeatNow has Run send a heartbeat at once, because the data of this node, or its guests, have changed.
func (r *Registry) BeatNow() { r.requestBeat() }

// requestBeat makes Run send a heartbeat at once.
func (r *Registry) requestBeat() {
	select {
	case r.wake <- struct{}{}:
	default: // a heartbeat is requested already
	}
}
