package cluster

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Defaults of Options.
const (
	DefaultBeat = 2 * time.Second
	DefaultKeep = time.Hour
)

// Options says which node this is and where the nodes are listed. DB, Key and ID are needed.
type Options struct {
	DB *redisx.DB
	// Key is the hash of all nodes.
	Key lua.NodesKey
	// Channel is the pub/sub channel that is told "<word> <id>" when a node joins, leaves or drains; ""
	// means the same name as Key.
	Channel lua.MembersChannel
	// ID is this node's, see NewNodeID.
	ID string
	// Beat is the time between two beats; 0 means DefaultBeat. It is at least 1 ms.
	Beat time.Duration
	// Keep is how long the entry of a dead node is kept for people to see; 0 means DefaultKeep.
	Keep time.Duration
	// Self tells the current figures of this node, and is called at each beat. ID, State and LastBeat are
	// filled in, and StartedAt if it is zero.
	Self func() Node
	// Log is where trouble with the heartbeat is reported; nil means nowhere.
	Log *slog.Logger
}

// Registry beats for this node and sees the others.
type Registry struct {
	o       Options
	started time.Time
	guard   *guard

	draining atomic.Bool
	wake     chan struct{} // asks for a beat at once; holds one, so that many are one
	ready    chan struct{} // closed after the first beat

	// Only the goroutine of Run uses these.
	told   string // the state that the last beat told the others
	failed bool   // the last beat

	mu       sync.Mutex
	view     View
	watchers map[chan struct{}]struct{}
}

// New makes a registry, which knows nothing until Run beats.
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Registry{
		o:        o,
		started:  clock.Now(),
		guard:    newGuard(missable*o.Beat - o.Beat/2),
		wake:     make(chan struct{}, 1),
		ready:    make(chan struct{}),
		view:     View{self: Node{ID: o.ID}},
		watchers: map[chan struct{}]struct{}{},
	}
}

// Ready is closed once the first beat has been heard: this node is on the list, and View shows it.
func (r *Registry) Ready() <-chan struct{} { return r.ready }

// View is what the last beat saw. It may be as old as the last successful beat (View.At).
func (r *Registry) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// Nodes reads the list from Redis now, dead nodes too, sorted by id. Error: CodeUnavailable.
func (r *Registry) Nodes(ctx context.Context) ([]Node, error) {
	reply, err := redisx.Run(ctx, r.o.DB, lua.ReadNodes{Nodes: r.o.Key})
	if err != nil {
		return nil, &task.Error{Code: task.CodeUnavailable, Message: "the nodes cannot be read", Err: err}
	}
	return nodesOf(r.members(reply.Now, reply.Nodes)), nil
}

// Guard derives a context from ctx that ends, with the cause ErrCutOff, when this node could not beat for so
// long that others may soon count it as dead, or when it leaves. Trust is counted from the start of the last
// beat that was answered, so the context ends before others may take over. If this node is cut off already,
// the context has ended when Guard returns. The second result ends the context and frees what it holds.
func (r *Registry) Guard(ctx context.Context) (context.Context, func()) {
	return r.guard.watch(ctx)
}

// SetDraining says whether this node ends its work and takes on nothing new. The others are told at once.
func (r *Registry) SetDraining(draining bool) {
	r.draining.Store(draining)
	r.nudge()
}

// nudge asks Run for a beat at once.
func (r *Registry) nudge() {
	select {
	case r.wake <- struct{}{}:
	default: // one is asked for already
	}
}
