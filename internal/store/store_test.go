package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// world is a store on a Redis of its own, with leases on all partitions.
type world struct {
	*Store
	t   *testing.T
	db  *redisx.DB
	ctx context.Context
}

const fence = "1:tester"

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, redistest.Start(t).DB(t))
}

func newWorldOn(t *testing.T, db *redisx.DB) *world {
	t.Helper()
	s, err := Open(t.Context(), Options{DB: db, Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	for p := range s.Partitions.Count() {
		if err := db.Set(t.Context(), string(s.Keys.Partition(p).Lease()), fence, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return &world{Store: s, t: t, db: db, ctx: t.Context()}
}

func (w *world) create(d task.Definition) task.Task {
	w.t.Helper()
	if d.Type == "" {
		d.Type = "http"
	}
	c := w.Tasks.Create(w.ctx, []task.Definition{d})[0]
	if c.Err != nil {
		w.t.Fatalf("create %s: %v", d.ID, c.Err)
	}
	return c.Task
}

func (w *world) get(ref task.Ref) task.Task {
	w.t.Helper()
	t, err := w.Tasks.Get(w.ctx, ref)
	if task.CodeOf(err) == task.CodeTaskNotFound {
		return task.Task{}
	}
	if err != nil {
		w.t.Fatalf("get %s: %v", ref, err)
	}
	return t
}

func (w *world) leader(ref task.Ref) *partition.Leader {
	return w.Partitions.At(w.PartitionOf(ref)).Lead(fence)
}

func (w *world) claim(ref task.Ref) []task.Delivery {
	w.t.Helper()
	c, err := w.leader(ref).Claim(w.ctx, 100)
	if err != nil {
		w.t.Fatalf("claim: %v", err)
	}
	return c.Deliveries
}

func (w *world) begin(ref task.Ref) *tasks.Run {
	w.t.Helper()
	w.claim(ref)
	run, err := w.Tasks.Begin(w.ctx, ref, w.get(ref).Attempt, "node-a", "node-a#1")
	if err != nil {
		w.t.Fatalf("begin %s: %v", ref, err)
	}
	return run
}

// bring makes a new task and brings it into a state.
func (w *world) bring(id string, s task.State) task.Ref {
	w.t.Helper()
	ref := task.Ref{Namespace: "default", ID: id}
	if s == task.None {
		return ref
	}
	w.create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 2}})
	must := func(err error) {
		if err != nil {
			w.t.Fatalf("bringing %s to %s: %v", id, s, err)
		}
	}
	switch s {
	case task.Queued:
		w.claim(ref)
	case task.Running:
		w.begin(ref)
	case task.Succeeded:
		must(w.begin(ref).Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	case task.Failed:
		must(w.begin(ref).Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	case task.Cancelled:
		_, err := w.Tasks.Cancel(w.ctx, ref)
		must(err)
	}
	return ref
}

// requeue moves a task with that definition to another queue.
func (w *world) requeue(before task.Definition, queue string) error {
	after := before
	after.Queue = queue
	_, err := w.Tasks.Change(w.ctx, before, after, tasks.NewDue{})
	return err
}

// pull does to the task what the action says.
func (w *world) pull(ref task.Ref, action task.Action) error {
	w.t.Helper()
	current := w.get(ref)
	run := w.Tasks.RunOf(current)
	run.Task.Ref = ref
	if current.State != task.Running { // somebody who never began it
		run.Task.Run, run.Task.Attempt = "node-b#7", max(current.Attempt, 1)
	}
	switch action {
	case task.ActCreate:
		return w.Tasks.Create(w.ctx, []task.Definition{{Ref: ref, Type: "shell"}})[0].Err
	case task.ActChange:
		current.Ref = ref
		return w.requeue(current.Definition, "other")
	case task.ActClaim:
		for _, d := range w.claim(ref) {
			if d.Ref == ref {
				return nil
			}
		}
		return errors.New("not claimed")
	case task.ActBegin:
		_, err := w.Tasks.Begin(w.ctx, ref, max(current.Attempt, 1), "node-a", "node-a#2")
		return err
	case task.ActReport:
		return errors.Join(run.Progress(w.ctx, 40), run.Log(w.ctx, 1, []tasks.Line{{Stream: "stdout", Text: "hello"}}))
	case task.ActSucceed:
		return run.Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "done", "")
	case task.ActReattempt:
		return run.Reattempt(w.ctx, time.Hour, task.OutcomeFailed, "boom")
	case task.ActFail:
		return run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "boom")
	case task.ActStop:
		return run.Finish(w.ctx, task.Cancelled, task.OutcomeCancelled, "", "stopped")
	case task.ActCancel:
		_, err := w.Tasks.Cancel(w.ctx, ref)
		return err
	case task.ActRetry:
		_, err := w.Tasks.Retry(w.ctx, ref)
		return err
	case task.ActExpire:
		swept, err := w.leader(ref).Sweep(w.ctx, 0, 100)
		if err == nil && swept.Forgotten == 0 {
			return errors.New("nothing to forget")
		}
		return err
	}
	w.t.Fatalf("no way to pull %q", action)
	return nil
}

// check compares where the sorted sets say the tasks are with the tasks' own word.
func (w *world) check() {
	w.t.Helper()
	for p := range w.Partitions.Count() {
		sets := map[string]task.State{string(w.Keys.Partition(p).Wheel()): task.Scheduled, string(w.Keys.Partition(p).Queued()): task.Queued, string(w.Keys.Partition(p).Running()): task.Running}
		for _, s := range []task.State{task.Succeeded, task.Failed, task.Cancelled} {
			sets[string(w.Keys.Partition(p).Index("default", s))] = s
		}
		found := map[string]task.State{}
		for set, state := range sets {
			for _, member := range w.db.ZRange(w.ctx, set, 0, -1).Val() {
				if other, twice := found[member]; twice {
					w.t.Errorf("%s is listed as %s and as %s", member, other, state)
				}
				found[member] = state
			}
		}
		finals := 0
		tasks := strings.TrimSuffix(string(w.Keys.Partition(p).Task(task.Ref{})), ":")
		for _, key := range w.db.Keys(w.ctx, tasks+"*").Val() {
			member := strings.TrimPrefix(key, tasks)
			state := task.State(w.db.HGet(w.ctx, key, "state").Val())
			if found[member] != state {
				w.t.Errorf("%s is %s, but listed as %q", member, state, found[member])
			}
			if state.Final() {
				finals++
			}
			delete(found, member)
		}
		if len(found) > 0 {
			w.t.Errorf("listed, but without a task: %v", found)
		}
		if n := int(w.db.ZCard(w.ctx, string(w.Keys.Partition(p).Expiry())).Val()); n != finals {
			w.t.Errorf("%d tasks wait to be forgotten, %d have ended", n, finals)
		}
	}
}

// Every state meets every action on a real Redis, and the outcome is what the table says. What is refused leaves
// Redis as it was, byte for byte.
func TestScripts_ObeyTheTransitionTable(t *testing.T) {
	w := newWorld(t)
	for _, from := range append([]task.State{task.None}, task.States...) {
		for _, action := range task.Actions {
			t.Run(fmt.Sprintf("%s/%s", orNone(from), action), func(t *testing.T) {
				w := newWorldOn(t, w.db)
				defer func() { w.db.FlushAll(context.WithoutCancel(w.ctx)) }()
				ref := w.bring("a", from)
				before := redistest.Dump(t, w.db)
				err := w.pull(ref, action)
				w.check()
				to, allowed := task.Next(from, action)
				if allowed {
					if err != nil {
						t.Fatalf("the table allows it, but: %v", err)
					}
					if got := w.get(ref).State; got != to {
						t.Fatalf("state is %q, the table says %q", got, to)
					}
					return
				}
				again := from == task.Cancelled && action == task.ActCancel // which changes nothing, and is no error
				if err == nil && !again {
					t.Error("the table forbids it, but there was no error")
				}
				if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
					t.Errorf("refused, but Redis changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

func orNone(s task.State) string {
	if s == task.None {
		return "none"
	}
	return string(s)
}

// resend makes go-redis send every EVALSHA twice and answer the second reply: as after a reply that got lost.
type resend struct{}

func (resend) DialHook(next redis.DialHook) redis.DialHook { return next }
func (resend) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			if err := next(ctx, redis.NewCmd(ctx, cmd.Args()...)); redis.HasErrorPrefix(err, "NOSCRIPT") {
				return next(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}
func (resend) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		twins := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			twins[i] = redis.NewCmd(ctx, cmd.Args()...)
		}
		if cmds[0].Name() == "evalsha" {
			_ = next(ctx, twins)
		}
		return next(ctx, cmds)
	}
}

// Every script may be sent twice: the task ends up where one run brings it, nothing is listed twice, and no attempt
// is recorded twice.
func TestScripts_RepeatIsHarmless(t *testing.T) {
	plain := newWorld(t)
	for _, from := range append([]task.State{task.None}, task.States...) {
		for _, action := range task.Actions {
			to, allowed := task.Next(from, action)
			if !allowed {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", orNone(from), action), func(t *testing.T) {
				plain.db.FlushAll(t.Context())
				w := newWorldOn(t, plain.db)
				ref := w.bring("a", from)
				history := w.db.LLen(w.ctx, string(w.KeysOf(ref).Attempts(ref))).Val()

				twice := redistest.Open(t, "redis://"+addr(w.db)+"/0")
				twice.AddHook(resend{})
				w2 := newWorldOn(t, twice)
				err := w2.pull(ref, action)
				if err != nil && action != task.ActClaim && action != task.ActRetry && action != task.ActExpire {
					t.Errorf("the second run fails: %v", err)
				}
				w.check()
				if got := w.get(ref); got.State != to {
					t.Errorf("state is %q, want %q", got.State, to)
				} else if action == task.ActClaim && got.Attempt != 1 {
					t.Errorf("attempt is %d after one claim", got.Attempt)
				}
				grown := w.db.LLen(w.ctx, string(w.KeysOf(ref).Attempts(ref))).Val() - history
				if ends := slices.Contains([]task.Action{task.ActSucceed, task.ActFail, task.ActReattempt, task.ActStop}, action); ends && grown != 1 {
					t.Errorf("%d attempts were recorded, want 1", grown)
				}
			})
		}
	}
}

func addr(db *redisx.DB) string {
	return db.UniversalClient.(*redis.Client).Options().Addr
}

func TestCreate_AnswersOnceTheTaskIsInRedis(t *testing.T) {
	w := newWorld(t)
	jitter := 0.0
	def := task.Definition{
		Ref: task.Ref{Namespace: "shop", ID: "order-1"}, Type: "http", Queue: "critical",
		Payload: json.RawMessage(`{ "url": "http://x/" }`), Delay: time.Minute, Timeout: 3 * time.Second,
		Retry:     task.Retry{MaxAttempts: 3, Backoff: task.Backoff{Initial: time.Second, Factor: 3, Max: time.Hour, Jitter: &jitter}},
		Retention: time.Hour, Owner: "me", Labels: map[string]string{"b": "2", "a": "1"},
	}
	made := w.create(def)
	got := w.get(def.Ref)
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("the answer is not what is in Redis (-answer +redis):\n%s", diff)
	}
	want := def.Normalize()
	if diff := cmp.Diff(want, got.Definition); diff != "" {
		t.Errorf("the definition changed on its way (-want +got):\n%s", diff)
	}
	if string(got.Payload) != `{"url":"http://x/"}` || !got.DueAt.Equal(got.CreatedAt.Add(time.Minute)) {
		t.Errorf("payload %s, due %s after creation", got.Payload, got.DueAt.Sub(got.CreatedAt))
	}
}

func TestCreate_SameIDWithSameContentIsTheSameTask(t *testing.T) {
	w := newWorld(t)
	def := task.Definition{Ref: task.Ref{Namespace: "default", ID: "once"}, Type: "http", Delay: time.Hour}
	w.create(def)
	again := w.Tasks.Create(w.ctx, []task.Definition{def})[0]
	if again.Err != nil || !again.Existed {
		t.Errorf("existed %v, error %v", again.Existed, again.Err)
	}
	other := def
	other.Owner = "somebody else"
	if c := w.Tasks.Create(w.ctx, []task.Definition{other})[0]; task.CodeOf(c.Err) != task.CodeTaskConflict {
		t.Errorf("other content: %v, want a conflict", c.Err)
	}
	if err := w.requeue(w.get(def.Ref).Definition, "slow"); err != nil {
		t.Fatal(err)
	}
	if c := w.Tasks.Create(w.ctx, []task.Definition{def})[0]; c.Err != nil || c.Task.Queue != "slow" {
		t.Errorf("after a change, the first submission repeated: queue %q, error %v", c.Task.Queue, c.Err)
	}
}

func TestBegin_StartsAnAttemptOnce(t *testing.T) {
	w := newWorld(t)
	ref := w.bring("a", task.Queued)
	if _, err := w.Tasks.Begin(w.ctx, ref, 2, "node-a", "x"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("another attempt's number: %v", err)
	}
	if _, err := w.Tasks.Begin(w.ctx, ref, 1, "node-a", "node-a#1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tasks.Begin(w.ctx, ref, 1, "node-a", "node-a#1"); err != nil {
		t.Errorf("the same run again: %v", err)
	}
	if _, err := w.Tasks.Begin(w.ctx, ref, 1, "node-a", "node-a#2"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("another run on the same node: %v", err)
	}
	if _, err := w.Tasks.Begin(w.ctx, ref, 1, "node-b", "node-b#1"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("another node: %v", err)
	}
}

func TestLeader_StaleChangesNothing(t *testing.T) {
	w := newWorld(t)
	ref := w.bring("waits", task.Scheduled)
	running := w.bring("runs", task.Running)
	w.bring("done", task.Succeeded)
	w.bring("late", task.Scheduled)
	before := redistest.Dump(t, w.db)
	for p := range w.Partitions.Count() {
		stale := w.Partitions.At(p).Lead("0:old")
		calls := map[string]error{}
		_, calls["claim"] = stale.Claim(w.ctx, 10)
		calls["confirm"] = stale.Confirm(w.ctx, []string{ref.String() + ":1"})
		calls["reap"] = stale.Reap(w.ctx, w.get(running), time.Now(), "dead")
		_, calls["sweep"] = stale.Sweep(w.ctx, 0, 10)
		for name, err := range calls {
			if !errors.Is(err, partition.ErrFenced) {
				t.Errorf("%s with an old fence: %v", name, err)
			}
		}
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
		t.Errorf("a stale leader changed something:\n%s", diff)
	}
}

func TestReap_LosesTheAttemptAndMakesTheNextDueAtOnce(t *testing.T) {
	w := newWorld(t)
	ref := w.bring("a", task.Running)
	old := w.Tasks.RunOf(w.get(ref))
	if err := w.leader(ref).Reap(w.ctx, w.get(ref), time.Now(), "node died"); err != nil {
		t.Fatal(err)
	}
	w.check()
	if got := w.get(ref); got.State != task.Scheduled || got.Error != "node died" {
		t.Errorf("after the first: %s %q", got.State, got.Error)
	}
	if err := old.Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "late", ""); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("the stale worker's word: %v", err)
	}
	w.begin(ref)
	if err := w.leader(ref).Reap(w.ctx, w.get(ref), time.Now(), "node died"); err != nil {
		t.Fatal(err)
	}
	w.check()
	if got := w.get(ref); got.State != task.Failed {
		t.Errorf("after the last: %s", got.State)
	}
	attempts, err := w.Tasks.Attempts(w.ctx, ref)
	if err != nil || len(attempts) != 2 {
		t.Fatalf("%v, %v", attempts, err)
	}
	for i, a := range attempts {
		if a.Number != i+1 || a.Outcome != task.OutcomeLost || a.Node != "node-a" || a.StartedAt.IsZero() || a.FinishedAt.Before(a.StartedAt) {
			t.Errorf("attempt %+v", a)
		}
	}
}

func TestCancel_EndsARunningTaskCancelled(t *testing.T) {
	w := newWorld(t)
	for name, end := range map[string]func(*tasks.Run) error{
		"retry": func(r *tasks.Run) error { return r.Reattempt(w.ctx, 0, task.OutcomeFailed, "x") },
		"fail":  func(r *tasks.Run) error { return r.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "x") },
	} {
		ref := w.bring(name, task.Running)
		if _, err := w.Tasks.Cancel(w.ctx, ref); err != nil {
			t.Fatal(err)
		}
		run := w.Tasks.RunOf(w.get(ref))
		if asked, err := run.CancelRequested(w.ctx); !asked || err != nil {
			t.Errorf("asked to stop: %v, %v", asked, err)
		}
		if err := end(run); !errors.Is(err, tasks.ErrCancelled) {
			t.Errorf("%s after a cancel: %v", name, err)
		}
	}
	reaped := w.bring("reaped", task.Running)
	if _, err := w.Tasks.Cancel(w.ctx, reaped); err != nil {
		t.Fatal(err)
	}
	if err := w.leader(reaped).Reap(w.ctx, w.get(reaped), time.Now(), "node died"); err != nil {
		t.Fatal(err)
	}
	if got := w.get(reaped).State; got != task.Cancelled {
		t.Errorf("reaped after a cancel: %s", got)
	}
	w.check()
}

