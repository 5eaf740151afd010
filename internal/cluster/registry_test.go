package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestRegistry_ShowsWhatANodeReportsOfItself(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	self := cluster.Node{
		Host: "host-1", IP: "10.0.0.7", Version: "v1.2.3", Roles: []string{"scheduler", "worker"},
		Capacity: 20, Running: 3, Tasks: 2, Partitions: []int{1, 5}, Queues: map[string]int{"critical": 6, "low": 1},
		CPU: 0.25, Memory: 1 << 20, Name: "web-1", Labels: map[string]string{"zone": "eu", "spot": ""},
		Machine: &cluster.Machine{
			CPU: new(0.0), Load: new(1.25), Memory: &cluster.Space{Used: 3, Total: 8}, Network: &cluster.Traffic{Received: 7},
		},
		StartedAt: time.Date(2026, 1, 2, 15, 4, 5, 250e6, time.UTC),
	}
	before := redisTime(t, db)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: never, Self: func() cluster.Node { return self }}).awaitReady()

	nodes, err := n.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := self
	want.ID, want.State, want.Beat = "a", cluster.StateAlive, never
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
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t)
	db, proxy := behindProxy(t, srv)
	var log testkit.Log
	a := run(t, cluster.Options{DB: srv.DB(t), ID: "a", Beat: brief, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: brief, Self: func() cluster.Node { return cluster.Node{Running: 9, Tasks: 7} }}).awaitReady()
	leaving := run(t, cluster.Options{DB: srv.DB(t), ID: "c", Beat: brief}).awaitReady()
	a.awaitView("b lives", sees("b", cluster.StateAlive))
	b.awaitView("a lives", sees("a", cluster.StateAlive))
	a.awaitView("c lives", sees("c", cluster.StateAlive))
	leaving.leave()
	a.awaitView("c has left", sees("c", ""))

	proxy.Cut()
	v := a.awaitView("b is dead", sees("b", ""))
	if silent := v.At.Sub(lastBeat(t, srv.DB(t), "b")); silent <= 3*brief {
		t.Errorf("dead after %s only", silent)
	}
	said := log.Find(t, "a node has died: others take over its partitions and attempts")
	if len(said) != 1 || said[0]["died"] != "b" || said[0]["running_at_last_beat"] != 7.0 || said[0]["level"] != "WARN" {
		t.Errorf("of the death, and of the node that left, it says %v", said)
	}
	if nodes, err := a.Nodes(t.Context()); err != nil || stateOf(nodes, "b") != cluster.StateDead {
		t.Errorf("Nodes says %v, %v", nodes, err)
	}
	proxy.Mend()
	a.awaitView("b lives again", sees("b", cluster.StateAlive))
	testkit.Eventually(t, "b knows it too", func() bool { return b.View().At.After(v.At) })
	if v := b.View(); stateOf(v.Nodes, "a") != cluster.StateAlive {
		t.Errorf("b thinks that a is dead: %+v", v)
	}
}

// After an outage, the first node back does not take the others for dead.
func TestRegistry_WhoWasLateItselfJudgesNobodyAtOnce(t *testing.T) {
	testkit.NotQuick(t)
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
	a.awaitView("it is dead", sees("late", ""))
}

// lastBeat is the time of the newest heartbeat of a node by Redis's clock.
func lastBeat(t *testing.T, db *redisx.DB, id string) time.Time {
	t.Helper()
	ms, _, _ := strings.Cut(db.HGet(t.Context(), key, id).Val(), " ")
	n, err := strconv.ParseInt(ms, 10, 64)
	testkit.Must(t, err)
	return time.UnixMilli(n)
}

func TestRegistry_NoticesThatRedisHasLostItsHeartbeat(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	type loss struct{ since, now time.Time }
	losses := make(chan loss, 10)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never, WentBack: func(_ context.Context, since, now time.Time, _ bool) { losses <- loss{since, now} }}).awaitReady()
	first := a.View().At
	testkit.Eventually(t, "a later heartbeat", func() bool { a.BeatNow(); return a.View().At.After(first) })
	if len(losses) > 0 {
		t.Errorf("a heartbeat that Redis knows counts as lost: %v", <-losses)
	}
	known := first.Add(-time.Second)
	testkit.Must(t, db.HSet(t.Context(), key, "a", fmt.Sprintf("%d {}", known.UnixMilli())).Err())
	a.BeatNow()
	if l := testkit.Receive(t, losses, "the loss"); !l.since.Equal(known) || l.now.Before(first) {
		t.Errorf("since %s until %s, want since %s", l.since, l.now, known)
	}
	testkit.Must(t, db.Del(t.Context(), key).Err())
	a.BeatNow()
	if l := testkit.Receive(t, losses, "the loss of all"); l.since.IsZero() || l.since.After(first) {
		t.Errorf("since %s, want since the first heartbeat, which was not after %s", l.since, first)
	}
}

