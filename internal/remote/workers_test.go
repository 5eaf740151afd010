package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type members struct{}

func (members) View() cluster.View                        { return cluster.View{} }
func (members) BeatNow()                                  {}
func (members) RemoveGuest(context.Context, string) error { return nil }

// seen is a list of nodes that a test sets. A session that begins anew reads it.
type seen struct {
	members
	view atomic.Pointer[cluster.View]
}

func (s *seen) View() cluster.View {
	if v := s.view.Load(); v != nil {
		return *v
	}
	return cluster.View{}
}

// world is a store with a queue, and the sessions of a node.
type world struct {
	*storetest.World
	*Workers
	t       *testing.T
	metrics *telemetry.Metrics
	queues  *queue.Queues
	seen    seen
	stop    func() error // has the node stop, as often as one likes
	// onScript are functions that are called when a script with that name has run.
	onScript sync.Map
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return join(t, nil)
}

// join starts a node, on the Redis of another one if that is not nil.
func join(t *testing.T, on *storetest.World) *world {
	t.Helper()
	w := &world{World: on, t: t, metrics: telemetry.New()}
	if on == nil {
		w.World = w.observed(redistest.Start(t))
		w.Tasks.CountWith(w.metrics)
	}
	w.queues = queue.New(queue.Options{DB: w.DB})
	w.Workers = New(Options{
		DB: w.DB, Store: w.Store, Members: &w.seen, Silence: 300 * time.Millisecond, Metrics: w.metrics, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// observed is a store whose scripts call the functions of onScript.
func (w *world) observed(server *redistest.Server) *storetest.World {
	w.t.Helper()
	db, err := redisx.Open(w.t.Context(), redisx.Options{URL: server.URL(), Observe: func(script string, _ time.Duration, _ string) {
		if f, ok := w.onScript.Load(script); ok {
			f.(context.CancelFunc)()
		}
	}})
	testkit.Must(w.t, err)
	w.t.Cleanup(func() { testkit.Must(w.t, db.Close()) })
	return storetest.On(w.t, db)
}

// hand hands a new task over to the queue.
func (w *world) hand(id string) task.Ref {
	w.t.Helper()
	ref := task.Ref{Namespace: "default", ID: id}
	w.World.Create(task.Definition{Ref: ref, Type: "count"})
	testkit.Must(w.t, w.queues.HandOver(w.Ctx, w.Claim(ref), nil).Failure())
	return ref
}

// offer has a lease that outlasts a busy machine: a call begins attempts within half of it, or not at all.
func offer() Offer {
	return Offer{Types: []string{"count"}, Queues: []string{"default"}, Capacity: 4, Lease: 5 * time.Second}
}

func (w *world) take(o Offer) []*tasks.Run {
	w.t.Helper()
	runs, err := w.Take(w.Ctx, "w1", o, Request{Limit: 10, Wait: 10 * time.Second})
	testkit.Must(w.t, err)
	return runs
}

func (w *world) delivery(ref task.Ref) string {
	return w.DB.HGet(w.Ctx, "asynq:{default}:t:"+ref.String()+":1", "state").Val()
}

func TestTake_WaitsForADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := make(chan []*tasks.Run, 1)
	go func() { taken <- w.take(offer()) }()
	testkit.Eventually(t, "it waits", func() bool { return len(w.Guests()) == 1 })
	ref := w.hand("a")
	runs := testkit.Receive(t, taken, "the attempt")
	if len(runs) != 1 || runs[0].Task.Ref != ref || runs[0].Node() != "w1" {
		t.Fatalf("took %+v", runs)
	}
	held := w.DB.ZScore(w.Ctx, string(w.KeysOf(ref).Held()), ref.String()).Val()
	if until := runs[0].Task.StartedAt.Add(offer().Lease); held != float64(until.UnixMilli()) {
		t.Errorf("leased until %f, want until %s", held, until)
	}
	if runs, err := w.Take(w.Ctx, "w1", offer(), Request{Limit: 10}); err != nil || len(runs) != 0 {
		t.Errorf("without waiting: %v, %v", runs, err)
	}
}

// The answer to a take is JSON, and so all of its payloads must be.
func TestTake_HandsOutNoPayloadThatIsNotJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	damaged, sound := w.hand("damaged"), w.hand("sound")
	defs := string(w.KeysOf(damaged).Defs())
	stored := w.DB.HGet(w.Ctx, defs, damaged.String()).Val()
	testkit.Must(t, w.DB.HSet(w.Ctx, defs, damaged.String(), strings.TrimSuffix(stored, "}")).Err())
	if runs := w.take(offer()); len(runs) != 1 || runs[0].Task.Ref != sound {
		t.Errorf("took %+v", runs)
	}
	if got := w.Get(damaged); got.State != task.Failed || !strings.Contains(got.Error, "is not JSON") {
		t.Errorf("the damaged task is %s: %s", got.State, got.Error)
	}
}

// waits counts the pipelines that wait for replicas.
type waits struct{ atomic.Int64 }

func (*waits) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*waits) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (n *waits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "wait" }) {
			n.Add(1)
		}
		return next(ctx, cmds)
	}
}

