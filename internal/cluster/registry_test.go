package cluster_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestRegistry_ShowsWhatANodeReportsOfItself(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	self := cluster.Node{
		Host: "host-1", IP: "10.0.0.7", Version: "v1.2.3", Roles: []string{"scheduler", "worker"},
		Capacity: 20, Running: 3, Partitions: []int{1, 5}, Queues: map[string]int{"critical": 6, "low": 1},
		CPU: 0.25, Memory: 1 << 20, StartedAt: time.Date(2026, 1, 2, 15, 4, 5, 250e6, time.UTC),
	}
	before := redisTime(t, db)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: never, Self: func() cluster.Node { return self }}).awaitReady()

	nodes, err := n.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := self
	want.ID, want.State = "a", cluster.StateAlive
	ignoreBeat := cmpopts.IgnoreFields(cluster.Node{}, "LastBeat")
	if diff := cmp.Diff([]cluster.Node{want}, nodes, ignoreBeat); diff != "" {
		t.Errorf("Nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]cluster.Node{want}, n.View().Nodes, ignoreBeat); diff != "" {
		t.Errorf("View (-want +got):\n%s", diff)
	}
	beat := nodes[0].LastBeat
	if beat.Before(before.Truncate(time.Millisecond)) || beat.After(redisTime(t, db)) {
		t.Errorf("the beat at %s is not by Redis's clock, which was %s before", beat, before)
	}
}

func TestRegistry_UpdatesTheFiguresAtEachBeat(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	calls := 0
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief, Self: func() cluster.Node {
		calls++
		return cluster.Node{Running: calls}
	}})
	testkit.Eventually(t, "a later figure shows", func() bool {
		nodes, err := n.Nodes(t.Context())
		return err == nil && len(nodes) == 1 && nodes[0].Running >= 3
	})
}

// The nodes of these tests do not beat by themselves, so all that they learn, the channel told them.

func TestRegistry_ShowsANewNodeAtOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never}).awaitReady()
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: never}).awaitReady()
	a.awaitView("b lives", sees("b", cluster.StateAlive))
	b.awaitView("a lives", sees("a", cluster.StateAlive))
}

func TestRegistry_RemovesALeavingNodeAtOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never}).awaitReady()
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: never}).awaitReady()
	a.awaitView("b lives", sees("b", cluster.StateAlive))
	b.leave()
	a.awaitView("b is gone", sees("b", ""))
}

func TestRegistry_ShowsDrainingAtOnceUntilItEnds(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never, Self: worker}).awaitReady()
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: never, Self: worker}).awaitReady()
	a.awaitView("b lives", sees("b", cluster.StateAlive))

	b.SetDraining(true)
	v := a.awaitView("b drains", sees("b", cluster.StateDraining))
	if !cmp.Equal(v.Alive("worker"), []string{"a"}) {
		t.Errorf("taking on work: %v", v.Alive("worker"))
	}
	v = b.awaitView("it drains itself", sees("b", cluster.StateDraining))
	if !cmp.Equal(v.Alive("worker"), []string{"a", "b"}) {
		t.Errorf("b is not among its own: %v", v.Alive("worker"))
	}
	b.SetDraining(false)
	a.awaitView("b lives", sees("b", cluster.StateAlive))
}

func TestRegistry_TellsEveryWatcherOfAChange(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never}).awaitReady()
	one, stopOne := a.Watch()
	other, stopOther := a.Watch()
	gone, stopGone := a.Watch()
	stopGone()
	defer stopOne()
	defer stopOther()
	run(t, cluster.Options{DB: db, ID: "b", Beat: never}).awaitReady()
	for _, c := range []<-chan struct{}{one, other} {
		testkit.Receive(t, c, "a change")
	}
	if len(gone) != 0 {
		t.Error("a listener that stopped was told")
	}
}

func TestRegistry_TakesANodeForDeadAfterThreeMissedBeats(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db, proxy := behindProxy(t, srv)
	a := run(t, cluster.Options{DB: srv.DB(t), ID: "a", Beat: brief})
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: brief}).awaitReady()
	a.awaitView("b lives", sees("b", cluster.StateAlive))

	proxy.Cut()
	v := a.awaitView("b is dead", sees("b", cluster.StateDead))
	for _, n := range v.Nodes {
		if n.ID == "b" && v.At.Sub(n.LastBeat) <= 3*brief {
			t.Errorf("dead after %s only", v.At.Sub(n.LastBeat))
		}
	}
	if nodes, err := a.Nodes(t.Context()); err != nil || stateOf(nodes, "b") != cluster.StateDead {
		t.Errorf("Nodes says %v, %v", nodes, err)
	}
	proxy.Mend()
	a.awaitView("b lives again", sees("b", cluster.StateAlive))
	if v := b.View(); stateOf(v.Nodes, "a") != cluster.StateAlive {
		t.Errorf("b thinks that a is dead: %+v", v)
	}
}

