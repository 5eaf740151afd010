package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// clustered is a world in a cluster, in which no replica takes over.
type clustered struct {
	*world
	cluster *redistest.Cluster
}

func newClustered(t *testing.T) *clustered {
	t.Helper()
	c := redistest.StartCluster(t, redistest.NoFailover())
	w := &world{t: t, url: c.URL(), db: redistest.Open(t, c.URL()), lease: runLease, slots: 1000}
	w.store = w.open(w.db)
	return &clustered{w, c}
}

// queue returns the name of a queue that is on that server, or on another one.
func (w *clustered) queue(server *redistest.Server, on bool) string {
	w.t.Helper()
	for i := 0; ; i++ {
		name := fmt.Sprint("queue", i)
		if (w.cluster.Primary(string(lua.AsynqQueue(name).Pending())) == server) == on {
			return name
		}
	}
}

// partitions returns those that are not on that server.
func (w *clustered) partitions(not *redistest.Server) (elsewhere []int) {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		if w.cluster.Primary(string(w.store.Keys.Partition(p).States())) != not {
			elsewhere = append(elsewhere, p)
		}
	}
	return elsewhere
}

// refs names n tasks whose partitions are not on that server.
func (w *clustered) refs(not *redistest.Server, n int) []task.Ref {
	w.t.Helper()
	elsewhere := w.partitions(not)
	var refs []task.Ref
	for i := 0; len(refs) < n; i++ {
		if ref := (task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint(i)}); slices.Contains(elsewhere, w.store.PartitionOf(ref)) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// stream is tasks that are submitted while a server is silent, and whose partitions are on others.
type stream struct {
	*clustered
	control *control.Control // remembers that the namespace is known, which the silent server may have to say
	refs    []task.Ref
}

func (w *clustered) stream(silent *redistest.Server) *stream {
	return &stream{w, useCases(w.store), w.refs(silent, 2000)}
}

func (s *stream) submit(queue string) task.Ref {
	s.t.Helper()
	ref := s.refs[0]
	s.refs = s.refs[1:]
	_, err := s.control.Submit(s.t.Context(), caller, task.Definition{Ref: ref, Queue: queue, Type: "echo"})
	testkit.Must(s.t, err)
	return ref
}

// handedOver is a condition: the first attempt of a task is in its queue.
func (s *stream) handedOver(ref task.Ref, queue string) func() bool {
	id := task.Delivery{Ref: ref, Attempt: 1}.String()
	return func() bool { return s.db.Exists(s.t.Context(), string(lua.AsynqQueue(queue).Delivery(id))).Val() == 1 }
}

// goesOn submits tasks for both queues for a while, and fails the test unless each of the second queue is handed over in time. It returns those of the
// first queue.
func (s *stream) goesOn(held, free string) (waiting []task.Ref) {
	s.t.Helper()
	watch, latest := testkit.StartStopwatch(s.t), time.Duration(0)
	for begin := clock.Now(); clock.Since(begin) < 6*time.Second; {
		waiting = append(waiting, s.submit(held))
		start := watch.Elapsed()
		testkit.Eventually(s.t, "a task is handed over", s.handedOver(s.submit(free), free))
		latest = max(latest, watch.Elapsed()-start)
		testkit.Must(s.t, clock.Sleep(s.t.Context(), 20*time.Millisecond))
	}
	if s.t.Logf("%d tasks were handed over within %s each", len(waiting), latest); latest > time.Second {
		s.t.Errorf("a task was handed over after %s", latest)
	}
	return waiting
}

// Tasks of a queue wait as if it had no room while its server is silent. Those of the others go their way, also in the same partition.
func TestDispatch_HandsOverInTimeWhileTheServerOfAnotherQueueIsSilent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newClustered(t)
	silent := w.cluster.Other(string(lua.AsynqQueues))
	away, elsewhere := w.queue(silent, true), w.queue(silent, false)
	w.serve(away, 10)
	w.serve(elsewhere, 1000)
	a := w.start("a", never, func(n *node) { n.pace = defaultPace })
	w.leads(map[*node]int{a: 16})
	s := w.stream(silent)
	for _, queue := range []string{away, elsewhere} {
		testkit.Eventually(t, "it is handed over", s.handedOver(s.submit(queue), queue))
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	waiting := s.goesOn(away, elsewhere)
	if got := w.get(waiting[len(waiting)-1]).State; got != task.Scheduled {
		t.Errorf("the last task of %d for the silent server is %s, want scheduled", len(waiting), got)
	}
	silent.Continue()
	testkit.Within(t, 5*time.Second, "the queue gets its tasks", func() bool { return w.pending(away) >= handover.LeastAhead })
	testkit.Within(t, 5*time.Second, "so it does those that were claimed first", s.handedOver(waiting[0], away))
}

// Whether one of asynq's own servers serves a queue matters to the tasks of that queue alone.
func TestDispatch_HandsOverInTimeWhileTheServerOfTheListOfAsynqsServersIsSilent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newClustered(t)
	silent := w.cluster.Primary(string(lua.AsynqServers))
	elsewhere := w.queue(silent, false)
	w.serve(elsewhere, 1000)
	a := w.start("a", never, func(n *node) { n.pace = defaultPace })
	w.leads(map[*node]int{a: 16})
	s := w.stream(silent)
	testkit.Eventually(t, "it is handed over", s.handedOver(s.submit(elsewhere), elsewhere))

	silent.Pause()
	t.Cleanup(silent.Continue)
	for _, ref := range s.goesOn("nobody", elsewhere) {
		if got := w.get(ref).State; got == task.Running {
			t.Errorf("a task that nobody serves is %s", got)
		}
	}
}