func TestTake_WaitsOnceForTheReplicasOfAllThatItBegins(t *testing.T) {
	t.Parallel()
	on := storetest.On(t, redistest.Open(t, redistest.StartPair(t).URL()))
	w := join(t, on)
	for i := range 4 {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("once-", i)}
		w.World.Create(task.Definition{Ref: ref, Type: "count", Retry: task.Retry{MaxAttempts: 1}})
		testkit.Must(t, w.queues.HandOver(w.Ctx, w.Claim(ref), nil).Failure())
	}
	on.Tasks = tasks.New(on.Layout, 0, config.Durability{Replicas: 1, Timeout: 2 * time.Second})
	var n waits
	on.DB.AddHook(&n)
	o := offer()
	o.Lease = time.Minute
	if runs := w.take(o); len(runs) != 4 || n.Load() != 1 {
		t.Errorf("took %d attempts and waited %d times, want 4 attempts and one wait", len(runs), n.Load())
	}
}

// While the begin of one attempt is confirmed, which a failover may delay, Redis is told of all that have begun.
func TestTake_TellsRedisOfAttemptsThatWaitToBeConfirmed(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	on := storetest.On(t, redistest.Open(t, pair.URL()))
	w := join(t, on)
	ref := task.Ref{Namespace: "default", ID: "once"}
	w.World.Create(task.Definition{Ref: ref, Type: "count", Retry: task.Retry{MaxAttempts: 1}})
	testkit.Must(t, w.queues.HandOver(w.Ctx, w.Claim(ref), nil).Failure())
	on.Tasks = tasks.New(on.Layout, 0, config.Durability{Replicas: 1, Timeout: 100 * time.Millisecond})
	pair.Detach()
	ended := make(chan error, 1)
	go func() {
		_, err := w.Take(w.Ctx, "worker-1", offer(), Request{ID: "r", Limit: 1, Wait: testkit.Limit})
		ended <- err
	}()
	testkit.Eventually(t, "the attempt is held", func() bool {
		all := w.all()
		return len(all) == 1 && len(leased(all[0])) == 1
	})
	if err := testkit.Receive(t, ended, "the end of the take"); err == nil {
		t.Error("an attempt was taken whose begin no replica has")
	}
	if n := len(leased(w.all()[0])); n != 0 {
		t.Errorf("%d attempts are held, want none", n)
	}
}

func leased(s *session) []*tasks.Run {
	runs, _ := s.leased()
	return runs
}

// requested is how a worker asks for what a node has at once, under a name for the call.
func requested(id string) Request { return Request{ID: id, Limit: 10} }

// names are the run tokens of attempts.
func names(runs []*tasks.Run) []string {
	var all []string
	for _, r := range runs {
		all = append(all, r.Task.Run)
	}
	return all
}

// The answer of a take was lost. The worker asks again, another node as well, and goes on with the attempts that have begun for it.
// A call that does not wait may come late to its turn, and still be a repeat that must get its attempts.
func TestTake_AFreeTurnIsTakenAlsoWhenTheWaitIsOver(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 50 { // select chooses at random
		s := &session{turn: make(chan struct{}, 1)}
		if !s.await(over) {
			t.Fatalf("a free turn was not taken in try %d", i)
		}
		if s.await(over) {
			t.Fatal("two calls have the turn")
		}
	}
}

func TestTake_ARepeatGetsTheSameAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := join(t, w.World)
	o := offer()
	o.Lease = time.Minute
	a, b := w.hand("a"), w.hand("b")
	request := Request{ID: "1", Limit: 10, Wait: 10 * time.Second}
	begun, err := w.Take(w.Ctx, "w1", o, request)
	if err != nil || len(begun) != 2 {
		t.Fatalf("took %v, %v", names(begun), err)
	}
	c := w.hand("c")
	for _, node := range []*world{w, other} {
		for _, ref := range []task.Ref{a, b} {
			testkit.Must(t, w.DB.ZAddXX(w.Ctx, string(w.KeysOf(ref).Held()), redis.Z{Score: 1, Member: ref.String()}).Err())
		}
		again, err := node.Take(w.Ctx, "w1", o, requested("1"))
		if err != nil || !slices.Equal(names(again), names(begun)) || again[0].Task.Attempt != 1 || !again[0].Task.StartedAt.Equal(begun[0].Task.StartedAt) {
			t.Errorf("again: %v, %v, want %v", names(again), err, names(begun))
		}
		if lapsed := w.DB.ZCount(w.Ctx, string(w.KeysOf(a).Held()), "1", "1").Val(); lapsed != 0 {
			t.Errorf("%d leases are as they were", lapsed)
		}
	}
	if got := w.Guests()[0].Running; got != 2 {
		t.Errorf("the worker runs %d attempts, want 2", got)
	}
	testkit.Must(t, begun[0].Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	if again, err := w.Take(w.Ctx, "w1", o, requested("1")); err != nil || !slices.Equal(names(again), names(begun)[1:]) {
		t.Errorf("when one has ended: %v, %v, want the other", names(again), err)
	}
	next, err := w.Take(w.Ctx, "w1", o, Request{ID: "2", Limit: 10, Wait: 10 * time.Second})
	if err != nil || len(next) != 1 || next[0].Task.Ref != c {
		t.Errorf("another call: %v, %v", names(next), err)
	}
	if again, err := w.Take(w.Ctx, "w1", o, requested("1")); err != nil || len(again) != 0 {
		t.Errorf("a call before the newest one: %v, %v, want nothing", names(again), err)
	}
}

