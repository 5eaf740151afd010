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
	reads    sync.WaitGroup
	ctx      context.Context // of reads for views
	stop     context.CancelFunc

	mu      sync.Mutex
	closed  bool
	began   time.Time     // when the last read for a view began
	reading chan struct{} // closed at the end of the read that is under way; nil: there is none
	failed  bool          // the last read failed
	view    View
}

// NewObserver returns an observer of the list of nodes. Of the options, only DB, Key, Cordons, Channel,
// Beat, Log and Check count.
func NewObserver(o Options) *Observer {
	ctx, stop := context.WithCancel(context.Background())
	return &Observer{registry: New(o), ctx: ctx, stop: stop}
}

// Close ends what View has begun, and waits for it. Afterwards, View reads nothing.
func (o *Observer) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.stop()
	o.reads.Wait()
}

// Nodes reads the list from Redis, as Registry.Nodes does.
func (o *Observer) Nodes(ctx context.Context) ([]Node, error) { return o.registry.Nodes(ctx) }

// Cordon keeps the workers of a node from taking tasks, as Registry.Cordon does.
func (o *Observer) Cordon(ctx context.Context, node string, c Cordon, lasts time.Duration) error {
	return o.registry.Cordon(ctx, node, c, lasts)
}

// Uncordon ends a cordon, as Registry.Uncordon does.
func (o *Observer) Uncordon(ctx context.Context, node string) (was bool, _ error) {
	return o.registry.Uncordon(ctx, node)
}

// View returns the list of nodes, which it reads again after the time between two heartbeats. Where the list cannot be read, it
// returns the empty View: callers wait for the first read that fails, and not for those that follow before one succeeds.
func (o *Observer) View() View {
	if reading := o.refresh(); reading != nil {
		<-reading
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.view
}

// refresh begins a read if the view is too old. It returns what is closed at the end of the read for which the caller has to wait; nil for none.
func (o *Observer) refresh() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.reading == nil && (o.began.IsZero() || clock.Since(o.began) >= o.registry.o.Beat) {
		o.began, o.reading = clock.Now(), make(chan struct{})
		o.reads.Go(o.read)
	}
	if o.failed {
		return nil
	}
	return o.reading
}

// read reads the list for the view.
func (o *Observer) read() {
	ctx, cancel := context.WithTimeout(o.ctx, viewTimeout)
	defer cancel()
	if o.registry.o.Check != nil {
		o.registry.o.Check(ctx)
	}
	at, nodes, err := o.registry.read(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.view, o.failed = View{}, err != nil
	if err == nil {
		o.view = View{At: at, Nodes: nodes, seen: clock.Now()}
	}
	close(o.reading)
	o.reading = nil
}
