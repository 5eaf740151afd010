package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
)

// Namespace is a tenant that tasks or schedules were submitted to.
type Namespace = layout.Namespace

// ListNamespaces returns the namespaces to which something was submitted, by name. Error: CodeUnavailable.
func (c *Control) ListNamespaces(ctx context.Context, _ Caller) ([]Namespace, error) {
	return c.store.Namespaces(ctx)
}

// namespaceInterval is how often a node records that a namespace is in use.
const namespaceInterval = time.Minute

// namespaceNotes remembers which namespaces this node has recorded lately.
type namespaceNotes struct {
	mu    sync.Mutex
	noted map[string]time.Time
}

// due says whether a namespace has to be recorded again, and counts it as recorded.
func (n *namespaceNotes) due(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.noted[name]; ok && clock.Since(at) < namespaceInterval {
		return false
	}
	if n.noted == nil || len(n.noted) >= layout.NamespacesLimit {
		n.noted = make(map[string]time.Time)
	}
	n.noted[name] = clock.Now()
	return true
}

// forget has a namespace recorded again at its next use.
func (n *namespaceNotes) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.noted, name)
}

// noteNamespace records that something was submitted to a namespace. A failure is logged: the submission itself succeeded.
func (c *Control) noteNamespace(ctx context.Context, name string) {
	if !c.namespaces.due(name) {
		return
	}
	if err := c.store.NoteNamespace(ctx, name, clock.Now()); err != nil {
		c.namespaces.forget(name)
		c.log.Warn("cannot record the use of a namespace", "namespace", name, "error", err)
	}
}
