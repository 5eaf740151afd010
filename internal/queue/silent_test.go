package queue

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Queues are on all servers of a cluster. The metrics show those that can be read.
func TestList_HasTheQueuesOfOtherServersWhileOneIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	queues := New(Options{DB: db})
	silent := cluster.Other(string(lua.AsynqQueues)) // which names all queues
	var want []string
	for i := range 10 {
		d := aDelivery(fmt.Sprint(i))
		d.Queue = fmt.Sprint("queue", i)
		testkit.Must(t, queues.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
		if cluster.Primary(string(lua.AsynqQueue(d.Queue).Pending())) != silent {
			want = append(want, d.Queue)
		}
	}
	if len(want) == 0 || len(want) == 10 {
		t.Fatalf("the silent server has %d queues of 10", 10-len(want))
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	ctx, cancel := context.WithTimeout(t.Context(), collectTimeout)
	defer cancel()
	infos, err := queues.List(ctx)
	var got []string
	for _, i := range infos {
		got = append(got, i.Name)
		if i.Size != 1 || i.Pending != 1 {
			t.Errorf("%+v", i)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("it has %v, %v, want %v and an error", got, err, want)
	}
}

// What a server refuses does not come from the outage of another one.
func TestConsumer_LogsRefusalsWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db, err := redisx.Open(t.Context(), redisx.Options{URL: cluster.URL(), Link: redisx.NewLink(nil)})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	pending := string(lua.AsynqQueue("default").Pending())
	testkit.Must(t, db.Set(t.Context(), pending, "no list", 0).Err())
	silent := cluster.Other(pending)
	away := "away"
	for i := 0; cluster.Primary(away) != silent; i++ {
		away = fmt.Sprint("away", i)
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	testkit.Eventually(t, "the outage is noticed", func() bool { _ = db.Get(t.Context(), away).Err(); return !db.Link().Up() })
	records := make(recorder, 1000)
	NewConsumer(ConsumerOptions{DB: db, Queues: map[string]int{"default": 1}, Log: slog.New(records)}).Take(t.Context(), 1)
	if shown := testkit.Receive(t, records, "a record"); shown != "WARN cannot take deliveries" {
		t.Errorf("shown: %q", shown)
	}
}

// A queue that is missing in asynq's list for a while is missing in asynq's tools, and nowhere else.
func TestHandOver_GoesOnWhileTheServerOfTheListOfQueuesIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	queues := New(Options{DB: db})
	silent := cluster.Primary(string(lua.AsynqQueues))
	name := "queue"
	for i := 0; cluster.Primary(string(lua.AsynqQueue(name).Pending())) == silent; i++ {
		name = fmt.Sprint("queue", i)
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	watch, unlisted := testkit.StartStopwatch(t), 0
	for i := range 5 {
		d := aDelivery(fmt.Sprint(i))
		d.Queue = name
		handed := queues.HandOver(t.Context(), []task.Delivery{d}, nil)
		if handed.Failures[0] != nil {
			t.Errorf("delivery %d: %v", i, handed.Failures[0])
		}
		if handed.Unlisted != nil {
			unlisted++
		}
	}
	if took := watch.Elapsed(); unlisted != 1 || took > 8*time.Second {
		t.Errorf("5 took %s, and %d waited for the list of queues, want one", took, unlisted)
	}
	if n := db.LLen(t.Context(), string(lua.AsynqQueue(name).Pending())).Val(); n != 5 {
		t.Errorf("%d deliveries wait, want 5", n)
	}
}

// queuesOn returns the names of two queues: one on that server of a cluster, and one on another.
func queuesOn(cluster *redistest.Cluster, server *redistest.Server) (here, elsewhere string) {
	for i := 0; here == "" || elsewhere == ""; i++ {
		name := fmt.Sprint("queue", i)
		if cluster.Primary(string(lua.AsynqQueue(name).Pending())) == server {
			here = name
		} else {
			elsewhere = name
		}
	}
	return here, elsewhere
}

// A pool takes from each of its queues as if there were no other.
func TestConsumer_TakesInTimeWhileTheServerOfAnotherQueueIsAway(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct{ stop, goOn func(*redistest.Server) }{
		"silent": {(*redistest.Server).Pause, (*redistest.Server).Continue},
		"dead":   {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, redistest.NoFailover(), redistest.AOF())
			x := &transport{Queues: New(Options{DB: redistest.Open(t, cluster.URL())}), t: t}
			away := cluster.Other(string(lua.AsynqQueues))
			here, elsewhere := queuesOn(cluster, away)
			handled := make(chan string, 1000)
			p := x.poolOf(redistest.Open(t, cluster.URL()), func(ref task.Ref, _ int) error { handled <- ref.ID; return nil },
				func(o *ConsumerOptions) { o.Queues = map[string]int{here: 1, elsewhere: 1} })
			testkit.Receive(t, p.Ready(), "the consumer")
			hand := func(id, queue string) error {
				d := aDelivery(id)
				d.Queue = queue
				return x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure()
			}
			for _, queue := range []string{here, elsewhere} {
				testkit.Must(t, hand("first in "+queue, queue))
				testkit.Receive(t, handled, "the first delivery")
			}

			how.stop(away)
			t.Cleanup(func() { how.goOn(away) })
			p.sources.mark(here) // as a message had it that came before
			watch, latest := testkit.StartStopwatch(t), time.Duration(0)
			for begin, i := time.Now(), 0; time.Since(begin) < 6*time.Second; i++ {
				start := watch.Elapsed()
				testkit.Must(t, hand(fmt.Sprint(i), elsewhere))
				testkit.Receive(t, handled, "a delivery")
				latest = max(latest, watch.Elapsed()-start)
			}
			if latest > time.Second {
				t.Errorf("a delivery was taken after %s", latest)
			}
			how.goOn(away)
			testkit.Eventually(t, "the server takes deliveries", func() bool { return hand("last", here) == nil })
			for id := ""; id != "last"; id = testkit.Receive(t, handled, "the last delivery") {
				continue
			}
		})
	}
}