// What is known of asynq's own servers stays known while their list cannot be read.
func TestDispatch_ServesAsynqsServersWhileTheServerOfTheirListIsAway(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, remove := range map[string]func(*redistest.Server){"silent": (*redistest.Server).Pause, "dead": (*redistest.Server).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClustered(t)
			away := w.cluster.Primary(string(lua.AsynqServers))
			foreign := w.queue(away, false)
			ended := make(chan struct{})
			w.asynqServerOn(w.db, foreign, 1000, func(context.Context, *asynq.Task) error {
				<-ended
				return nil
			})
			t.Cleanup(func() { close(ended) })
			a := w.start("a", never, func(n *node) { n.pace = defaultPace })
			w.leads(map[*node]int{a: 16})
			s := w.stream(away)
			testkit.Eventually(t, "it is handed over", s.handedOver(s.submit(foreign), foreign))

			remove(away)
			t.Cleanup(away.Continue)
			s.goesOn("nobody", foreign)
		})
	}
}

// What a leader asks for others is no reason to wait.
func TestPlan_APartitionWithoutABacklogWaitsForNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.stillScheduler().plan
	p.asking.Lock()
	defer p.asking.Unlock()
	reserved := make(chan bool, 1)
	go func() {
		_, ok := p.grant(t.Context(), 0, true)
		reserved <- ok
	}()
	if !testkit.Receive(t, reserved, "the grant") {
		t.Error("nothing may be claimed")
	}
}

// other returns a primary that has none of the keys.
func (w *clustered) other(keys ...string) *redistest.Server {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		server := w.cluster.Primary(string(w.store.Keys.Partition(p).States()))
		if !slices.ContainsFunc(keys, func(key string) bool { return w.cluster.Primary(key) == server }) {
			return server
		}
	}
	w.t.Fatal("the keys are on all servers")
	return nil
}

// Whoever is to lead asks for the leases of the other servers, and gets them, as if the silent one had none.
func TestBalance_HandsPartitionsOverInTimeWhileTheServerOfOthersIsSilent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newClustered(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	b := w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	silent := w.other(string(w.store.Keys.Nodes()), string(w.store.Keys.Leaders()))
	reachable := w.partitions(silent)

	silent.Pause()
	t.Cleanup(silent.Continue)
	watch := testkit.StartStopwatch(t)
	a.members.SetDraining(true)
	a.stop()
	testkit.Eventually(t, "b leads what can be led", func() bool { return containsAll(b.Led(), reachable) })
	took := watch.Elapsed()
	if t.Logf("the hand-over took %s", took); took > time.Second {
		t.Errorf("the hand-over of %d partitions took %s", len(reachable), took)
	}
	silent.Continue()
	w.leads(map[*node]int{b: 16})
}