// Redis refuses to begin the first attempt, and begins it when it is asked again.
func TestTake_AnswersInTheOrderOfTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refs := []task.Ref{w.hand("a"), w.hand("b")}
	for i := 0; w.KeysOf(refs[1]) == w.KeysOf(refs[0]); i++ {
		refs[1] = w.hand(fmt.Sprint("b", i))
	}
	starts := []tasks.Start{{Ref: refs[0], Attempt: 1, Run: "w1#A", Queue: "default"}, {Ref: refs[1], Attempt: 1, Run: "w1#B", Queue: "default"}}
	testkit.Must(t, w.Tasks.NoteTaken(w.Ctx, "w1", "1", starts, time.Minute))
	held := string(w.KeysOf(refs[0]).Held())
	testkit.Must(t, w.DB.Set(w.Ctx, held, "not a sorted set", 0).Err())
	w.onScript.Store("begin", context.CancelFunc(func() { w.DB.Del(w.Ctx, held) }))
	runs, err := w.Take(w.Ctx, "w1", offer(), requested("1"))
	if want := []string{"w1#A", "w1#B"}; err != nil || !slices.Equal(names(runs), want) {
		t.Errorf("took %v, %v, want %v", names(runs), err, want)
	}
}

// The node died before Redis was asked to begin what it had taken.
func TestTake_ARepeatBeginsWhatADeadNodeHadTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.hand("a")
	testkit.Must(t, w.Tasks.NoteTaken(w.Ctx, "w1", "1", []tasks.Start{{Ref: ref, Attempt: 1, Run: "w1#A", Queue: "default"}}, time.Minute))
	runs, err := w.Take(w.Ctx, "w1", offer(), requested("1"))
	if err != nil || !slices.Equal(names(runs), []string{"w1#A"}) {
		t.Fatalf("took %v, %v", names(runs), err)
	}
	if later, err := w.Take(w.Ctx, "w2", offer(), Request{Limit: 10}); err != nil || len(later) != 0 {
		t.Errorf("another worker took %v, %v", names(later), err)
	}
	if got := w.Get(ref); got.State != task.Running || got.Attempt != 1 || got.Run != "w1#A" {
		t.Errorf("it is %+v", got)
	}
}

// The worker hangs up when its attempt has begun. Only a call that can be repeated leaves it for the repeat.
func TestTake_HangingUpCostsAnAttemptUnlessTheCallIsRepeated(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]task.State{"": task.Scheduled, "1": task.Running} {
		t.Run("request "+id, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ref := w.hand("a")
			ctx, hangUp := context.WithCancel(w.Ctx)
			w.onScript.Store("begin", hangUp)
			if runs, err := w.Take(ctx, "w1", offer(), Request{ID: id, Limit: 1, Wait: 10 * time.Second}); err != nil || id == "" && len(runs) != 0 {
				t.Errorf("took %v, %v", names(runs), err)
			}
			if got := w.Get(ref); got.State != want || got.Attempt != 1 {
				t.Errorf("it is %s, attempt %d, want %s", got.State, got.Attempt, want)
			}
			if id == "" {
				return
			}
			if again, err := w.Take(w.Ctx, "w1", offer(), requested(id)); err != nil || len(again) != 1 || again[0].Task.Attempt != 1 {
				t.Errorf("the repeat got %v, %v", names(again), err)
			}
		})
	}
}

// The worker hangs up when its delivery was taken, and before the attempt has begun.
func TestTake_HangingUpBeforeAnAttemptBeginsCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.hand("a")
	ctx, hangUp := context.WithCancel(w.Ctx)
	w.onScript.Store("take", hangUp)
	if runs, err := w.Take(ctx, "w1", offer(), Request{Limit: 1, Wait: 10 * time.Second}); err != nil || len(runs) != 0 {
		t.Errorf("took %v, %v", names(runs), err)
	}
	if got := w.Get(ref).State; got != task.Queued {
		t.Errorf("it is %s, want %s", got, task.Queued)
	}
	runs, err := w.Take(w.Ctx, "w2", offer(), Request{Limit: 1, Wait: 10 * time.Second})
	if err != nil || len(runs) != 1 || runs[0].Task.Attempt != 1 {
		t.Errorf("another worker took %v, %v, want the same attempt", names(runs), err)
	}
}