// Other nodes cut heartbeats that are in the future then.
func TestRegistry_TakesAJumpOfTheClockBackForNoLoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.MovableClock(t))
	srv.MoveClock(time.Hour)
	db := srv.DB(t)
	lost := func(_ context.Context, since, now time.Time, _ bool) { t.Errorf("a loss since %s, at %s", since, now) }
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: brief, WentBack: lost}).awaitReady()
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: brief, WentBack: lost}).awaitReady()
	for _, ahead := range []time.Duration{59 * time.Minute, 59*time.Minute - 3*brief} {
		srv.MoveClock(ahead)
		from := redisTime(t, db)
		for _, n := range []*node{a, b} {
			testkit.Eventually(t, "heartbeats after the jump", func() bool { at := n.View().At; return at.After(from.Add(4*brief)) && at.Before(from.Add(time.Minute)) })
		}
	}
}

// A node that stands still while the clock jumps back and forth sees none of it, but the others cut its heartbeat meanwhile, every time.
func TestRegistry_TakesAHeartbeatThatOthersCutForNoLoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.MovableClock(t))
	db := srv.DB(t)
	losses := make(chan time.Time, 10)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never, WentBack: func(_ context.Context, since, _ time.Time, _ bool) { losses <- since }}).awaitReady()
	known := a.View().At
	b := run(t, cluster.Options{DB: db, ID: "b", Beat: brief}).awaitReady()
	for _, behind := range []time.Duration{20 * time.Second, 40 * time.Second} {
		srv.MoveClock(-behind)
		testkit.Eventually(t, "a beat of the other one after the jump", func() bool { return b.View().At.Before(known.Add(10*time.Second - behind)) })
		if at := lastBeat(t, db, "a"); !at.Before(known) {
			t.Errorf("the heartbeat is of %s still, want one that was cut", at)
		}
	}
	srv.MoveClock(0)
	testkit.Eventually(t, "a heartbeat after the jumps", func() bool { a.BeatNow(); return a.View().At.After(known) })
	if len(losses) > 0 {
		t.Errorf("a heartbeat that was cut counts as lost since %s", <-losses)
	}
	testkit.Must(t, db.HSet(t.Context(), key, "a", fmt.Sprintf("%d {}", known.UnixMilli())).Err())
	a.BeatNow()
	if since := testkit.Receive(t, losses, "the loss"); !since.Equal(known) {
		t.Errorf("a loss since %s, want %s", since, known)
	}
}

// A heartbeat that nobody waits for any more is executed after a jump of the clock, when Redis goes on after a pause.
func TestRegistry_TakesAHeartbeatThatRedisExecutedLateForNoLoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.MovableClock(t))
	db := srv.DB(t)
	losses := make(chan time.Time, 10)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: never, WentBack: func(_ context.Context, since, _ time.Time, _ bool) { losses <- since }}).awaitReady()
	first := a.View().At
	_, entry, _ := strings.Cut(db.HGet(t.Context(), key, "a").Val(), " ")
	testkit.Eventually(t, "a later heartbeat", func() bool { a.BeatNow(); return a.View().At.After(first) })
	known := a.View().At

	srv.MoveClock(-20 * time.Second)
	call(t, db, beat("a", entry))
	if at := lastBeat(t, db, "a"); !at.Before(known) {
		t.Errorf("the heartbeat is of %s, want one before %s", at, known)
	}
	srv.MoveClock(0)
	testkit.Eventually(t, "a heartbeat after the jumps", func() bool { a.BeatNow(); return a.View().At.After(known) })
	if len(losses) > 0 {
		t.Errorf("a heartbeat that Redis knows counts as lost since %s", <-losses)
	}
}

func TestRegistry_NoticesADeathBeforeTheNextRegularBeat(t *testing.T) {
	t.Parallel()
	const beat = 5 * time.Second
	db := redistest.Start(t).DB(t)
	write(t, db, "b", 0, `{"beat_ms":200}`)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: beat}).awaitReady()
	v := a.awaitView("b is dead", func(v cluster.View) bool { return !v.At.IsZero() && stateOf(v.Nodes, "b") == "" })
	if after := v.At.Sub(lastBeat(t, db, "b")); after > beat/2 {
		t.Errorf("noticed after %s", after)
	}
}