func TestClaim_DrainsABacklogInOrderWithoutStarvingWhatIsDueNow(t *testing.T) {
	w := newWorld(t)
	now := w.db.Time(w.ctx).Val()
	var defs []task.Definition
	for i := range 100 {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprintf("s@old%02d", i)}
		defs = append(defs, task.Definition{Ref: ref, Type: "http", RunAt: now.Add(-time.Hour + time.Duration(i)*time.Second)})
	}
	for i := range 5 {
		defs = append(defs, task.Definition{Ref: task.Ref{Namespace: "default", ID: fmt.Sprintf("s@now%d", i)}, Type: "http", RunAt: now})
	}
	for _, d := range defs { // they share a partition, as ticks do, which only schedules may create
		def, err := codec.EncodeDefinition(d.Normalize())
		if err != nil {
			t.Fatal(err)
		}
		k := w.KeysOf(d.Ref)
		call := lua.Create{
			Task: k.Task(d.Ref), Wheel: k.Wheel(), Member: d.Ref, Def: def, RunAt: d.RunAt, Events: w.Keys.Events(), Wake: w.Keys.Wake(),
		}
		if _, err := redisx.Run(w.ctx, w.db, call); err != nil {
			t.Fatal(err)
		}
		late := redis.Z{Score: float64(d.RunAt.UnixMilli()), Member: d.Ref.String()} // as after an outage
		if err := w.db.ZAdd(w.ctx, string(w.KeysOf(d.Ref).Wheel()), late).Err(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := w.Partitions.At(w.PartitionOf(defs[0].Ref)).Lead(fence).Claim(w.ctx, 20)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range c.Deliveries {
		got = append(got, strings.TrimPrefix(d.Ref.ID, "s@"))
	}
	var want []string
	for i := range 15 {
		want = append(want, fmt.Sprintf("old%02d", i))
	}
	want = append(want, "now0", "now1", "now2", "now3", "now4")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first batch (-want +got):\n%s", diff)
	}
}