// After a failover that lost the begin of attempts, workers by HTTP would tell of them too late.
func TestWorkers_TellRedisOfRunsThatItHasLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout, longest time.Duration
	}{
		"for the rest of their leases":            {longest: time.Minute},
		"until it is too late for them to report": {timeout: 20 * time.Second, longest: 20*time.Second + Grace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLostRunIsTold(t, test.timeout, test.longest)
		})
	}
}

// testLostRunIsTold has Redis lose the begin of a task with a timeout, and checks that it is leased for that long after its start at most, and
// not much less.
func testLostRunIsTold(t *testing.T, timeout, longest time.Duration) {
	w := newWorld(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.World.Create(task.Definition{Ref: ref, Type: "count", Timeout: timeout})
	testkit.Must(t, w.queues.HandOver(w.Ctx, w.Claim(ref), nil).Failure())
	k := w.KeysOf(ref)
	queued := w.DB.HGet(w.Ctx, string(k.States()), ref.String()).Val()
	o := offer()
	o.Lease = time.Minute
	runs := w.take(o)
	if len(runs) != 1 {
		t.Fatalf("took %d attempts, want 1", len(runs))
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), ref.String(), queued).Err())
	testkit.Must(t, w.DB.Del(w.Ctx, string(k.Running()), string(k.Held())).Err())
	testkit.Must(t, w.ExtendNow(w.Ctx).Err())
	if got := w.Get(ref); got.State != task.Running || got.Attempt != 1 {
		t.Errorf("it is %+v, want it to run again", got)
	}
	until := time.UnixMilli(int64(w.DB.ZScore(w.Ctx, string(k.Held()), ref.String()).Val()))
	if lease := until.Sub(runs[0].Task.StartedAt); lease < longest/2 || lease > longest+time.Second {
		t.Errorf("leased until %s, want %s from its start on at most", until, longest)
	}
}

// There is little time to tell a primary that has taken over what runs.
func TestWorkers_TellRedisOfAllRunsAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := redistest.NewProxy(t, server.Addr())
	w := join(t, storetest.On(t, redistest.Open(t, way.URL())))
	o := offer()
	o.Capacity, o.Lease = 10, time.Minute
	var refs []task.Ref
	for i := range o.Capacity {
		refs = append(refs, w.hand(fmt.Sprint("task", i)))
	}
	for taken := 0; taken < o.Capacity; {
		taken += len(w.take(o))
	}
	way.Hold()
	told := make(chan struct{})
	go func() {
		defer close(told)
		_ = w.ExtendNow(w.Ctx)
	}()
	testkit.Eventually(t, "all runs are on their way to Redis", func() bool {
		return !slices.ContainsFunc(refs, func(ref task.Ref) bool { return !bytes.Contains(way.Held(), []byte(ref.String())) })
	})
	way.Release()
	testkit.Receive(t, told, "the end of the call")
}

// Whoever is silent is off the list, and what it ran does not stay in asynq's queue.
func TestWorkers_ASilentWorkerIsGone(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	ref := w.hand("a")
	if len(w.take(offer())) != 1 || w.delivery(ref) != "active" {
		t.Fatal("it took nothing")
	}
	testkit.Eventually(t, "the delivery is settled", func() bool { return w.delivery(ref) == "" })
	testkit.Eventually(t, "the worker is gone", func() bool { return len(w.Guests()) == 0 })
}

// A lease is the word of a worker that runs something. Whoever hangs up in 200 calls must not keep the places of all
// others for a lease.
func TestWorkers_AnIdleWorkerIsGoneBeforeItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := offer()
	o.Lease = 10 * time.Minute
	idle, err := w.Take(w.Ctx, "idle", o, Request{Limit: 1})
	testkit.Must(t, err)
	w.hand("a")
	runs := w.take(o)
	if len(idle) != 0 || len(runs) != 1 {
		t.Fatalf("taken are %v and %v", idle, runs)
	}
	testkit.Eventually(t, "only the worker that holds an attempt is left", func() bool {
		guests := w.Guests()
		return len(guests) == 1 && guests[0].ID == "w1"
	})
	w.Settle(runs[0], nil)
	testkit.Eventually(t, "it is gone when it holds nothing", func() bool { return len(w.Guests()) == 0 })
}

