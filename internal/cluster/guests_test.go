package cluster_test

import (
	"sync/atomic"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestRegistry_ListsGuestsWhileTheyAreThere(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var there atomic.Bool
	host := run(t, cluster.Options{DB: srv.DB(t), ID: "host", Beat: brief, Guests: func() []cluster.Node {
		if !there.Load() {
			return nil
		}
		return []cluster.Node{{ID: "py-1", Roles: []string{"worker"}, Capacity: 4, Queues: map[string]int{"q": 1}, Types: []string{"count"}}}
	}}).awaitReady()
	other := run(t, cluster.Options{DB: srv.DB(t), ID: "other", Beat: brief}).awaitReady()

	there.Store(true)
	host.BeatNow()
	view := other.awaitView("the guest is alive", sees("py-1", cluster.StateAlive))
	for _, n := range view.Nodes {
		if n.ID == "py-1" && (n.Via != "host" || n.Capacity != 4 || n.Queues["q"] != 1 || !n.Has("worker") || n.LastBeat.IsZero()) {
			t.Errorf("the guest is %+v", n)
		}
	}
	there.Store(false)
	other.awaitView("it is dead", sees("py-1", ""))
	there.Store(true)
	host.BeatNow()
	other.awaitView("it is alive again", sees("py-1", cluster.StateAlive))
	there.Store(false)
	testkit.Must(t, host.RemoveGuest(t.Context(), "py-1"))
	other.awaitView("it has left", sees("py-1", ""))
}
