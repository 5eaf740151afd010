package scheduler

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestScheduler_AloneLeadsEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	depths, err := a.Depths(t.Context())
	testkit.Must(t, err)
	if len(depths) != 16 {
		t.Errorf("there are depths of %d partitions, want 16", len(depths))
	}
}

// Leases last longer than the test: every move of a partition is a hand-over.
func TestScheduler_SharesThePartitionsEvenlyAsNodesComeAndGo(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	b := w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	c := w.start("c", never)
	w.leads(map[*node]int{a: 6, b: 5, c: 5})
	a.end()
	w.leads(map[*node]int{b: 8, c: 8})
	b.end()
	w.leads(map[*node]int{c: 16})
}

// A wake-up reaches the leader of its partition, and no other node.
func TestScheduler_ListensForThePartitionsThatItLeads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start("a", never), w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	var channels []string
	for p := range 16 {
		channels = append(channels, string(w.store.Keys.Wake(p)))
	}
	one := func() bool {
		listeners, err := w.db.PubSubNumSub(t.Context(), channels...).Result()
		testkit.Must(t, err)
		return !slices.ContainsFunc(channels, func(c string) bool { return listeners[c] != 1 })
	}
	testkit.Eventually(t, "one node listens to each partition", one)
	b.end()
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "a listens to all", one)
}

func TestScheduler_HandsOverAtOnceWhenItStopsWithHigherTokens(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	b := w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	before := w.fences()
	stopped := make(chan struct{})
	go func() { a.end(); close(stopped) }()
	start := clock.Now()
	w.leads(map[*node]int{b: 16})
	t.Logf("b leads all %s after a was told to stop", clock.Since(start))
	testkit.Receive(t, stopped, "the end of a")
	for p, fence := range w.fences() {
		moved := strings.HasSuffix(before[p], ":a")
		if !strings.HasSuffix(fence, ":b") {
			t.Errorf("partition %d is led by %q, want b", p, fence)
		}
		if moved && token(t, fence) <= token(t, before[p]) {
			t.Errorf("partition %d: token %s after %s, want a higher one", p, fence, before[p])
		}
		if !moved && fence != before[p] {
			t.Errorf("partition %d: %s became %s, but did not move", p, before[p], fence)
		}
	}
}

func token(t *testing.T, fence string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.Split(fence, ":")[0])
	testkit.Must(t, err)
	return n
}

func TestScheduler_TakesOverWhatADeadNodeLedWhenItsLeasesRunOut(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", time.Second)
	b := w.start("b", time.Second)
	w.leads(map[*node]int{a: 8, b: 8})
	a.proxy.Cut()
	start := clock.Now()
	w.leads(map[*node]int{b: 16, a: 0})
	t.Logf("b leads all %s after a was cut off", clock.Since(start))
	a.proxy.Mend()
	w.leads(map[*node]int{a: 8, b: 8})
}

func TestScheduler_StopsLeadingWhenAnotherTakesTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", time.Second)
	w.leads(map[*node]int{a: 16})
	ref := task.Ref{Namespace: task.DefaultNamespace, ID: "x"}
	leasetest.Grant(t, w.db, w.store.Partitions.LeaseKey(w.store.PartitionOf(ref)), "999:somebody", 2*time.Second)
	testkit.Eventually(t, "a leads one less", func() bool { return len(a.Led()) == 15 })
	w.create(task.Definition{Ref: ref})
	w.leads(map[*node]int{a: 16})
	w.dispatched(ref, 1)
}

// A node that has its share has nothing to wait for but news of the others.
func TestScheduler_IsIdleWhenItHasItsShare(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	b := w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	a.asleep()
	b.asleep()
	looks := func() int64 { return a.members.looks.Load() + b.members.looks.Load() }
	before := looks()
	if before == 0 {
		t.Fatal("no look at a share was counted")
	}
	window := time.NewTimer(time.Second)
	<-window.C
	if n := looks() - before; n > 6 {
		t.Errorf("the two looked at their shares %d times in a second, though nothing happened", n)
	}
}

func TestScheduler_EndsWhileRedisIsUnreachable(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	a.proxy.Cut()
	a.end()
	if len(a.Led()) != 0 {
		t.Errorf("it ended, and still leads %v", a.Led())
	}
}

func TestScheduler_EndsWhileRedisDoesNotAnswer(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	w.srv.Pause()
	defer w.srv.Continue()
	a.end()
}
