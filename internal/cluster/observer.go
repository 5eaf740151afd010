package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// viewTimeout is how long an Observer waits for the list of nodes when it is asked for a view.
const viewTimeout = time.Second

// Observer knows the nodes without being one of them.
type Observer struct {
	registry *Registry // which never runs

	mu   sync.Mutex
	read time.Time
	view View
}

// NewObserver returns an observer of the list of nodes. Of the options, only DB, Key, Beat, Log and Check count.
func NewObserver(o Options) *Observer { return &Observer{registry: New(o)} }

// Nodes reads the list from Redis, as Registry.Nodes does.
func (o *Observer) Nodes(ctx context.Context) ([]Node, error) { return o.registry.Nodes(ctx) }

// View returns the list of nodes, which it reads again after the time between two heartbeats. Where the list cannot be read, it
// returns the empty View.
func (o *Observer) View() View {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.read.IsZero() && clock.Since(o.read) < o.registry.o.Beat {
		return o.view
	}
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	if o.registry.o.Check != nil {
		o.registry.o.Check(ctx)
	}
	at, nodes, err := o.registry.read(ctx)
	o.read, o.view = clock.Now(), View{}
	if err == nil {
		o.view = View{At: at, Nodes: nodes, seen: o.read}
	}
	return o.view
}