// All nodes notice a death; one of them tells those who follow changes, once.
func TestRegistry_PublishesADeathOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	sub := db.Subscribe(t.Context(), key)
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, db, "c", 0, `{"state":"alive","beat_ms":200}`)
	var nodes []*node
	for _, id := range []string{"a", "b"} {
		nodes = append(nodes, run(t, cluster.Options{DB: db, ID: id, Beat: 5 * time.Second}).awaitReady())
	}
	for _, n := range nodes {
		n.awaitView("c is dead", func(v cluster.View) bool { return !v.At.IsZero() && stateOf(v.Nodes, "c") == "" })
	}
	nodes[1].leave()
	var lost []string
	for {
		m, err := sub.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(m.Payload, "leave b ") {
			break
		}
		if strings.HasPrefix(m.Payload, "lost ") {
			lost = append(lost, m.Payload[:len("lost c")])
		}
	}
	if len(lost) != 1 || lost[0] != "lost c" {
		t.Errorf("published %q", lost)
	}
}

func TestRegistry_JudgesEachNodeByItsOwnBeat(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "slow", 20*time.Second, `{"state":"alive","beat_ms":10000}`)
	write(t, db, "quick", 20*time.Second, `{"state":"alive","beat_ms":1000}`)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	if v := n.View().Nodes; stateOf(v, "slow") != cluster.StateAlive || stateOf(v, "quick") != "" {
		t.Errorf("the view is %+v", v)
	}
	if all, err := n.Nodes(t.Context()); stateOf(all, "slow") != cluster.StateAlive || stateOf(all, "quick") != cluster.StateDead {
		t.Errorf("the list is %+v, %v", all, err)
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
	if all, err := n.Nodes(t.Context()); stateOf(all, "dead") != cluster.StateDead {
		t.Errorf("dead for less than an hour: %+v, %v", all, err)
	}
	ids, err := db.HKeys(t.Context(), key).Result()
	if diff := cmp.Diff([]string{"a", "dead"}, ids, cmpopts.SortSlices(func(a, b string) bool { return a < b })); err != nil || diff != "" {
		t.Errorf("on the list (-want +got), %v:\n%s", err, diff)
	}
}

func TestRegistry_SaysWhyItCannotReadTheList(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	n := run(t, cluster.Options{DB: redistest.Open(t, proxy.URL()), ID: "a", Beat: brief}).awaitReady()
	proxy.Cut()
	_, err := n.Nodes(t.Context())
	const want = "cannot read the list of nodes: Redis did not answer in time, or refused"
	if task.CodeOf(err) != task.CodeUnavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	proxy.Mend()
}

// Whoever beats reads the living nodes. Of the dead ones, the newest stay on the list, and those that may only be cut off.
func TestRegistry_KeepsABoundedNumberOfDeadNodesAndDoesNotReadThem(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	entries := make(map[string]any)
	now := redisTime(t, db).UnixMilli()
	for i := range 5000 {
		ago := 10*time.Minute + time.Duration(i)*time.Millisecond
		entries[fmt.Sprint("gone-", i)] = fmt.Sprintf("%d {\"beat_ms\":1000}", now-ago.Milliseconds())
	}
	for i := range 200 {
		entries[fmt.Sprint("cut-off-", i)] = fmt.Sprintf("%d {\"beat_ms\":1000}", now-time.Minute.Milliseconds())
	}
	testkit.Must(t, db.HSet(t.Context(), key, entries).Err())
	for range 10 { // each removes some of them
		if reply := call(t, db, beat("a", `{"beat_ms":1000}`)); len(reply.Nodes) != 1 {
			t.Errorf("a beat reads %d nodes, want itself", len(reply.Nodes))
		}
	}
	ids, err := db.HKeys(t.Context(), key).Result()
	testkit.Must(t, err)
	if len(ids) != 301 || !slices.Contains(ids, "gone-99") || slices.Contains(ids, "gone-100") {
		t.Errorf("on the list are %d, want itself, 200 that may be cut off and the newest 100 others", len(ids))
	}
}

func TestRegistry_TellsWhenRedisHasLostTheList(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	told := make(chan bool, 10)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief, Rejoined: func(forgotten, lately bool) { told <- forgotten && lately }}).awaitReady()
	at := n.View().At
	testkit.Eventually(t, "further beats", func() bool { return n.View().At.Sub(at) > 2*brief })
	if len(told) > 0 {
		t.Error("it was told without a reason")
	}
	testkit.Must(t, db.FlushAll(t.Context()).Err())
	if !testkit.Receive(t, told, "the loss") {
		t.Error("nothing was lost")
	}
	n.awaitView("it is on the list again", sees("a", cluster.StateAlive))
}

