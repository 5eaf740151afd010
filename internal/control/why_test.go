package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
)

// worker is a living node that serves queues with one slot; taken is how many of these are taken.
func worker(id string, taken int, types []string, queues ...string) cluster.Node {
	n := aNode("alive", types, queues...)
	n.ID, n.Capacity, n.Running, n.LastBeat = id, 1, taken, time.Now()
	return n
}

// whyOf is the codes of what WhyTask says, and the first reason.
func (w *world) whyOf(id string) ([]why.Code, why.Reason) {
	w.t.Helper()
	answer, err := w.WhyTask(w.ctx, me, id)
	testkit.Must(w.t, err)
	return codes(answer)
}

func codes(answer Why) (all []why.Code, first why.Reason) {
	for _, r := range answer.Reasons {
		all = append(all, r.Code)
	}
	if len(all) > 0 {
		first = answer.Reasons[0]
	}
	return all, first
}

func (w *world) expectTask(id string, want ...why.Code) why.Reason {
	w.t.Helper()
	got, first := w.whyOf(id)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s waits for %v, want %v: %+v", id, got, want, first)
	}
	return first
}

// due submits a task that is due at once.
func (w *world) due(id, queue string) task.Ref {
	w.t.Helper()
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Queue: queue}
	testkit.Must(w.t, w.submit([]task.Definition{d})[0].Err)
	return d.Ref
}

func TestWhyTask_FollowsATaskOnItsWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	later := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http", Delay: time.Hour}
	testkit.Must(t, w.submit([]task.Definition{later})[0].Err)
	if r := w.expectTask("a", why.NotDue); r.NextAttemptAt.IsZero() || r.Since.IsZero() {
		t.Errorf("%+v, want the times of creation and of the attempt", r)
	}
	a := task.Ref{Namespace: "default", ID: "a"}
	w.claim(a)
	w.expectTask("a", why.Delivery)
	run, err := w.store.Tasks.Begin(w.ctx, a, 1, "node#1")
	testkit.Must(t, err)
	w.expectTask("a")
	testkit.Must(t, run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "no such host"))
	w.expectTask("a")
}

func TestWhyTask_TellsTheErrorBeforeARetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	run := w.begun(w.due("a", ""))
	testkit.Must(t, run.Reattempt(w.ctx, time.Minute, task.OutcomeFailed, "no such host"))
	r := w.expectTask("a", why.Retry)
	if r.LastError != "no such host" || !strings.Contains(r.Detail,
		"Attempt 2 of 25") || !r.NextAttemptAt.After(r.Since) || r.Since.IsZero() {
		t.Errorf("%+v, want the error and the time of attempt 2", r)
	}
}

// An attempt that asked to run again later is no failure.
func TestWhyTask_TellsOfASnooze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	run := w.begun(w.due("a", ""))
	testkit.Must(t, run.Reattempt(w.ctx, time.Minute, task.OutcomeSnoozed, "snoozed for 1m0s"))
	r := w.expectTask("a", why.NotDue)
	told := strings.Contains(r.Detail, "attempt 2 is due at")
	if r.LastError != "" || !told || !r.NextAttemptAt.After(r.Since) || r.Since.IsZero() {
		t.Errorf("%+v, want the time of attempt 2 and no error", r)
	}
}

func TestWhyTask_TellsOfTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"http": {}, "shell": {Setting: "enable-shell"}}
	dead := worker("gone", 0, nil, "served")
	dead.State = "dead"
	w.due("a", "served")
	w.nodes = fleet{dead}
	if r := w.expectTask("a", why.QueueUnserved); !r.Since.Equal(dead.LastBeat) || !strings.Contains(r.Detail, "gone") {
		t.Errorf("%+v, want since when the node is dead", r)
	}
	w.nodes = fleet{dead, worker("node", 0, []string{"shell"}, "served")}
	w.expectTask("a", why.TypeUnserved)
	testkit.Must(t, w.queues.Add(w.ctx, "served"))
	testkit.Must(t, w.PauseQueue(w.ctx, Caller{Namespace: "default", Name: "ann"}, "served", ""))
	w.expectTask("a", why.TypeUnserved, why.QueuePaused)
	w.nodes = fleet{worker("node", 0, []string{"http"}, "served")}
	r := w.expectTask("a", why.QueuePaused)
	if time.Since(r.Since).Abs() > time.Minute || !strings.Contains(r.Detail, "ann") {
		t.Errorf("%+v, want who paused it, and when", r)
	}
}

