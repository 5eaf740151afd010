package scheduler

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestPeek_FindsATaskWhoseWakeUpWasLost(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, func(n *node) { n.pace.peek = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	a.asleep()
	d := task.Definition{Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "x"}, Type: "echo"}.Normalize()
	def, err := codec.EncodeDefinition(d)
	testkit.Must(t, err)
	_, err = redisx.Run(t.Context(), w.db, lua.Create{
		Defs: w.store.KeysOf(d.Ref).Defs(), Events: w.store.Keys.Events(), Wake: "nobody listens here", Tasks: []lua.CreateTask{{Member: d.Ref, Def: def}},
	})
	testkit.Must(t, err)
	w.dispatched(d.Ref, 1)
}

// What is not announced is not looked for: an idle leader runs no scripts.
func TestPeek_RunsNoScriptWhileNothingHappens(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, func(n *node) { n.pace.peek = 20 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	w.dispatched(w.create(task.Definition{Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "x"}}), 1)
	a.asleep()
}

// Each partition has its net, whatever becomes of the others.
func TestPeek_WakesPartitionsOfOtherServersWhileOneIsSilent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	st, err := store.Open(t.Context(), store.Options{DB: db})
	testkit.Must(t, err)
	s := New(Options{DB: db, Store: st, Queues: queue.New(queue.Options{DB: db}), Node: "a", Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler)})
	s.pace.peek = 50 * time.Millisecond
	wakesOf := func(p int) string { return string(st.Keys.Partition(p).Wakes()) }
	silent, other := cluster.Primary(wakesOf(0)), 0
	for p := range st.Partitions.Count() {
		s.led[p] = st.Partitions.At(p).Lead("1:a")
		if cluster.Primary(wakesOf(p)) != silent {
			other = p
		}
	}
	awake := cluster.Primary(wakesOf(other))

	silent.Pause()
	t.Cleanup(silent.Continue)
	testkit.Must(t, db.Incr(t.Context(), wakesOf(other)).Err())
	testkit.Must(t, awake.Admin().ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.peek(ctx) }()
	testkit.Receive(t, s.wakes[other], "the wake-up of the leader")
	testkit.Receive(t, s.tickWakes[other], "the wake-up for schedules")
	testkit.Receive(t, s.evictWakes[other], "the wake-up because of memory")
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}