// A worker cannot extend its leases while Redis is away. When another primary has taken over, the node must know what the worker runs.
func TestWorkers_HoldTheirAttemptsWhileRedisIsAway(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	server := redistest.Start(t)
	w := join(t, storetest.On(t, server.DB(t)))
	w.hand("a")
	o := offer()
	o.Lease = 5 * time.Second
	if len(w.take(o)) != 1 {
		t.Fatal("it took nothing")
	}
	server.Kill()
	testkit.Eventually(t, "the outage is noticed", func() bool { _ = w.DB.Ping(w.Ctx).Err(); return !w.DB.Link().Up() })
	begin := time.Now()
	testkit.Eventually(t, "a while is over", func() bool {
		if all := w.all(); len(all) != 1 || len(leased(all[0])) != 1 {
			t.Fatalf("the attempt is not held any more after %s", time.Since(begin))
		}
		return time.Since(begin) > o.Lease+time.Second
	})
	server.Restart()
	testkit.Eventually(t, "the outage is over", func() bool { return w.DB.Ping(w.Ctx).Err() == nil })
	testkit.Eventually(t, "its lease is over", func() bool { return len(w.all()) == 0 || len(leased(w.all()[0])) == 0 })
}

// A shard of a cluster may be away while the others answer.
func TestWorkers_HoldAttemptsOfWhichRedisSaysNothing(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	server := redistest.Start(t)
	shard := redistest.NewProxy(t, server.Addr())
	on := storetest.On(t, redistest.Open(t, shard.URL()))
	on.DB = server.DB(t)
	w := join(t, on)
	ref, o := w.hand("a"), offer()
	o.Lease = time.Second // to outlast it in the test
	if len(w.take(o)) != 1 {
		t.Fatal("it took nothing")
	}
	shard.Cut()
	begin := time.Now()
	testkit.Eventually(t, "a while is over", func() bool {
		w.Extended("w1", nil, nil, o.Lease) // as the worker tries to
		if all := w.all(); len(all) != 1 || len(leased(all[0])) != 1 {
			t.Fatalf("the attempt is not held any more after %s", time.Since(begin))
		}
		return time.Since(begin) > 2*o.Lease
	})
	testkit.Must(t, on.DB.HDel(t.Context(), string(on.KeysOf(ref).States()), ref.String()).Err())
	shard.Mend()
	testkit.Eventually(t, "Redis says that it is lost", func() bool {
		w.Extended("w1", nil, nil, o.Lease)
		return len(leased(w.all()[0])) == 0
	})
}

func TestWorkers_ExtendingIsASignOfLife(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	ref := w.hand("a")
	runs := w.take(offer())
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		w.Extended("w1", runs, nil, time.Second)
		testkit.Eventually(t, "it is on the list", func() bool { return len(w.Guests()) == 1 && w.Guests()[0].Running == 1 })
	}
	if got := w.delivery(ref); got != "active" {
		t.Errorf("the delivery is %q", got)
	}
	w.Extended("w1", nil, runs, time.Second)
	testkit.Eventually(t, "a lost one is settled", func() bool { return w.delivery(ref) == "" })
}

func TestWorkers_AnotherOfferTakesThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hand("a")
	w.take(offer())
	other := offer()
	other.Queues, other.Capacity = []string{"low", "default"}, 7
	w.hand("b")
	if len(w.take(other)) != 1 {
		t.Error("it took nothing")
	}
	guests := w.Guests()
	if len(guests) != 1 || guests[0].Capacity != 7 || guests[0].Running != 2 || guests[0].Tasks != 2 || fmt.Sprint(guests[0].Queues) != "map[default:1 low:1]" {
		t.Errorf("on the list is %+v", guests)
	}
}

// The worker's call for attempts is not answered yet when it calls with another offer.
func TestWorkers_AnotherOfferKeepsWhatIsBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hand("a")
	other := offer()
	other.Capacity = 7
	w.onScript.Store("begin", context.CancelFunc(func() {
		_, err := w.session("w1", "", other)
		testkit.Must(t, err)
	}))
	if got := names(w.take(offer())); len(got) != 1 {
		t.Errorf("took %v", got)
	}
	testkit.Eventually(t, "the newer session has the run", func() bool {
		guests := w.Guests()
		return len(guests) == 1 && guests[0].Capacity == 7 && guests[0].Running == 1
	})
}

// A session can stop between the moment in which it is looked up and the one in which it is told of runs: nobody would end them there.
func TestSession_HoldsNothingOnceItHasStopped(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(stopped, earlier *session, runs []*tasks.Run){
		"by an earlier session": func(stopped, earlier *session, _ []*tasks.Run) { stopped.inherit(earlier) },
		"by the worker":         func(stopped, _ *session, runs []*tasks.Run) { stopped.extended(runs, nil, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hand("a")
			o := offer()
			o.Lease = time.Minute
			runs := w.take(o)
			stopped := newSession(w.Workers, "w1", o)
			stopped.stop()
			tell(stopped, w.of("w1"), runs)
			testkit.Must(t, w.Leave(w.Ctx, "w1"))
			if held := leased(stopped); len(held) > 0 || testkit.Metric(t, w.metrics.Running) != 0 {
				t.Errorf("it holds %d runs, and the node counts %v that run", len(held), testkit.Metric(t, w.metrics.Running))
			}
		})
	}
}

