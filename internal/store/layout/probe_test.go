package layout_test

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
)

// A node works on with the servers of a cluster that are left.
func TestReady_NeedsOneServerOfAClusterThatTakesWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l, err := layout.Open(t.Context(), layout.Options{DB: redistest.Open(t, cluster.URL())})
	testkit.Must(t, err)
	ready := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return l.Ready(ctx)
	}
	testkit.Must(t, ready())
	holders := make(map[*redistest.Server]bool)
	for p := range layout.DefaultPartitions {
		holders[cluster.Primary(string(l.Keys.Partition(p).States()))] = true
	}
	left := len(holders)
	for server := range holders {
		if left--; left%2 == 0 {
			server.RefuseWrites()
		} else {
			server.Pause()
			defer server.Continue()
		}
		if err := ready(); (err == nil) != (left > 0) {
			t.Errorf("with %d servers left: %v", left, err)
		}
	}
}
