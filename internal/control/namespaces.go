package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/lua/contract"
)

// Namespace is a tenant that tasks or schedules were submitted to.
type Namespace = layout.Namespace

// ListNamespaces returns the namespaces to which something was submitted, by name. Error: CodeUnavailable.
func (c *Control) ListNamespaces(ctx context.Context, who Caller) ([]Namespace, error) {
	if _, err := c.begin(ctx, who, "listNamespaces"); err != nil {
		return nil, err
	}
	return c.store.Namespaces(ctx)
}

// LatestNamespacesLimit is how many namespaces LatestNamespaces returns.
const LatestNamespacesLimit = 30

// LatestNamespaces returns the names of the namespaces to which something was submitted last, sorted. more says that
// there are others. The names are up to ten seconds old, so that pages can show them without a call to Redis each.
// Error: CodeUnavailable.
func (c *Control) LatestNamespaces(ctx context.Context, who Caller) (names []string, more bool, _ error) {
	if _, err := c.begin(ctx, who, "listNamespaces"); err != nil {
		return nil, false, err
	}
	names, err := c.latestNames.Get(ctx, latestNamesRules, func(ctx context.Context) ([]string, error) {
		return c.store.LatestNamespaces(ctx, LatestNamespacesLimit+1)
	})
	if err != nil {
		return nil, false, err
	}
	names = slices.Clone(names)
	more = len(names) > LatestNamespacesLimit
	names = names[:min(len(names), LatestNamespacesLimit)]
	slices.Sort(names)
	return names, more, nil
}

// latestNamesRules: all callers wait for the first reading of the names, and one for each later one.
var latestNamesRules = fresh.Rules{Lifetime: 10 * time.Second, Limit: latestTimeout, Tolerate: fresh.Always}

// namespaceInterval is how often a node records that a namespace is in use.
const namespaceInterval = time.Minute

const (
	namespaceRetry   = 10 * time.Second // after which it is tried again
	namespaceTimeout = time.Second      // of a try: the server of the list may be silent, and that of the task not
)

// namespaceNotes remembers which namespaces this node has recorded lately.
type namespaceNotes struct {
	mu    sync.Mutex
	noted map[string]time.Time
	wipes int64 // how often Redis had lost the data by then
}

// due says whether a namespace has to be recorded again, as also after another loss of the data, and counts it as recorded.
func (n *namespaceNotes) due(name string, wipes int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if wipes != n.wipes {
		n.noted, n.wipes = nil, wipes
	}
	if at, ok := n.noted[name]; ok && clock.Since(at) < namespaceInterval {
		return false
	}
	if n.noted == nil || len(n.noted) >= contract.NamespacesLimit {
		n.noted = make(map[string]time.Time)
	}
	n.noted[name] = clock.Now()
	return true
}

// retry has namespaces recorded again at their first use after namespaceRetry.
func (n *namespaceNotes) retry(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		if _, noted := n.noted[name]; noted {
			n.noted[name] = clock.Now().Add(namespaceRetry - namespaceInterval)
		}
	}
}

// noteNamespaces records that something was submitted to namespaces, unless this node did so within the last minute. A
// failure is logged: the submission itself succeeded.
func (c *Control) noteNamespaces(ctx context.Context, names ...string) {
	var due []string
	for _, name := range names {
		if c.namespaces.due(name, c.store.Wipes()) {
			due = append(due, name)
		}
	}
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	if err := c.store.NoteNamespaces(ctx, due); err != nil {
		c.namespaces.retry(due)
		c.log.Warn("cannot record the use of namespaces", "count", len(due), "error", err)
	}
}