func TestWorkers_AreInTheMetricsOfTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	is := func(when string, capacity, running, begun float64) {
		t.Helper()
		got := [3]float64{testkit.Metric(t, w.metrics.Capacity), testkit.Metric(t, w.metrics.Running), testkit.Metric(t, w.metrics.BeginLateness)}
		if want := [3]float64{capacity, running, begun}; got != want {
			t.Errorf("%s: capacity, running and begun are %v, want %v", when, got, want)
		}
	}
	o := offer()
	o.Lease = time.Minute
	w.hand("a")
	w.hand("b")
	runs, err := w.Take(w.Ctx, "w1", o, Request{ID: "1", Limit: 2, Wait: 10 * time.Second})
	testkit.Must(t, err)
	is("two have begun", 4, 2, 2)
	_, err = w.Take(w.Ctx, "w1", o, requested("1"))
	testkit.Must(t, err)
	is("the call was repeated", 4, 2, 2)
	w.Extended("w1", runs, nil, time.Minute)
	w.Settle(runs[0], nil)
	is("one has ended", 4, 1, 2)
	o.Capacity = 7
	_, err = w.Take(w.Ctx, "w1", o, Request{Limit: 1})
	testkit.Must(t, err)
	testkit.Eventually(t, "the worker counts once when its offer has changed", func() bool {
		return testkit.Metric(t, w.metrics.Capacity) == 7 && testkit.Metric(t, w.metrics.Running) == 1
	})
	testkit.Must(t, w.stop())
	is("the node has stopped", 0, 0, 2)
	const types = 100 // that have labels of their own
	for i := range 2 * types {
		w.CountEnd(fmt.Sprint("type-", i), task.OutcomeSucceeded, time.Second)
	}
	if n := testkit.Metric(t, w.metrics.Attempts.WithLabelValues("other", "succeeded")); n != types {
		t.Errorf("%v attempts are of other types, want %d: labels stay few", n, types)
	}
}

func TestWorkers_HaveALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mu.Lock()
	for i := range SessionsLimit {
		s := newSession(w.Workers, fmt.Sprint("other-", i), offer())
		s.calls = 1 // it is not silent
		w.sessions[s.id] = s
	}
	w.mu.Unlock()
	if _, err := w.Take(w.Ctx, "w1", offer(), Request{Limit: 1}); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("one more: %v, want %s", err, task.CodeUnavailable)
	}
}

func TestWorkers_OneAddressHasAShareOfThePlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.o.PerAddress = 2
	call := func(worker, address string, o Offer) error {
		s, err := w.session(worker, address, o)
		if err == nil {
			s.call() // which goes on, so that the worker is not silent
		}
		return err
	}
	testkit.Must(t, call("w1", "192.0.2.1", offer()))
	testkit.Must(t, call("w2", "192.0.2.1", offer()))
	_, err := w.Take(w.Ctx, "w3", offer(), Request{Limit: 1, Address: "192.0.2.1"})
	const want = "worker: 2 workers call this node from the address 192.0.2.1, and --max-workers-per-address allows no more: ask another node"
	if task.CodeOf(err) != task.CodeUnavailable || err.Error() != want {
		t.Errorf("a third one: %v, want %s: %s", err, task.CodeUnavailable, want)
	}
	testkit.Must(t, call("w3", "192.0.2.2", offer()))
	other := offer()
	other.Capacity = 7
	testkit.Must(t, call("w2", "192.0.2.1", other)) // in place of its first offer
	testkit.Must(t, w.Leave(w.Ctx, "w1"))
	testkit.Must(t, call("w4", "192.0.2.1", offer()))
}

func TestWorkers_OneAddressBringsABoundedNumberOfNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := func(of string) Offer {
		o := offer()
		o.Types, o.Queues = nil, nil
		for i := range 100 {
			name := fmt.Sprintf("%s%02d", of, i)
			o.Types = append(o.Types, name+strings.Repeat("t", 100-len(name)))
			o.Queues = append(o.Queues, name+strings.Repeat("q", 200-len(name)))
		}
		return o
	}
	call := func(worker, address string, o Offer) error {
		s, err := w.session(worker, address, o)
		if err == nil {
			s.call() // which goes on, so that the worker is not silent
		}
		return err
	}
	testkit.Must(t, call("w1", "192.0.2.1", large("a")))
	testkit.Must(t, call("w2", "192.0.2.1", large("a"))) // the same names
	testkit.Must(t, call("w3", "192.0.2.1", offer()))
	_, err := w.Take(w.Ctx, "w4", large("b"), Request{Limit: 1, Address: "192.0.2.1"})
	if task.CodeOf(err) != task.CodeUnavailable || !strings.Contains(err.Error(), "from the address 192.0.2.1 have ") ||
		!strings.Contains(err.Error(), "at most 32768 are allowed") {
		t.Errorf("more names: %v, want %s and the limit", err, task.CodeUnavailable)
	}
	testkit.Must(t, call("w4", "192.0.2.2", large("b")))
	testkit.Must(t, w.Leave(w.Ctx, "w2"))
	testkit.Must(t, call("w1", "192.0.2.1", large("c"))) // in place of its first offer
}

