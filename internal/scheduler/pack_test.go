package scheduler

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

// While Redis may have lost writes, a leader looks often whether the index of lists is as it left it.
func TestPack_FindsAnIndexThatWentBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lossy = true
	a := w.start("a", never, func(n *node) { n.pace.lossy = 10 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	keys := w.store.Keys.Partition(3)
	noted, index := string(keys.ListedNew()), string(keys.Listed())
	var revision int64
	testkit.Eventually(t, "the index is built", func() (built bool) {
		revision, _ = w.db.LIndex(t.Context(), noted, 0).Int64()
		return revision > 0 && w.db.HGet(t.Context(), index, "*").Val() == "-"
	})
	testkit.Must(t, w.db.LSet(t.Context(), noted, 0, revision-1).Err())
	testkit.Must(t, w.db.HSet(t.Context(), index, "@", 0).Err()) // that of the leader before
	testkit.Eventually(t, "the leader says again that it keeps the index", func() bool {
		return w.db.HGet(t.Context(), index, "@").Val() == "1"
	})
}
