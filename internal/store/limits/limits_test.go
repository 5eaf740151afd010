package limits_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(w *storetest.World) *limits.Limits {
	return limits.New(w.Layout, queue.New(queue.Options{DB: w.DB}))
}

// full reports whether a queue is full, by a count of its own, and leaves its room as it is.
func full(t *testing.T, w *storetest.World, name string) bool {
	t.Helper()
	place, err := open(w).Enter(w.Ctx, name)
	place.Leave(false)
	if err != nil && task.CodeOf(err) != limits.CodeFull {
		t.Fatal(err)
	}
	return err != nil
}

// counts fails unless exactly n tasks of a queue count as waiting.
func counts(t *testing.T, w *storetest.World, name string, n int) {
	t.Helper()
	l := open(w)
	if n > 0 {
		testkit.Must(t, l.Set(w.Ctx, name, n, ""))
		if !full(t, w, name) {
			t.Errorf("fewer than %d tasks of %s count", n, name)
		}
	}
	testkit.Must(t, l.Set(w.Ctx, name, n+1, ""))
	if full(t, w, name) {
		t.Errorf("more than %d tasks of %s count", n, name)
	}
}

func TestEnter_CountsWhatIsDueAndNoWorkerHas(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	queues := queue.New(queue.Options{DB: w.DB})
	ref := func(i int) task.Ref { return task.Ref{Namespace: "default", ID: fmt.Sprint("s@", i)} } // all in one partition
	for i := range 10 {
		w.Create(task.Definition{Ref: ref(i)})
	}
	w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "elsewhere"}})
	w.Create(task.Definition{Ref: ref(20), Delay: time.Hour})
	counts(t, w, "default", 11)
	w.Create(task.Definition{Ref: ref(21), Queue: "other"})
	counts(t, w, "other", 1)

	none := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {}}}
	_, err := w.Leader(ref(0)).Claim(w.Ctx, 100, none, time.Second)
	testkit.Must(t, err)
	counts(t, w, "default", 11) // ready

	four := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {Number: 4}}}
	claimed, err := w.Leader(ref(0)).Claim(w.Ctx, 100, four, time.Second)
	testkit.Must(t, err)
	testkit.Must(t, queues.HandOver(w.Ctx, claimed.Deliveries[:3], nil).Failure())
	testkit.Must(t, w.Leader(ref(0)).TakeBack(w.Ctx, claimed.Deliveries[3:], true))
	counts(t, w, "default", 11) // seven ready, one in a lane, three in asynq

	recalled, err := queues.Recall(w.Ctx, claimed.Deliveries[:1]) // as if a worker had taken it
	testkit.Must(t, err)
	if len(recalled) != 1 {
		t.Fatalf("recalled %v", recalled)
	}
	counts(t, w, "default", 10)
}

func TestEnter_LetsNoMoreInThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	l := open(w)
	testkit.Must(t, l.Set(w.Ctx, "default", 3, ""))
	var places []*limits.Place
	for range 3 {
		p, err := l.Enter(w.Ctx, "default")
		testkit.Must(t, err)
		places = append(places, p)
	}
	refused := func(what string) {
		t.Helper()
		if _, err := l.Enter(w.Ctx, "default"); task.CodeOf(err) != limits.CodeFull {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("three are on their way")
	w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}})
	places[0].Leave(true)
	refused("one is there, and two are on their way")
	places[1].Leave(false)
	p, err := l.Enter(w.Ctx, "default")
	if err != nil {
		t.Errorf("one was not created: %v", err)
	}
	p.Leave(false)
	_, err = w.Tasks.Cancel(w.Ctx, task.Ref{Namespace: "default", ID: "a"}, "")
	testkit.Must(t, err)
	places[2].Leave(false)
	testkit.Eventually(t, "it counts again", func() bool {
		var got []*limits.Place
		for range 3 {
			p, err := l.Enter(w.Ctx, "default")
			if err == nil {
				got = append(got, p)
			}
		}
		for _, p := range got {
			p.Leave(false)
		}
		return len(got) == 3
	})
}

func TestEnter_FollowsALimitThatAnotherNodeSets(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	here, there := open(w), open(w)
	w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}})
	if _, err := here.Enter(w.Ctx, "default"); err != nil {
		t.Fatalf("without a limit: %v", err)
	}
	testkit.Must(t, there.Set(w.Ctx, "default", 1, ""))
	testkit.Eventually(t, "it is full", func() bool {
		_, err := here.Enter(w.Ctx, "default")
		return task.CodeOf(err) == limits.CodeFull && err != nil
	})
	testkit.Must(t, there.Set(w.Ctx, "default", 0, ""))
	testkit.Eventually(t, "it has room", func() bool { _, err := here.Enter(w.Ctx, "default"); return err == nil })
}