func TestWorkers_OneAddressHasABoundedAmountOfLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := func(worker, address string, labels int) error {
		o := offer()
		o.Labels = config.Labels{}
		for i := range labels {
			o.Labels[fmt.Sprintf("%063d", i)] = strings.Repeat("v", 63)
		}
		s, err := w.session(worker, address, o)
		if err == nil {
			s.call() // which goes on, so that the worker is not silent
		}
		return err
	}
	for i := range 8 {
		testkit.Must(t, call(fmt.Sprint("w", i), "192.0.2.1", 32))
	}
	_, err := w.Take(w.Ctx, "w8", Offer{
		Types: []string{"t"}, Queues: []string{"default"}, Capacity: 1, Lease: time.Minute,
		Labels: config.Labels{"a": strings.Repeat("v", 512)},
	}, Request{Limit: 1, Address: "192.0.2.1"})
	if task.CodeOf(err) != task.CodeUnavailable || !strings.Contains(err.Error(), "labels: ") ||
		!strings.Contains(err.Error(), "from the address 192.0.2.1 have 32769 bytes, at most 32768 are allowed") {
		t.Errorf("more labels: %v, want %s and the limit", err, task.CodeUnavailable)
	}
	testkit.Must(t, call("w8", "192.0.2.2", 32))
	testkit.Must(t, call("w1", "192.0.2.1", 0)) // in place of its first offer
	testkit.Must(t, call("w8", "192.0.2.1", 32))
}

func TestWorkers_ShowWhatTheyTellOfThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guest := func() cluster.Node {
		t.Helper()
		guests := w.Guests()
		if len(guests) != 1 {
			t.Fatalf("on the list are %+v", guests)
		}
		return guests[0]
	}
	s, err := w.session("w1", "", offer())
	testkit.Must(t, err)
	s.call() // which goes on, so that the worker is not silent
	if n := guest(); n.Name != "w1" || n.Labels != nil || n.Machine != nil {
		t.Errorf("who tells nothing is %+v", n)
	}
	other, machine := offer(), &cluster.Machine{CPU: new(0.5)}
	other.Labels = config.Labels{"zone": "eu"}
	_, err = w.Take(w.Ctx, "w1", other, Request{Limit: 1, Machine: machine})
	testkit.Must(t, err)
	if n := guest(); fmt.Sprint(n.Labels) != "zone=eu" || n.Machine != machine {
		t.Errorf("after a call with labels and a machine, it is %+v", n)
	}
	later := &cluster.Machine{CPU: new(0.75)}
	w.Measured("w1", later)
	w.Measured("w1", nil)
	w.Measured("nobody", later)
	other.Capacity++
	_, err = w.Take(w.Ctx, "w1", other, Request{Limit: 1})
	testkit.Must(t, err)
	if n := guest(); n.Machine != later {
		t.Errorf("after it told more, and offered something else, it is %+v", n)
	}
	session := w.of("w1")
	session.mu.Lock()
	session.told = session.told.Add(-machineKept)
	session.mu.Unlock()
	if n := guest(); n.Machine != nil {
		t.Errorf("what it told long ago is still shown: %+v", n.Machine)
	}
}

func TestWorkers_StopTakingWithTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := make(chan []*tasks.Run, 1)
	go func() { taken <- w.take(offer()) }()
	testkit.Eventually(t, "it waits", func() bool { return len(w.Guests()) == 1 })
	testkit.Must(t, w.stop())
	if got := testkit.Receive(t, taken, "the answer"); len(got) != 0 {
		t.Errorf("took %+v", got)
	}
	if _, err := w.Take(w.Ctx, "w2", offer(), Request{Limit: 1}); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("after the end: %v, want %s", err, task.CodeUnavailable)
	}
}

