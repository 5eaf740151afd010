package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Every state has sometimes more deliveries than are sampled for the memory, and sometimes none.
func TestList_SaysWhatAsynqsInspectorSays(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	queues := []string{"a", "b", "c", "d", "e", "empty", "paused"}
	for _, queue := range queues[:5] {
		x.fill(queue)
	}
	for _, queue := range queues {
		testkit.Must(t, publish(t.Context(), x.db, []string{queue}))
	}
	testkit.Must(t, x.inspector.PauseQueue("paused"))
	testkit.Must(t, x.inspector.PauseQueue("b"))
	before := x.inspected(queues)
	got, err := x.List(t.Context())
	testkit.Must(t, err)
	after := x.inspected(queues)
	for i := range got {
		if l := got[i].Latency; l < before[i].Latency-2*time.Millisecond || l > after[i].Latency+time.Millisecond { // both times are in whole ms
			t.Errorf("queue %s: the oldest delivery has waited for %s, asynq says from %s to %s", queues[i], l, before[i].Latency, after[i].Latency)
		}
		got[i].Latency = before[i].Latency
		if got[i].PausedAt.IsZero() == got[i].Paused {
			t.Errorf("queue %s: paused at %s, which asynq's inspector does not say", queues[i], got[i].PausedAt)
		}
		got[i].PausedAt = time.Time{}
	}
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("(-asynq's inspector +ours):\n%s", diff)
	}
	if got[0].Size <= got[0].Pending+got[0].Active+got[0].Archived || got[0].MemoryUsage == 0 || got[0].Latency == 0 || got[0].Processed <= got[0].Failed {
		t.Errorf("the comparison is worth little: %+v", got[0])
	}
}

// The clock of a node may be wrong.
func TestList_MeasuresHowLongADeliveryWaitsByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	x := newTransport(t, redistest.MovableClock(t))
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		x.srv.MoveClock(ahead)
		queue := fmt.Sprint("ahead-by-", ahead)
		d := aDelivery("a")
		d.Queue = queue
		x.enqueue(d)
		all, err := x.List(t.Context())
		testkit.Must(t, err)
		i := slices.IndexFunc(all, func(i Info) bool { return i.Name == queue })
		if i < 0 || all[i].Latency < 0 || all[i].Latency > testkit.Limit {
			t.Errorf("%s: the queues are %+v", queue, all)
		}
		testkit.Eventually(t, "it has waited", func() bool {
			all, err := x.List(t.Context())
			return err == nil && all[i].Latency > 0
		})
	}
}

// inspected is what asynq's inspector says of queues.
func (x *transport) inspected(queues []string) []Info {
	x.t.Helper()
	var all []Info
	for _, name := range queues {
		i, err := x.inspector.GetQueueInfo(name)
		testkit.Must(x.t, err)
		all = append(all, Info{
			Name: name, Paused: i.Paused, Size: i.Size, Pending: i.Pending, Active: i.Active, Archived: i.Archived,
			Processed: i.Processed, Failed: i.Failed, Latency: i.Latency, MemoryUsage: i.MemoryUsage,
			OfAsynq: i.Size > 0, // all are of other clients
		})
	}
	return all
}

