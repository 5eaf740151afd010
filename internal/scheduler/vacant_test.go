package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// ghost lists a scheduler node that leads nothing.
func (w *world) ghost(id string) (leave func()) {
	w.t.Helper()
	r := w.member(id, config.RoleScheduler, redistest.Open(w.t, w.url))
	ctx, cancel := context.WithCancel(w.t.Context())
	left := make(chan error, 1)
	go func() { left <- r.Run(ctx) }()
	testkit.Receive(w.t, r.Ready(), "the ghost's first beat")
	return func() {
		cancel()
		testkit.Must(w.t, testkit.Receive(w.t, left, "the ghost's end"))
	}
}

// The list of nodes says that a ghost leads half of the partitions.
func TestBalance_LeadsWhatStoodFreeForLongWhateverTheListSays(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const ttl = 3 * time.Second // long enough to be renewed in time on a busy machine
	w := newWorld(t)
	leave := w.ghost("ghost")
	a := w.start("a", ttl)
	testkit.Eventually(t, "a leads its share", func() bool { return len(a.Led()) == 8 })
	w.leads(map[*node]int{a: 16})
	before := w.fences()
	testkit.Must(t, w.db.Publish(t.Context(), string(w.store.Keys.Leaders()), "free").Err())
	a.quiet("acquire_lease")
	for p, fence := range w.fences() {
		if fence != before[p] {
			t.Errorf("partition %d: %s became %s, though nobody came", p, before[p], fence)
		}
	}
	b := w.start("b", ttl)
	testkit.Eventually(t, "b leads something", func() bool { return len(b.Led()) > 0 })
	leave()
	w.leads(map[*node]int{a: 8, b: 8})
}
