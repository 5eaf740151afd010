package test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// fewest has a node open no more connections than it must, and connections is how many that are for one with all roles, as docs/operations.md
// says.
const (
	fewest      = "?pool_size=1&pipeline_pool_size=-1"
	connections = 6
)

// Promises 1 to 3 on a Redis that has no more connections than the nodes need: leases and heartbeats are held while work goes on.
func TestFewConnections_AreEnoughForTwoNodes(t *testing.T) {
	t.Parallel()
	const ofTheTest = 1
	redis := redistest.Start(t, redistest.With("--maxclients", strconv.Itoa(2*connections+ofTheTest)))
	db := redistest.Open(t, redis.URL()+fewest)
	url := redis.URL() + fewest
	a, b := startNode(t, url), startNode(t, url)
	await(t, 30*time.Second, "both nodes lead", func() bool { return len(a.partitions(a.id)) == 8 && len(a.partitions(b.id)) == 8 })
	w := newWork(t, a, b)
	begin, err := db.Time(t.Context()).Result()
	testkit.Must(t, err)
	w.awaitBegun(time.Now())
	await(t, time.Minute, "both nodes live on", func() bool { return a.beatAfter(begin.Add(outage), a.id, b.id) })
	if led, others := len(a.partitions(a.id)), len(a.partitions(b.id)); led != 8 || others != 8 {
		t.Errorf("the nodes lead %d and %d partitions, want 8 each", led, others)
	}
	w.finish()
	fields, err := redisx.Info(t.Context(), db, "stats")
	testkit.Must(t, err)
	if n := fields["rejected_connections"]; n != "0" {
		t.Errorf("Redis has refused %s connections", n)
	}
	for _, n := range []*node{a, b} {
		if log := n.Log(); strings.Contains(log, "lease lost") || strings.Contains(log, "Redis unreachable") {
			t.Errorf("node %s has lost a lease, or Redis", n.id)
		}
	}
}