func TestWhyTask_TellsWhoHoldsTheSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")} // it has not sent a heartbeat since
	long := w.due("long", "")
	w.begun(long)
	testkit.Must(t, w.queues.Forget(task.Delivery{Ref: long, Attempt: 1, Queue: "default"})) // a worker has taken it
	w.due("b", "")
	if r := w.expectTask("b", why.SlotsTaken); !strings.Contains(r.Detail,
		"default:long since") || r.Since.IsZero() || *r.Ahead != 0 {
		t.Errorf("%+v, want the task that holds the slot, and none ahead", r)
	}
	for _, id := range []string{"c", "d"} {
		w.claim(w.due(id, "")) // a leader hands over in order of the due times
	}
	w.claim(task.Ref{Namespace: "default", ID: "b"})
	if r := w.expectTask("b", why.SlotsTaken); *r.Ahead != 2 {
		t.Errorf("%d ahead in the queue, want 2", *r.Ahead)
	}
	if r := w.expectTask("c", why.SlotsTaken); *r.Ahead != 0 {
		t.Errorf("%d ahead of the first one, want none", *r.Ahead)
	}
}

func TestWhyTask_TellsThatNoNodeMatches(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	eu, us := worker("eu-1", 0, nil, "default"), worker("us-1", 1, nil, "default")
	eu.Labels, us.Labels = config.Labels{"zone": "eu"}, config.Labels{"zone": "us", "gpu": "2"}
	w.nodes = fleet{eu, us}
	for id, reach := range map[string]string{"both": "gpu,zone=eu;;", "busy": "zone=us;;", "free": "zone=eu;;round"} {
		w.submit([]task.Definition{{Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Reach: reach}})
	}
	const want = "no node matches gpu, zone=eu (of 2: 1 satisfy gpu, 1 satisfy zone=eu)"
	if r := w.expectTask("both", why.NoNode); !strings.Contains(r.Detail, want) {
		t.Errorf("it says %q", r.Detail)
	}
	if r := w.expectTask("busy", why.NodeFull); !strings.Contains(r.Detail, "us-1 1/1") {
		t.Errorf("it says %q", r.Detail)
	}
	w.expectTask("free", why.Delivery)
}

func TestWhyTask_TellsThatNobodyLeads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	a := w.due("a", "")
	k := w.store.KeysOf(a)
	testkit.Must(t, w.db.Del(w.ctx, string(k.Term(fence))).Err())
	w.expectTask("a", why.NoLeader)
	testkit.Must(t, w.db.Set(w.ctx, string(k.Term(fence)), "1", 0).Err())
	w.expectTask("a", why.Delivery)
}

func TestWhyTask_TellsWhatKeepsARunFromEnding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 1, nil, "default")}
	a := w.due("a", "")
	w.begun(a)
	_, err := w.CancelTask(w.ctx, me, "a", "")
	testkit.Must(t, err)
	w.expectTask("a", why.Stopping)
	testkit.Must(t, w.db.ZAdd(w.ctx, w.partitionKey(a, "held"), z(float64(w.now().Add(-time.Second).UnixMilli()),
		a.String())).Err())
	w.expectTask("a", why.WorkerSilent, why.Stopping)
}

