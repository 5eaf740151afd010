package cluster_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestGuard_EndsBeforeOthersSeeTheNodeDead(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*redistest.Proxy){
		"connections are cut": (*redistest.Proxy).Cut,
		"nothing arrives":     (*redistest.Proxy).Hold,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			db, proxy := behindProxy(t, srv)
			other := run(t, cluster.Options{DB: srv.DB(t), ID: "other", Beat: 2 * brief})
			n := run(t, cluster.Options{DB: db, ID: "a", Beat: 2 * brief}).awaitReady()
			other.awaitView("a lives", sees("a", cluster.StateAlive))
			guarded, stop := n.Guard(t.Context())
			defer stop()

			breakIt(proxy)
			other.awaitView("a is dead", sees("a", cluster.StateDead))
			if guarded.Err() == nil {
				t.Error("others may take over and the guard has not ended")
			}
			if cause := testkit.Cause(t, guarded, "the end of the guard"); !errors.Is(cause, cluster.ErrCutOff) {
				t.Errorf("it ended with %v", cause)
			}
			proxy.Cut()
			proxy.Release()
			proxy.Mend()
			testkit.Eventually(t, "a new guard holds", func() bool {
				again, stop := n.Guard(t.Context())
				defer stop()
				return again.Err() == nil
			})
			if guarded.Err() == nil {
				t.Error("the old guard came back")
			}
		})
	}
}

func TestGuard_OutlivesManyBeats(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	guarded, stop := n.Guard(t.Context())
	defer stop()
	start := n.View().At
	testkit.Eventually(t, "many beats passed", func() bool { return n.View().At.Sub(start) > 6*brief })
	if guarded.Err() != nil {
		t.Errorf("it ended: %v", context.Cause(guarded))
	}
}

func TestGuard_EndsWhenTheNodeLeaves(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: never}).awaitReady()
	guarded, stop := n.Guard(t.Context())
	defer stop()
	n.leave()
	if cause := testkit.Cause(t, guarded, "the end of the guard"); !errors.Is(cause, cluster.ErrCutOff) {
		t.Errorf("it ended with %v", cause)
	}
}

func TestGuard_EndsWithItsParentAndByItsOwnStop(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: never}).awaitReady()

	parent, cancel := context.WithCancelCause(t.Context())
	child, stopChild := n.Guard(parent)
	defer stopChild()
	enough := errors.New("enough")
	cancel(enough)
	if cause := testkit.Cause(t, child, "the end of the guard"); !errors.Is(cause, enough) {
		t.Errorf("it ended with %v", cause)
	}
	stopped, stop := n.Guard(t.Context())
	stop()
	if cause := testkit.Cause(t, stopped, "the end of the guard"); !errors.Is(cause, context.Canceled) {
		t.Errorf("it ended with %v", cause)
	}
}

// Others may have seen that the node was not on the list, and taken over what it did.
func TestGuard_EndsIfTheNodeWasTakenOffTheList(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	guarded, stop := n.Guard(t.Context())
	defer stop()
	if err := db.HDel(t.Context(), key, "a").Err(); err != nil {
		t.Fatal(err)
	}
	if cause := testkit.Cause(t, guarded, "the end of the guard"); !errors.Is(cause, cluster.ErrCutOff) {
		t.Errorf("it ended with %v", cause)
	}
	testkit.Eventually(t, "a new guard holds", func() bool {
		again, stop := n.Guard(t.Context())
		defer stop()
		return again.Err() == nil
	})
}