// Whoever asked before a lease was free, and is refused after it was told so, asks again.
func TestBalance_ALateRefusalDoesNotOutlastTheNewsThatALeaseIsFree(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newClustered(t)
	leader := w.start("leader", never)
	w.leads(map[*node]int{leader: 16})
	b := newBalancer(w.stillScheduler())
	silent := w.cluster.Primary(string(w.store.Partitions.LeaseKey(0)))
	t.Cleanup(silent.Continue)
	for _, told := range []bool{true, false} {
		b.retryAll()
		silent.Pause()
		b.acquire(t.Context(), []int{0})
		b.short = true
		for p := range b.retry[1:] {
			b.retry[p+1] = clock.Now().Add(time.Minute)
		}
		if wait := b.untilRetry(); wait <= retryMargin {
			t.Errorf("the node asks for what it waits for again in %s", wait)
		}
		if told {
			b.retryAll()
		}
		silent.Continue()
		b.settle(t.Context(), testkit.Receive(t, b.late, "the late answer"))
		if wanted, _ := b.wanted(1, []int{0}); (len(wanted) == 1) != told {
			t.Errorf("told %t, the lease is requested again in %s", told, clock.Until(b.retry[0]))
		}
	}
}

// unreachable is a cluster of which no server answers.
func unreachable(t *testing.T) *redisx.DB {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { testkit.Must(t, client.Close()) })
	return &redisx.DB{UniversalClient: client}
}

// Where no server answers, there is no reply to look into.
func TestHandOver_FailsIfTheClusterCannotBeReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stillScheduler()
	s.o.DB = unreachable(t)
	s.o.Queues = queue.New(queue.Options{DB: s.o.DB})
	p := newPlan(s)
	var deliveries []task.Delivery
	for _, name := range []string{"closed", "open", "open"} {
		deliveries = append(deliveries, task.Delivery{Ref: task.Ref{Namespace: "default", ID: name}, Attempt: 1, Queue: name})
	}
	p.learn("closed", errors.New("refused"))
	handed := p.handOver(t.Context(), deliveries)
	for i, err := range handed.Failures {
		if err == nil || !handed.At[i].IsZero() || handed.Ended[i] != (queue.Ended{}) {
			t.Errorf("%s: %v, at %v", deliveries[i].Ref, err, handed.At[i])
		}
	}
	if looks, err := p.lookAt(t.Context(), map[string]int{"closed": 1, "open": 1}); err == nil || len(looks) != 0 {
		t.Errorf("looks %v, %v", looks, err)
	}
	if err := p.readSlots(t.Context(), []handover.Lane{{Queue: "open"}}); err == nil {
		t.Error("the slots of a cluster that cannot be reached were read")
	}
	b := newBalancer(s)
	b.errands.DB = s.o.DB
	b.acquire(t.Context(), []int{0})
	if b.adopt(t.Context()); len(b.terms) != 0 {
		t.Errorf("it leads %d partitions", len(b.terms))
	}
	p.wait()
}

// Nobody else can lead what a node that stops goes on to lead.
func TestBalance_EndsTermsAlsoIfTheClusterCannotBeReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stillScheduler()
	s.o.Metrics = telemetry.New()
	b := newBalancer(s)
	held, err := s.leases[3].Acquire(t.Context())
	testkit.Must(t, err)
	done := make(chan struct{})
	led := &term{s: s, partition: 3, held: held, stop: func() { close(done) }, done: done}
	b.terms[3] = led
	b.errands.DB = unreachable(t)
	b.release([]int{3})
	if !led.ended() || held.Context().Err() == nil {
		t.Errorf("the term has ended: %t; the lease is held: %t", led.ended(), held.Context().Err() == nil)
	}
}

// The list of nodes says that a ghost leads half of the partitions.
func TestBalance_LeadsWhatStoodFreeForLongWhileTheServerOfOthersIsSilent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newClustered(t)
	silent := w.other(string(w.store.Keys.Nodes()), string(w.store.Keys.Leaders()))
	reachable := w.partitions(silent)
	defer w.ghost("ghost")()
	a := w.start("a", time.Second)
	testkit.Eventually(t, "a leads its share", func() bool { return len(a.Led()) == 8 })

	silent.Pause()
	t.Cleanup(silent.Continue)
	testkit.Eventually(t, "a leads what can be led", func() bool { return containsAll(a.Led(), reachable) })
	silent.Continue()
	w.leads(map[*node]int{a: 16})
}

func containsAll(all, some []int) bool {
	return !slices.ContainsFunc(some, func(p int) bool { return !slices.Contains(all, p) })
}