// What has no room in an answer waits for the next call, in its queue.
func TestTake_EndsABatchThatIsFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const n, size, room = 30, 200 << 10, TakeBytes / (200 << 10)
	w := newWorld(t)
	payload := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
	var refs []task.Ref
	for i := range n {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("large-", i)}
		w.World.Create(task.Definition{Ref: ref, Type: "count", Payload: payload})
		testkit.Must(t, w.queues.HandOver(w.Ctx, w.Claim(ref), nil).Failure())
		refs = append(refs, ref)
	}
	o := offer()
	o.Capacity, o.Lease = 2*n, time.Minute
	taken := map[task.Ref]bool{}
	for len(taken) < n {
		runs, err := w.Take(w.Ctx, "w1", o, Request{ID: fmt.Sprint("r", len(taken)), Limit: TakeLimit, Wait: 10 * time.Second})
		testkit.Must(t, err)
		again, err := w.Take(w.Ctx, "w1", o, Request{ID: fmt.Sprint("r", len(taken)), Limit: TakeLimit, Wait: 10 * time.Second})
		testkit.Must(t, err)
		if !slices.Equal(names(again), names(runs)) {
			t.Errorf("a repeat has %d attempts, want %d", len(again), len(runs))
		}
		if len(runs) == 0 || len(runs) > room {
			t.Fatalf("%d attempts of %d bytes in one answer, at most %d have room", len(runs), size, room)
		}
		for _, r := range runs {
			if taken[r.Task.Ref] {
				t.Errorf("%s was taken twice", r.Task.Ref)
			}
			taken[r.Task.Ref] = true
		}
	}
	for _, ref := range refs {
		if got := w.Get(ref); got.State != task.Running || got.Attempt != 1 || w.delivery(ref) != "active" {
			t.Errorf("%s is %s, attempt %d, its delivery %s", ref, got.State, got.Attempt, w.delivery(ref))
		}
	}
}

// A client can name any number of queues.
func TestTake_ListsAQueueOnlyOnceItHasADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := offer()
	o.Queues = append(o.Queues, "made-up")
	w.hand("a")
	if runs := w.take(o); len(runs) != 1 {
		t.Fatalf("took %d attempts", len(runs))
	}
	listed := w.DB.SMembers(w.Ctx, string(lua.AsynqQueues)).Val()
	if len(listed) != 1 || listed[0] != "default" {
		t.Errorf("asynq lists %v", listed)
	}
}

// A worker that is cordoned gets no attempts, and another one does. It gets them again when that is over.
func TestTake_GivesACordonedWorkerNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if runs, err := w.Take(w.Ctx, "w1", offer(), Request{Limit: 10}); err != nil || len(runs) > 0 {
		t.Fatalf("it took %v, %v", runs, err)
	}
	view := w.cordonedView("w1", cluster.Cordon{})
	w.seen.view.Store(&view)
	if !w.NoteCordons(view) || w.NoteCordons(view) {
		t.Error("it did not say once that something has changed")
	}
	a := w.hand("a")
	if runs, err := w.Take(w.Ctx, "w1", offer(), Request{Limit: 10, Wait: 50 * time.Millisecond}); err != nil || len(runs) > 0 {
		t.Errorf("it took %v, %v", runs, err)
	}
	runs, err := w.Take(w.Ctx, "w2", offer(), Request{Limit: 10, Wait: 10 * time.Second})
	if err != nil || len(runs) != 1 || runs[0].Task.Ref != a {
		t.Errorf("another worker took %v, %v", runs, err)
	}
	for _, n := range w.Guests() {
		if is := n.Obeys != 0; is != (n.ID == "w1") || n.Tasks != map[bool]int{true: 0, false: 1}[is] {
			t.Errorf("%s obeys a cordon: %t, and runs %d", n.ID, is, n.Tasks)
		}
	}
	b := w.hand("b")
	taken := make(chan []*tasks.Run, 1)
	go func() { taken <- w.take(offer()) }()
	w.seen.view.Store(nil)
	w.NoteCordons(cluster.View{}) // in which nobody is cordoned
	if runs := testkit.Receive(t, taken, "the attempt"); len(runs) != 1 || runs[0].Task.Ref != b {
		t.Errorf("after the cordon it took %v", runs)
	}
}

// What a drained worker runs is asked to move; what a cordoned one runs is not.
func TestDrains_FollowsTheCordonOfTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, drain := range []bool{false, true} {
		seen := viewed{view: w.cordonedView("w1", cluster.Cordon{Drain: drain})}
		workers := New(Options{
			DB: w.DB, Store: w.Store, Members: seen, Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler),
		})
		if got := workers.Drains("w1"); got != drain {
			t.Errorf("a cordon with drain %t: %t", drain, got)
		}
		if workers.Drains("w2") {
			t.Error("another worker drains")
		}
	}
}

// viewed is a list of nodes that does not change.
type viewed struct {
	members
	view cluster.View
}

func (v viewed) View() cluster.View { return v.view }

// cordonedView is what a node sees while a worker is cordoned.
func (w *world) cordonedView(worker string, how cluster.Cordon) cluster.View {
	w.t.Helper()
	nodes := cluster.New(cluster.Options{
		DB: w.DB, Key: w.Keys.Nodes(), Cordons: w.Keys.Cordons(), Channel: w.Keys.Members(), ID: "n", Beat: time.Second,
		Log: slog.New(slog.DiscardHandler), Self: func() cluster.Node { return cluster.Node{} },
	})
	testkit.Must(w.t, nodes.Cordon(w.Ctx, worker, how, 0))
	ctx, stop := context.WithCancel(w.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- nodes.Run(ctx) }()
	<-nodes.Ready()
	stop()
	testkit.Must(w.t, testkit.Receive(w.t, ended, "the end of the node"))
	return nodes.View()
}