func TestClaim_TakesNothingEarly(t *testing.T) {
	w := newWorld(t)
	ref := task.Ref{Namespace: "default", ID: "later"}
	w.create(task.Definition{Ref: ref, Delay: time.Hour})
	c, err := w.leader(ref).Claim(w.ctx, 10)
	if err != nil || len(c.Deliveries) != 0 {
		t.Fatalf("claimed %v, %v", c.Deliveries, err)
	}
	if wait := c.Next.Sub(c.Now); wait <= 59*time.Minute || wait > time.Hour {
		t.Errorf("the next one is due in %s", wait)
	}
}

func TestClaim_RepeatsWhatIsInFlightUntilItIsConfirmed(t *testing.T) {
	w := newWorld(t)
	ref := w.bring("a", task.Queued)
	repeat, settled, err := w.leader(ref).InFlight(w.ctx)
	if err != nil || len(repeat) != 1 || len(settled) != 0 || repeat[0].String() != "default:a:1" || repeat[0].Type != "http" {
		t.Fatalf("repeat %v, settled %v, %v", repeat, settled, err)
	}
	if err := w.leader(ref).Confirm(w.ctx, []string{"default:a:1"}); err != nil {
		t.Fatal(err)
	}
	if repeat, _, _ = w.leader(ref).InFlight(w.ctx); len(repeat) != 0 {
		t.Errorf("still in flight: %v", repeat)
	}
}