func TestWhyTask_TellsWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, want := range map[string]task.Code{"none": task.CodeTaskNotFound, "not a name": task.CodeInvalid} {
		if _, err := w.WhyTask(w.ctx, me, id); task.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
	w.put(daily(nil))
	for id, want := range map[string]string{
		"nightly@20260102T030000Z": "a tick has none while it waits (dtsctl schedule why nightly)",
		"nightly":                  "but a schedule of that id (dtsctl schedule why nightly)",
		"none":                     "it may be in another namespace (dtsctl task get none -A), or was deleted after its end",
	} {
		_, err := w.WhyTask(w.ctx, me, id)
		if task.CodeOf(err) != task.CodeTaskNotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("of %s it says %v", id, err)
		}
	}
	if _, err := w.WhySchedule(w.ctx, me, "none"); task.CodeOf(err) != schedule.CodeNotFound {
		t.Errorf("%v, want %s", err, schedule.CodeNotFound)
	}
	if _, err := w.WhyQueue(w.ctx, me, "none"); task.CodeOf(err) != CodeQueueNotFound {
		t.Errorf("%v, want %s", err, CodeQueueNotFound)
	}
}

func TestWhy_SaysThatRedisIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.due("a", "")
	w.server.Kill()
	check := func(name string, ask func(context.Context, Caller, string) (Why, error)) func() {
		return func() {
			answer, err := ask(w.ctx, me, name)
			if got, first := codes(answer); err != nil || !slices.Equal(got, []why.Code{why.RedisSilent}) {
				t.Errorf("%s: %v, %v %+v", name, err, got, first)
			}
		}
	}
	calls.Do(check("a", w.WhyTask), check("nightly", w.WhySchedule), check("default", w.WhyQueue))
}

// levels lets the calls of a client through together, as many at once as a round trip is to have.
type levels struct {
	held chan struct{} // a call waits
	pass chan struct{} // it goes on
}

func (*levels) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *levels) wait() { l.held <- struct{}{}; <-l.pass }

func (l *levels) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" && cmd.Name() != "client" {
			l.wait()
		}
		return next(ctx, cmd)
	}
}

func (l *levels) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "hello" && cmds[0].Name() != "client" {
			l.wait()
		}
		return next(ctx, cmds)
	}
}

func TestWhyTask_TakesThreeRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 1, nil, "default")}
	w.due("a", "")
	l := &levels{make(chan struct{}), make(chan struct{})}
	_, _ = w.WhyTask(w.ctx, me, "a") // the scripts are loaded
	w.db.AddHook(l)
	answered := make(chan error)
	go func() {
		_, err := w.WhyTask(w.ctx, me, "a")
		answered <- err
	}()
	for trip, calls := range []int{4, 5, 1} { // to read who leads takes two, beside others
		for range calls {
			testkit.Receive(t, l.held, "a call")
		}
		select {
		case <-l.held:
			t.Fatalf("round trip %d has more than %d calls", trip+1, calls)
		default:
		}
		for range calls {
			l.pass <- struct{}{}
		}
	}
	testkit.Must(t, testkit.Receive(t, answered, "the answer after three round trips"))
}

func TestWhyTask_TellsThatItCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	a := w.due("a", "")
	testkit.Must(t, w.db.HSet(w.ctx, w.partitionKey(a, "defs"), a.String(), "1767366245000no definition").Err())
	w.expectTask("a", why.Unreadable)
}

func TestWhyTask_TellsThatRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.due("a", "")
	w.server.RefuseWrites()
	if r := w.expectTask("a", why.RedisSilent); !strings.Contains(r.Detail, "NOREPLICAS") {
		t.Errorf("%+v, want what Redis says", r)
	}
	w.server.TakeWrites()
	w.expectTask("a", why.Delivery)
}

func TestWhyTask_TellsThatAKeyIsDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.due("a", "")
	testkit.Must(t, w.db.Set(w.ctx, "asynq:{default}:pending", "no list", 0).Err())
	w.expectTask("a", why.Unreadable)
}