// After an outage, the first node back does not take the others for dead.
func TestRegistry_WhoWasLateItselfJudgesNobodyAtOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.AOF())
	way := redistest.NewProxy(t, srv.Addr())
	a := run(t, cluster.Options{DB: redistest.Open(t, way.URL()), ID: "a", Beat: brief})
	late, lateWay := behindProxy(t, srv)
	run(t, cluster.Options{DB: late, ID: "late", Beat: brief})
	a.awaitView("the other one lives", sees("late", cluster.StateAlive))
	changed, stop := a.Watch()
	defer stop()

	way.Cut()
	lateWay.Cut()
	db := srv.DB(t)
	entry := lastBeat(t, db, "late")
	testkit.Eventually(t, "both would be dead", func() bool {
		now, err := db.Time(t.Context()).Result()
		testkit.Must(t, err)
		return now.Sub(entry) > 4*brief
	})
	before := a.View().At
	way.Mend()
	testkit.Eventually(t, "one is back", func() bool { return a.View().At.After(before) })
	if got := stateOf(a.View().Nodes, "late"); got != cluster.StateAlive {
		t.Errorf("the other one is %s", got)
	}
	lateWay.Mend()
	testkit.Eventually(t, "the other one is back", func() bool { return lastBeat(t, db, "late").After(entry) })
	select {
	case <-changed:
		t.Errorf("something changed: %+v", a.View().Nodes)
	default:
	}
	lateWay.Cut()
	a.awaitView("it is dead", sees("late", cluster.StateDead))
}

// lastBeat is the time of the newest heartbeat of a node by Redis's clock.
func lastBeat(t *testing.T, db *redisx.DB, id string) time.Time {
	t.Helper()
	ms, _, _ := strings.Cut(db.HGet(t.Context(), key, id).Val(), " ")
	n, err := strconv.ParseInt(ms, 10, 64)
	testkit.Must(t, err)
	return time.UnixMilli(n)
}

func TestRegistry_NoticesADeathBeforeTheNextRegularBeat(t *testing.T) {
	t.Parallel()
	const beat = 5 * time.Second
	db := redistest.Start(t).DB(t)
	write(t, db, "b", 0, `{"beat_ms":200}`)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: beat}).awaitReady()
	v := a.awaitView("b is dead", sees("b", cluster.StateDead))
	if after := v.At.Sub(v.Nodes[1].LastBeat); after > beat/2 {
		t.Errorf("noticed after %s", after)
	}
}

func TestRegistry_JudgesEachNodeByItsOwnBeat(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "slow", 20*time.Second, `{"state":"alive","beat_ms":10000}`)
	write(t, db, "quick", 20*time.Second, `{"state":"alive","beat_ms":1000}`)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	if v := n.View().Nodes; stateOf(v, "slow") != cluster.StateAlive || stateOf(v, "quick") != cluster.StateDead {
		t.Errorf("got %+v", v)
	}
}

func TestRegistry_ForgetsDeadNodesAfterAWhile(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "dead", 59*time.Minute, `{"beat_ms":1000}`)
	write(t, db, "long-dead", 61*time.Minute, `{"beat_ms":1000}`)
	if err := db.HSet(t.Context(), key, "broken", "no time at all").Err(); err != nil {
		t.Fatal(err)
	}
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	if got := stateOf(n.View().Nodes, "dead"); got != cluster.StateDead {
		t.Errorf("dead for less than an hour: %q", got)
	}
	ids, err := db.HKeys(t.Context(), key).Result()
	if diff := cmp.Diff([]string{"a", "dead"}, ids, cmpopts.SortSlices(func(a, b string) bool { return a < b })); err != nil || diff != "" {
		t.Errorf("on the list (-want +got), %v:\n%s", err, diff)
	}
}

func TestRegistry_SkipsAnUnreadableEntry(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "broken", 0, `{"beat_ms":`)
	write(t, db, "fine", 0, `{"state":"alive","beat_ms":60000}`)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: never}).awaitReady()
	if v := n.View().Nodes; stateOf(v, "fine") != cluster.StateAlive || stateOf(v, "broken") != "" {
		t.Errorf("got %+v", v)
	}
}

func TestRegistry_StartsBeforeItsRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	srv.Kill()
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief})
	select {
	case <-n.Ready():
		t.Fatal("ready without Redis")
	default:
	}
	if _, err := n.Nodes(t.Context()); err == nil {
		t.Error("read the nodes without Redis")
	}
	srv.Restart()
	n.awaitReady()
}

func TestRegistry_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	n.leave()
	if all := redistest.Dump(t, db); len(all) != 0 {
		t.Errorf("left in Redis: %v", all)
	}
}

func TestRegistry_WorksOnAnEmbeddedRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	a := run(t, cluster.Options{DB: redistest.Open(t, url), ID: "a", Beat: never}).awaitReady()
	b := run(t, cluster.Options{DB: redistest.Open(t, url), ID: "b", Beat: never}).awaitReady()
	a.awaitView("b lives", sees("b", cluster.StateAlive))
	if _, err := a.Nodes(t.Context()); err != nil {
		t.Error(err)
	}
	b.leave()
	a.awaitView("b is gone", sees("b", ""))
}

func TestRegistry_KnowsOnlyItselfBeforeTheFirstBeat(t *testing.T) {
	t.Parallel()
	r := cluster.New(cluster.Options{Key: key, ID: "a"})
	v := r.View()
	if !v.At.IsZero() || !cmp.Equal(v.Alive(""), []string{"a"}) {
		t.Errorf("got %+v", v)
	}
}