func TestEnter_LetsAllInWhileRedisDoesNotAnswer(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	server := redistest.Start(t)
	w := storetest.On(t, server.DB(t))
	fillOne(t, w)
	here, started := open(w), open(w)
	if _, err := here.Enter(w.Ctx, "default"); task.CodeOf(err) != limits.CodeFull {
		t.Errorf("a queue that is full: %v", err)
	}
	server.Pause()
	t.Cleanup(server.Continue)
	for name, l := range map[string]*limits.Limits{"knows the limit": here, "knows nothing": started} {
		testkit.Eventually(t, "one that "+name+" lets all in", func() bool { _, err := l.Enter(w.Ctx, "default"); return err == nil })
	}
}

// A limit that cannot hold says so.
func TestEnter_LogsThatAQueueCannotBeCounted(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var log strings.Builder
	w.Layout.Log = slog.New(slog.NewTextHandler(&log, nil))
	testkit.Must(t, w.DB.Set(w.Ctx, string(w.Keys.Partition(0).Ready("full")), "garbage", 0).Err())
	l := open(w)
	testkit.Must(t, l.Set(w.Ctx, "full", 1, ""))
	if place, err := l.Enter(w.Ctx, "full"); place != nil || err != nil {
		t.Errorf("a place %v, %v", place, err)
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "queue=full") {
		t.Errorf("the log has %q", log.String())
	}
}

func fillOne(t *testing.T, w *storetest.World) {
	t.Helper()
	testkit.Must(t, open(w).Set(w.Ctx, "default", 1, ""))
	w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}})
}

// What one caller reads is for the others, too.
func TestEnter_LetsNobodyInAsACallerGivesUp(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	fillOne(t, w)
	gone, cancel := context.WithCancel(w.Ctx)
	cancel()
	l := open(w)
	for range 2 { // the first time, the limits are read; the second time, tasks are counted
		_, _ = l.Enter(gone, "default") // it does not matter, as nothing can be written after it
	}
	if _, err := l.Enter(w.Ctx, "default"); task.CodeOf(err) != limits.CodeFull {
		t.Errorf("a queue that is full: %v", err)
	}
}

// A process that has just started does not know the limits yet.
func TestEnter_WaitsForTheFirstReadOfTheLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := storetest.On(t, server.DB(t))
	fillOne(t, w)
	way := redistest.NewProxy(t, server.Addr())
	s, err := store.Open(w.Ctx, store.Options{DB: redistest.Open(t, way.URL())})
	testkit.Must(t, err)
	l := limits.New(s.Layout, queue.New(queue.Options{DB: s.DB}))
	way.Hold()
	answers := make(chan error, 8)
	enter := func() { _, err := l.Enter(w.Ctx, "default"); answers <- err }
	go enter()
	testkit.Eventually(t, "the limits are asked for", func() bool { return bytes.Contains(way.Held(), []byte(s.Keys.Limits())) })
	for range cap(answers) - 1 {
		go enter()
	}
	way.Release()
	for range cap(answers) {
		if err := testkit.Receive(t, answers, "an answer"); task.CodeOf(err) != limits.CodeFull {
			t.Errorf("a queue that is full: %v", err)
		}
	}
}

func TestSet_RefusesWhatIsNoLimit(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	l := open(w)
	for name, limit := range map[string]int{"a b": 1, "negative": -1, "huge": limits.Most + 1} {
		if err := l.Set(w.Ctx, name, limit, ""); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("%s %d: %v", name, limit, err)
		}
	}
	for i := range limits.MostQueues {
		testkit.Must(t, w.DB.HSet(w.Ctx, string(w.Keys.Limits()), fmt.Sprint(i), 1).Err())
	}
	if err := l.Set(w.Ctx, "more", 1, ""); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("one too many: %v", err)
	}
	if err := l.Set(w.Ctx, "7", 2, ""); err != nil {
		t.Errorf("a change: %v", err)
	}
}

func TestAny_FollowsWhatIsSet(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	l := open(w)
	for limit, want := range []bool{false, true} {
		testkit.Must(t, l.Set(w.Ctx, "small", limit, ""))
		if l.Any(w.Ctx) != want || l.Of(w.Ctx, "small") != limit || l.Of(w.Ctx, "other") != 0 {
			t.Errorf("with the limit %d: %t, %d", limit, l.Any(w.Ctx), l.Of(w.Ctx, "small"))
		}
	}
}