// Whoever was cut off for long may have been taken off the list.
func TestRegistry_TellsOfNoLossIfItsEntryMayHaveBeenRemoved(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t)
	db, way := behindProxy(t, srv)
	told := make(chan bool, 10)
	n := run(t, cluster.Options{DB: db, ID: "a", Beat: brief, Rejoined: func(forgotten, lately bool) { told <- forgotten && lately }}).awaitReady()
	way.Cut()
	entry := lastBeat(t, srv.DB(t), "a")
	testkit.Eventually(t, "it would be dead", func() bool { return redisTime(t, srv.DB(t)).Sub(entry) > 4*brief })
	testkit.Must(t, srv.DB(t).Del(t.Context(), key).Err())
	way.Mend()
	if testkit.Receive(t, told, "the check") {
		t.Error("it takes its removal for a loss")
	}
	n.awaitView("it is on the list again", sees("a", cluster.StateAlive))
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

// A release reads what the one before it writes, and leaves alone what a later one adds.
func TestRegistry_ReadsEntriesOfOtherReleases(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "older", 0, `{"sequence":1,"id":"older","host":"h","ip":"","version":"v0","roles":["worker"],"state":"alive","capacity":4,`+
		`"running":3,"partitions":[],"queues":{},"cpu":0.5,"memory":9,"started_at":"2026-01-02T15:04:05Z","beat_ms":60000}`)
	write(t, db, "older-guest", 0, `{"sequence":0,"id":"g","host":"","roles":["worker"],"state":"alive","via":"older","beat_ms":60000}`)
	write(t, db, "later", 0, `{"sequence":1,"name":"l","host":"h","roles":[],"state":"alive","machine":{"load":2,"heat":{"gpu":[80]}},`+
		`"labels":{"zone":"eu"},"moods":{"good":true},"beat_ms":60000}`)
	nodes, err := cluster.NewObserver(cluster.Options{DB: db, Key: key}).Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type known struct {
		Name    string
		Labels  config.Labels
		Machine *cluster.Machine
		Tasks   int
	}
	got := map[string]known{}
	for _, n := range nodes {
		got[n.ID] = known{n.Name, n.Labels, n.Machine, n.Tasks}
	}
	want := map[string]known{
		"older": {Name: "h", Tasks: 3}, "older-guest": {Name: "older-guest"},
		"later": {"l", config.Labels{"zone": "eu"}, &cluster.Machine{Load: new(2.0)}, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNode_HasLabelsByItself(t *testing.T) {
	t.Parallel()
	n := cluster.Node{
		ID: "web-1-abc", Name: "web-1", Host: "h", Version: "v1", Roles: []string{"api", "worker"},
		Labels: config.Labels{"zone": "eu", "spot": "", "id": "other"},
	}
	for label, want := range map[string][]string{
		"id": {"web-1-abc"}, "name": {"web-1"}, "host": {"h"}, "version": {"v1"}, "role": {"api", "worker"},
		"zone": {"eu"}, "spot": {""}, "gpu": nil,
	} {
		if diff := cmp.Diff(want, n.Values(label)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", label, diff)
		}
	}
	if got := (cluster.Node{ID: "py-1"}).Values("host"); got != nil {
		t.Errorf("a worker by HTTP has the host %q", got)
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

// The other one has its time to send another heartbeat; it does not.
func TestRegistry_AJumpOfTheClockIsNobodysDeath(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.MovableClock(t))
	db := srv.DB(t)
	write(t, db, "b", 0, `{"state":"alive","beat_ms":10000}`)
	a := run(t, cluster.Options{DB: db, ID: "a", Beat: brief}).awaitReady()
	if v := a.View(); !sees("b", cluster.StateAlive)(v) {
		t.Fatalf("it sees %+v", v.Nodes)
	}
	jump := redisTime(t, db).Add(15 * time.Minute)
	srv.MoveClock(30 * time.Minute)
	testkit.Eventually(t, "it has sent a heartbeat", func() bool { return a.View().At.After(jump) })
	if v := a.View(); !sees("b", cluster.StateAlive)(v) {
		t.Errorf("right after the jump it sees %+v", v.Nodes)
	}
	a.awaitView("b is dead", sees("b", ""))
}

// A call may be under way when its client is closed.
func TestObserver_BeginsNothingOnceItIsClosed(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	for range 20 {
		var reads atomic.Int64
		o := cluster.NewObserver(cluster.Options{DB: db, Key: key, Beat: 1, Check: func(context.Context) { reads.Add(1) }})
		var calls sync.WaitGroup
		called, end := make(chan struct{}, 4), make(chan struct{})
		for range cap(called) {
			calls.Go(func() {
				o.View()
				called <- struct{}{}
				for {
					select {
					case <-end:
						return
					default:
						o.View()
					}
				}
			})
		}
		for range cap(called) {
			testkit.Receive(t, called, "a call")
		}
		o.Close()
		before := reads.Load()
		o.View()
		close(end)
		calls.Wait()
		if after := reads.Load(); after != before {
			t.Fatalf("it has read the list %d times since it was closed", after-before)
		}
	}
}