func TestSweep_DeletesFinishedTasksByAgeAndByNumber(t *testing.T) {
	w := newWorld(t)
	keep := func(id string, retention time.Duration) task.Ref {
		ref := task.Ref{Namespace: "default", ID: id}
		w.create(task.Definition{Ref: ref, Retention: retention})
		run := w.begin(ref)
		if err := run.Log(w.ctx, 1, []tasks.Line{{Stream: "stdout", Text: "x"}}); err != nil {
			t.Fatal(err)
		}
		if err := run.Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "", ""); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	empty := len(redistest.Dump(t, w.db))
	short, long := keep("short", time.Millisecond), keep("long", time.Hour)
	after := w.db.Time(w.ctx).Val()
	for w.db.Time(w.ctx).Val().Sub(after) < 2*time.Millisecond {
	}
	for p := range w.Partitions.Count() {
		if _, err := w.Partitions.At(p).Lead(fence).Sweep(w.ctx, 1000, 10); err != nil {
			t.Fatal(err)
		}
	}
	if w.get(short).State != task.None || w.get(long).State != task.Succeeded {
		t.Errorf("by age: short is %q, long is %q", w.get(short).State, w.get(long).State)
	}
	for p := range w.Partitions.Count() {
		if _, err := w.Partitions.At(p).Lead(fence).Sweep(w.ctx, 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(redistest.Dump(t, w.db)); got != empty {
		t.Errorf("%d keys are left, %d were there at first", got, empty)
	}
	w.check()
}

func TestLogs_KeepTheNewestLinesAndTheirNumbers(t *testing.T) {
	w := newWorld(t)
	ref := w.bring("a", task.Running)
	run := w.Tasks.RunOf(w.get(ref))
	var lines []tasks.Line
	for i := range task.LogLimit + 10 {
		lines = append(lines, tasks.Line{Stream: "stdout", Text: fmt.Sprint(i + 1)})
	}
	if err := run.Log(w.ctx, 1, lines); err != nil {
		t.Fatal(err)
	}
	got, err := w.Tasks.Logs(w.ctx, ref, "", 3)
	if err != nil || len(got) != 3 || got[0].Text != "11" || got[0].Cursor != "1-11" || got[0].Attempt != 1 || got[0].At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = w.Tasks.Logs(w.ctx, ref, got[2].Cursor, 5000); err != nil || len(got) != task.LogLimit-3 || got[0].Text != "14" {
		t.Errorf("%d lines, %v", len(got), err)
	}
}

func TestList_ShowsTheNewestFirstAndLosesNothingBetweenPages(t *testing.T) {
	w := newWorld(t)
	var defs []task.Definition
	due := time.Now().Add(time.Hour).UTC()
	for i := range 230 {
		d := task.Definition{Ref: task.Ref{ID: fmt.Sprintf("t%03d", i)}, Type: "http", RunAt: due} // many with one score
		if i%3 == 0 {
			d.Owner = "me"
		}
		defs = append(defs, d)
	}
	defs = append(defs, task.Definition{Ref: task.Ref{ID: "elsewhere", Namespace: "other"}, Type: "http", RunAt: due})
	for _, c := range w.Tasks.Create(w.ctx, defs) {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	for _, f := range []tasks.Filter{{Namespace: "default"}, {Namespace: "default", Owner: "me"}, {Namespace: "default", States: []task.State{task.Scheduled}}} {
		var got []string
		for cursor := ""; ; {
			page, err := w.Tasks.List(w.ctx, f, 7, cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range page.Tasks {
				got = append(got, task.ID)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		var want []string
		for i := 229; i >= 0; i-- {
			if f.Owner == "" || i%3 == 0 {
				want = append(want, fmt.Sprintf("t%03d", i))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", f, diff)
		}
	}
	if _, err := w.Tasks.List(w.ctx, tasks.Filter{Namespace: "default"}, 7, "nonsense!"); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a cursor that is none: %v", err)
	}
}

func TestRetry_AllowsAllAttemptsAgain(t *testing.T) {
	w := newWorld(t)
	ref := w.bring("a", task.Failed)
	got, err := w.Tasks.Retry(w.ctx, ref)
	if err != nil || got.State != task.Scheduled || got.Attempt != 1 || got.MaxAttempts != 3 || got.Error != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	w.begin(ref)
	if got := w.get(ref); got.Attempt != 2 {
		t.Errorf("attempt %d, want 2: numbers go on", got.Attempt)
	}
}

func TestEvents_TellWhatHappens(t *testing.T) {
	w := newWorld(t)
	events := w.listen()
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.create(task.Definition{Ref: ref, Owner: "me", Queue: "q"})
	run := w.begin(ref)
	if err := errors.Join(run.Progress(w.ctx, 40), run.Log(w.ctx, 1, []tasks.Line{{Stream: "stderr", Text: `quoted "text" <&> ü`}}),
		run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", `it "broke"`)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 6 {
		e := <-events
		if e.Ref != ref || e.Owner != "me" || e.Queue != "q" || e.TaskType != "http" || e.At.IsZero() {
			t.Errorf("event %+v", e)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %d %s%s", e.Type, e.State, e.Attempt, e.Text, e.Error)))
	}
	want := []string{
		"task.scheduled scheduled 0", "task.queued queued 1", "task.running running 1", "task.progress running 1",
		`task.log running 1 quoted "text" <&> ü`, `task.failed failed 1 it "broke"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// listen returns what is published from now on, until the test ends.
func (w *world) listen() <-chan *task.Event {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	connected, ended := make(chan struct{}, 10), make(chan error, 1)
	events := make(chan *task.Event, 100)
	go func() {
		ended <- w.Tasks.ListenEvents(ctx, tasks.EventListener{
			Connected:  func() { connected <- struct{}{} },
			Event:      func(e *task.Event) { events <- e },
			Unreadable: func(err error) { w.t.Errorf("unreadable: %v", err) },
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("ListenEvents: %v", err)
		}
	})
	<-connected
	return events
}

func TestOpen_KeepsThePartitionsOfTheFirstStart(t *testing.T) {
	w := newWorld(t)
	if s, err := Open(w.ctx, Options{DB: w.db}); err != nil || s.Partitions.Count() != 2 {
		t.Errorf("without a wish: %v", err)
	}
	if _, err := Open(w.ctx, Options{DB: w.db, Partitions: 3}); err == nil || !strings.Contains(err.Error(), "cannot be changed to 3") {
		t.Errorf("with another number: %v", err)
	}
}

// Somebody's hand, or a later version, may leave something in Redis that cannot be read. It is passed over, and keeps
// nothing else from its partition.
func TestLeader_SkipsWhatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	good, bad := task.Ref{Namespace: "default", ID: "good"}, task.Ref{Namespace: "default", ID: "bad"}
	for i := 0; w.PartitionOf(bad) != w.PartitionOf(good); i++ {
		bad.ID = fmt.Sprint("bad", i)
	}
	w.create(task.Definition{Ref: bad})
	w.create(task.Definition{Ref: good})
	p := w.PartitionOf(bad)
	if err := w.db.HSet(w.ctx, string(w.Keys.Partition(p).Task(bad)), "def", "not JSON\n{}").Err(); err != nil {
		t.Fatal(err)
	}
	if got := w.claim(good); len(got) != 1 || got[0].Ref != good {
		t.Errorf("claimed %v", got)
	}
	if err := w.db.ZAdd(w.ctx, string(w.Keys.Partition(p).InFlight()), redis.Z{Member: "nonsense"}).Err(); err != nil {
		t.Fatal(err)
	}
	repeat, settled, err := w.leader(good).InFlight(w.ctx)
	if err != nil || len(repeat) != 1 || repeat[0].Ref != good || len(settled) != 2 {
		t.Errorf("in flight: repeat %v, settled %v, %v", repeat, settled, err)
	}
	page, err := w.Tasks.List(w.ctx, tasks.Filter{Namespace: "default"}, 10, "")
	if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != good.ID {
		t.Errorf("listed %v, %v", page.Tasks, err)
	}
}

func TestCreate_TimeInThePastMeansNow(t *testing.T) {
	w := newWorld(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	made := w.create(task.Definition{Ref: ref, RunAt: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)})
	if !made.DueAt.Equal(made.CreatedAt) {
		t.Errorf("due %s, created %s", made.DueAt, made.CreatedAt)
	}
	if got := w.claim(ref); len(got) != 1 || !got[0].DueAt.Equal(made.CreatedAt) {
		t.Errorf("claimed %v", got)
	}
	if got := w.get(ref); !got.DueAt.Equal(made.CreatedAt) {
		t.Errorf("it was due %s, want %s", got.DueAt, made.CreatedAt)
	}
}

// Channels are not kept apart by database, so their names are.
func TestEvents_StayInTheirDatabase(t *testing.T) {
	srv := redistest.Start(t)
	w := newWorldOn(t, srv.DB(t))
	other := newWorldOn(t, redistest.Open(t, "redis://"+srv.Addr()+"/1"))
	events := w.listen()
	other.create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "theirs"}})
	w.create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "ours"}})
	if e := <-events; e.Ref.ID != "ours" {
		t.Errorf("heard of %s", e.Ref)
	}
}

func TestList_EndsAPageOfLargeTasksEarlyAndLosesNone(t *testing.T) {
	w := newWorld(t)
	payload := json.RawMessage(`"` + strings.Repeat("x", task.PayloadLimit-2) + `"`)
	var defs []task.Definition
	for i := range 60 {
		defs = append(defs, task.Definition{Ref: task.Ref{ID: fmt.Sprintf("t%02d", i)}, Type: "http", Payload: payload, Delay: time.Hour})
	}
	for _, c := range w.Tasks.Create(w.ctx, defs) {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	seen, pages := map[string]bool{}, 0
	for cursor := ""; ; pages++ {
		page, err := w.Tasks.List(w.ctx, tasks.Filter{Namespace: "default"}, 500, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range page.Tasks {
			seen[task.ID] = true
		}
		if len(page.Tasks) > 50 {
			t.Errorf("%d tasks of %d bytes in one page", len(page.Tasks), task.PayloadLimit)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 60 || pages == 0 {
		t.Errorf("%d tasks in %d further pages", len(seen), pages)
	}
}