// fill puts deliveries of other asynq clients, of all sizes, into every state that asynq knows. The first queue has some in each.
func (x *transport) fill(queue string) {
	x.t.Helper()
	ctx, k := x.t.Context(), lua.AsynqQueue(queue)
	amount := func() int {
		if n := rand.N(60); n >= 20 || queue == "a" {
			return n + 1
		}
		return 0
	}
	add := func(o ...asynq.Option) string {
		return x.foreign([]byte(strings.Repeat("x", rand.N(2000))), append(o, asynq.Queue(queue))...).ID
	}
	for range amount() {
		add()
	}
	for range amount() {
		add(asynq.ProcessIn(time.Hour))
	}
	for range amount() {
		testkit.Must(x.t, x.inspector.ArchiveTask(queue, add()))
	}
	for range amount() {
		add(asynq.Group(fmt.Sprint("group ", rand.N(8))))
	}
	for state, put := range map[string]func(id string) error{
		"active": func(id string) error { return x.db.LPush(ctx, string(k.Active()), id).Err() },
		"retry": func(id string) error {
			return x.db.ZAdd(ctx, string(k.Retry()), redis.Z{Score: float64(time.Now().Unix() + 60), Member: id}).Err()
		},
		"completed": func(id string) error {
			return x.db.ZAdd(ctx, string(k.Completed()), redis.Z{Score: float64(time.Now().Unix() + 60), Member: id}).Err()
		},
	} {
		for range amount() {
			id := add(asynq.ProcessIn(time.Hour))
			testkit.Must(x.t, x.db.ZRem(ctx, string(k.Scheduled()), id).Err())
			testkit.Must(x.t, x.db.HSet(ctx, string(k.Delivery(id)), "state", state).Err())
			testkit.Must(x.t, put(id))
		}
	}
	failed := amount()
	testkit.Must(x.t, x.db.Set(ctx, string(k.FailedToday(today())), failed, 0).Err())
	testkit.Must(x.t, x.db.Set(ctx, string(k.ProcessedToday(today())), failed+amount(), 0).Err())
}

func TestList_LeavesOutOtherInstallations(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	testkit.Must(t, publish(t.Context(), x.db, []string{"default", "staging.default", "staging.low"}))
	infos, err := New(Options{DB: x.db, Prefix: "staging"}).List(t.Context())
	testkit.Must(t, err)
	if want := []Info{{Name: "default"}, {Name: "low"}}; !slices.Equal(infos, want) {
		t.Errorf("the queues are %+v, want %+v", infos, want)
	}
}

func TestList_NamesABrokenQueueAndReadsTheOthers(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	testkit.Must(t, publish(t.Context(), x.db, []string{"a", "broken", "c"}))
	testkit.Must(t, x.db.Set(t.Context(), string(lua.AsynqQueue("broken").Archived()), "not a sorted set", 0).Err())
	infos, err := x.List(t.Context())
	if task.CodeOf(err) != task.CodeUnavailable || !strings.Contains(fmt.Sprintf("%+v", err), "broken") {
		t.Errorf("the error is %v, want code %s and the name of the queue", err, task.CodeUnavailable)
	}
	if want := []Info{{Name: "a"}, {Name: "c"}}; !slices.Equal(infos, want) {
		t.Errorf("the queues are %+v, want %+v", infos, want)
	}
}

// What a list costs is 2 commands for each queue, and the round trips that 2 queues need.
func TestList_TakesAsManyRoundTripsForManyQueuesAsForTwo(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	var trips roundTrips
	x.db.AddHook(&trips)
	for _, queues := range []int{1, 900} {
		for i := range queues {
			testkit.Must(t, publish(t.Context(), x.db, []string{fmt.Sprint("q", i)}))
		}
		for range 2 { // Redis learns the script in the first
			trips.n.Store(0)
			testkit.Must(t, x.db.ConfigResetStat(t.Context()).Err())
			infos, err := x.List(t.Context())
			testkit.Must(t, err)
			if len(infos) != queues+1 {
				t.Errorf("%d queues are listed, want %d", len(infos), queues+1)
			}
		}
		commands := calls(t, x.db, "calls", "smembers", "exists", "mget", "evalsha", "eval")
		if n := trips.n.Load() - 2; n != 3 || commands != 2*queues+5 { // without the reset and the statistics
			t.Errorf("%d queues: %d round trips and %d commands, want 3 and %d", queues+1, n, commands, 2*queues+5)
		}
	}
}

// roundTrips counts how often a client sends something.
type roundTrips struct{ n atomic.Int64 }

func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { r.n.Add(1); return next(ctx, cmd) }
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { r.n.Add(1); return next(ctx, cmds) }
}
