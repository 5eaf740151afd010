package tasks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// keyed is the world with one key.
type keyed struct {
	*storetest.World
	t   *testing.T
	ref task.Ref // of the key, as that of a task
}

func newKeyed(t *testing.T) *keyed {
	return &keyed{World: storetest.New(t), t: t, ref: task.Ref{Namespace: task.DefaultNamespace, ID: "tenant"}}
}

// named is the name of a task of the key.
func (k *keyed) named(name string) task.Ref {
	return task.Ref{Namespace: k.ref.Namespace, ID: name}.Keyed(k.ref.ID)
}

// submit submits a task of that name, whose payload is the name.
func (k *keyed) submit(name string, o task.Once) tasks.Created {
	k.t.Helper()
	return k.submitted(task.Definition{Payload: json.RawMessage(`"` + name + `"`)}, name, o)
}

func (k *keyed) submitted(d task.Definition, name string, o task.Once) tasks.Created {
	k.t.Helper()
	o.Key = k.ref.ID
	d.Ref, d.Type, d.Once = k.named(name), "noop", &o
	d = d.Normalize()
	testkit.Must(k.t, d.Validate(time.Now()))
	got := k.Tasks.Create(k.Ctx, []task.Definition{d})[0]
	testkit.Must(k.t, got.Err)
	return got
}

// expect compares what became of a submission, and the task that is its answer, with its payload.
func (k *keyed) expect(got tasks.Created, outcome task.OnceOutcome, name, payload string) {
	k.t.Helper()
	if got.Once.Outcome != outcome || got.Task.Ref != k.named(name) || string(got.Task.Payload) != `"`+payload+`"` {
		const format = "it is %s: %s with %s, want %s: %s with %q"
		k.t.Errorf(format, got.Once.Outcome, got.Task.ID, got.Task.Payload, outcome, k.named(name).ID, payload)
	}
	if existed := outcome != task.OnceCreated && outcome != task.OnceDelayed; got.Existed != existed {
		k.t.Errorf("%s of %s: existed is %t", got.Once.Outcome, got.Task.ID, got.Existed)
	}
}

// end ends the task of that name, which is running.
func (k *keyed) end(name string) {
	k.t.Helper()
	testkit.Must(k.t, k.Tasks.RunOf(k.Get(k.named(name))).Finish(k.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
}

// makeDue makes a task due that waits.
func (k *keyed) makeDue(name string) {
	k.t.Helper()
	due := redis.Z{Score: 1, Member: k.named(name).String()}
	testkit.Must(k.t, k.DB.ZAdd(k.Ctx, string(k.KeysOf(k.ref).Wheel()), due).Err())
}

func (k *keyed) follow() {
	k.t.Helper()
	_, err := k.Leader(k.ref).Follow(k.Ctx, 10)
	testkit.Must(k.t, err)
}

// dueIn is how long after now a task is due.
func (k *keyed) dueIn(name string) time.Duration {
	k.t.Helper()
	now, err := k.DB.Time(k.Ctx).Result()
	testkit.Must(k.t, err)
	return k.Get(k.named(name)).DueAt.Sub(now)
}

// near reports whether a duration is want, or less by up to a minute.
func near(d, want time.Duration) bool { return d <= want && d > want-time.Minute }

// record is what Redis knows of the key; "" for nothing.
func (k *keyed) record() string {
	record, err := k.DB.HGet(k.Ctx, string(k.KeysOf(k.ref).Once()), k.ref.String()).Result()
	if !errors.Is(err, redis.Nil) {
		testkit.Must(k.t, err)
	}
	return record
}

func (k *keyed) delete(name string) {
	k.t.Helper()
	ref := k.named(name)
	deleted, err := k.Tasks.Forget(k.Ctx, ref, k.Get(ref).FinishedAt, tasks.Forgetting{Remember: time.Hour, Names: 1000})
	testkit.Must(k.t, err)
	if !deleted {
		k.t.Fatalf("%s stays", ref)
	}
}

func TestSubmitOnce_SingletonAnswersWithTheOneThatHasNotEnded(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	once := task.Once{Mode: task.OnceSingleton}
	k.expect(k.submit("a", once), task.OnceCreated, "a", "a")
	k.expect(k.submit("b", once), task.OnceExisting, "a", "a")
	run := k.Begin(k.named("a"))
	k.expect(k.submit("b", once), task.OnceExisting, "a", "a")
	testkit.Must(t, run.Finish(k.Ctx, task.Scheduled, task.OutcomeFailed, "", "again"))
	k.expect(k.submit("b", once), task.OnceExisting, "a", "a") // between attempts
	_, err := k.Tasks.Cancel(k.Ctx, k.named("a"), "")
	testkit.Must(t, err)
	k.expect(k.submit("b", once), task.OnceCreated, "b", "b")
	k.expect(k.submit("b", once), task.OnceExisting, "b", "b") // the same once more
	k.expect(k.submit("a", once), task.OnceExisting, "a", "a") // and so is this, though the task has ended
	k.CheckSets()
}

func TestSubmitOnce_DebouncePushesTheDueTimeBack(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	once := task.Once{Mode: task.OnceDebounce, Wait: 10 * time.Hour, Max: 20 * time.Hour}
	k.expect(k.submit("a", once), task.OnceCreated, "a", "a")
	if d := k.dueIn("a"); !near(d, once.Wait) {
		t.Errorf("at first it is due in %s", d)
	}
	wheel := string(k.KeysOf(k.ref).Wheel())
	testkit.Must(t, k.DB.ZIncrBy(k.Ctx, wheel, -float64((5*time.Hour).Milliseconds()), k.named("a").String()).Err())
	k.expect(k.submit("b", once), task.OnceReplaced, "a", "b")
	if d := k.dueIn("a"); !near(d, once.Wait) {
		t.Errorf("after the second one it is due in %s", d)
	}
	k.expect(k.submit("b", once), task.OnceReplaced, "a", "b") // a repetition
	once.Wait = 20 * time.Hour                                 // as if the first one was long ago
	once.Max = 20 * time.Hour
	fields := strings.Fields(k.record())
	fields[2] = fmt.Sprint(time.Now().Add(-15 * time.Hour).UnixMilli())
	testkit.Must(t, k.DB.HSet(k.Ctx, string(k.KeysOf(k.ref).Once()), k.ref.String(), strings.Join(fields, " ")).Err())
	k.expect(k.submit("c", once), task.OnceReplaced, "a", "c")
	if d := k.dueIn("a"); !near(d, 5*time.Hour) {
		t.Errorf("at max it is due in %s", d)
	}
	k.makeDue("a")
	k.Begin(k.named("a"))
	k.expect(k.submit("c", once), task.OnceReplaced, "a", "c") // a repetition, as the answer was lost
	k.expect(k.submit("d", once), task.OnceCreated, "d", "d")
	k.CheckSets()
}

func TestSubmitOnce_ThrottleLetsOneStartInATime(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	drop := task.Once{Mode: task.OnceThrottle, Every: 10 * time.Hour, Excess: task.ExcessDrop}
	delay := drop
	delay.Excess = task.ExcessDelay
	k.expect(k.submit("a", drop), task.OnceCreated, "a", "a")
	got := k.submit("b", drop)
	k.expect(got, task.OnceSkipped, "a", "a")
	if d := time.Until(got.Once.Next); !near(d, 10*time.Hour) {
		t.Errorf("the next one may start in %s", d)
	}
	for i, name := range []string{"c", "d"} {
		k.expect(k.submit(name, delay), task.OnceDelayed, name, name)
		k.expect(k.submit(name, delay), task.OnceExisting, name, name) // a repetition takes no further time
		if d := k.dueIn(name); !near(d, time.Duration(i+1)*10*time.Hour) {
			t.Errorf("%s is due in %s", name, d)
		}
	}
	k.end(k.Begin(k.named("a")).Task.ID[len("tenant@k"):])
	k.follow()
	k.expect(k.submit("e", drop), task.OnceSkipped, "d", "d")
	k.CheckSets()
}

func TestSubmitOnce_LatestWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	once := task.Once{Mode: task.OnceLatest}
	k.expect(k.submit("a", once), task.OnceCreated, "a", "a")
	k.expect(k.submit("b", once), task.OnceReplaced, "a", "b") // it has not begun
	run := k.Begin(k.named("a"))
	got := k.submit("c", once)
	k.expect(got, task.OnceDelayed, "c", "c")
	if got.Once.After != k.named("a").ID {
		t.Errorf("it waits for %q", got.Once.After)
	}
	k.expect(k.submit("d", once), task.OnceReplaced, "c", "d")
	testkit.Must(t, run.Finish(k.Ctx, task.Scheduled, task.OutcomeFailed, "", "again"))
	k.follow()
	if d := k.dueIn("c"); d < time.Hour {
		t.Errorf("between the attempts of the other one, it is due in %s", d)
	}
	k.makeDue("a")
	k.Begin(k.named("a"))
	k.end("a")
	k.follow()
	if d := k.dueIn("c"); d > 0 {
		t.Errorf("after the end, it is due in %s", d)
	}
	k.Begin(k.named("c"))
	k.expect(k.submit("e", once), task.OnceDelayed, "e", "e")
	k.CheckSets()
}

// An event says when a task is due, but not while it waits for another one: nobody knows then.
func TestSubmitOnce_EventsOfATaskThatWaitsForAnotherSayNoTime(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	events := listen(t, k.World)
	once := task.Once{Mode: task.OnceLatest}
	k.submit("a", once)
	k.Begin(k.named("a"))
	k.submit("b", once)
	k.submit("c", once)
	k.end("a")
	k.follow()
	got := make(map[string][]bool)
	for range 7 {
		if e := testkit.Receive(t, events, "an event"); e.State == task.Scheduled {
			got[e.Ref.ID] = append(got[e.Ref.ID], !e.DueAt.IsZero())
		}
	}
	want := map[string][]bool{k.named("a").ID: {true}, k.named("b").ID: {false, false, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("whether an event says the time (-want +got):\n%s", diff)
	}
}

// A task that waits for another one must begin some time after that has ended.
func TestSubmitOnce_CountsStartByFromTheEndOfTheOther(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	once := task.Once{Mode: task.OnceLatest}
	k.submit("a", once)
	k.Begin(k.named("a"))
	bounded := task.Definition{Payload: json.RawMessage(`"b"`), StartBy: time.Hour}
	k.expect(k.submitted(bounded, "b", once), task.OnceDelayed, "b", "b")
	late := func() time.Duration {
		at, err := k.DB.ZScore(k.Ctx, string(k.KeysOf(k.ref).Outbox()), "late "+k.named("b").String()).Result()
		testkit.Must(t, err)
		return time.Until(time.UnixMilli(int64(at)))
	}
	if d := late(); d < 24*time.Hour {
		t.Errorf("while it waits, it is late in %s", d)
	}
	k.end("a")
	k.follow()
	if d := late(); !near(d, time.Hour) {
		t.Errorf("after the end, it is late in %s", d)
	}
}

func TestSubmitOnce_CancelRunningAsksTheOtherToStop(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	once := task.Once{Mode: task.OnceCancelRunning}
	k.expect(k.submit("a", task.Once{Mode: task.OnceSingleton}), task.OnceCreated, "a", "a") // modes share the key
	k.Claim(k.ref)
	k.expect(k.submit("b", once), task.OnceCreated, "b", "b")
	if got := k.Get(k.named("a")); got.State != task.Cancelled {
		t.Errorf("what waited in its queue is %s", got.State)
	}
	run := k.Begin(k.named("b"))
	k.expect(k.submit("c", once), task.OnceDelayed, "c", "c")
	got := k.Get(k.named("b"))
	if got.CancelRequested.IsZero() || got.Error != "asked to stop by a newer submission" {
		t.Errorf("the one that runs is asked to stop at %s: %q", got.CancelRequested, got.Error)
	}
	testkit.Must(t, run.Finish(k.Ctx, task.Cancelled, task.OutcomeCancelled, "", ""))
	k.follow()
	if d := k.dueIn("c"); d > 0 {
		t.Errorf("after the end, it is due in %s", d)
	}
	k.CheckSets()
}

// What is known of a key goes with its tasks.
func TestSubmitOnce_ForgetsTheKeyWithItsTasks(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	once := task.Once{Mode: task.OnceLatest}
	k.submit("a", once)
	k.Begin(k.named("a"))
	k.submit("b", once)
	_, err := k.Tasks.Cancel(k.Ctx, k.named("b"), "")
	testkit.Must(t, err)
	k.end("a")
	k.follow()
	k.delete("a")
	if k.record() == "" {
		t.Error("it goes before the last task")
	}
	k.delete("b")
	if record := k.record(); record != "" {
		t.Errorf("%q stays", record)
	}
	got := k.submit("b", once) // a repetition of what is not kept any more
	if !got.Existed || !got.Deleted || got.Once.Outcome != task.OnceExisting {
		t.Errorf("the repetition is %+v", got)
	}
}

// A preview says what would become of a submission, and leaves no trace.
func TestSubmitOnce_PreviewsChangeNothing(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.submit("a", task.Once{Mode: task.OnceLatest})
	k.Begin(k.named("a"))
	before := k.record()
	d := task.Definition{Ref: k.named("b"), Type: "noop", Once: &task.Once{Mode: task.OnceCancelRunning, Key: "tenant"}}
	got := k.Tasks.Preview(k.Ctx, []task.Definition{d})[0]
	if got.Err != nil || got.Once.Outcome != task.OnceDelayed || k.record() != before {
		t.Errorf("the preview is %+v; the record is %q, and was %q", got, k.record(), before)
	}
	if a := k.Get(k.named("a")); !a.CancelRequested.IsZero() {
		t.Error("it asks the other to stop")
	}
}

// A task that runs is restored with its key, if Redis has lost both: no other one begins beside it.
func TestExtendEach_RestoresTheKeyOfATask(t *testing.T) {
	t.Parallel()
	k := &keyed{World: suspicious(t), t: t, ref: task.Ref{Namespace: task.DefaultNamespace, ID: "tenant"}}
	once := task.Once{Mode: task.OnceLatest}
	k.submit("a", once)
	run := k.Begin(k.named("a"))
	lose(t, k.World, run.Task.Ref)
	testkit.Must(t, k.DB.Del(k.Ctx, string(k.KeysOf(k.ref).Once())).Err())
	testkit.Must(t, k.Tasks.ExtendEach(k.Ctx, []*tasks.Run{run})[0].Err)
	k.expect(k.submit("b", once), task.OnceDelayed, "b", "b")
	k.end("a")
	k.follow()
	if d := k.dueIn("b"); d > 0 {
		t.Errorf("after the end, it is due in %s", d)
	}
	k.CheckSets()
}

// keyModel says in the simplest way what the tasks of a key do with the modes that do not ask for the time.
type keyModel struct {
	waiting, running, behind string // "" for none
}

func (m *keyModel) submit(name string, mode task.OnceMode) (outcome task.OnceOutcome, about string) {
	for _, waits := range []string{m.behind, m.waiting} {
		switch {
		case waits == "":
		case mode == task.OnceSingleton && m.running != "":
			return task.OnceExisting, m.running
		case mode == task.OnceSingleton:
			return task.OnceExisting, waits
		default:
			return task.OnceReplaced, waits
		}
	}
	switch {
	case m.running == "":
		m.waiting = name
		return task.OnceCreated, name
	case mode == task.OnceSingleton:
		return task.OnceExisting, m.running
	}
	m.behind = name
	return task.OnceDelayed, name
}

func (m *keyModel) begin() string {
	m.running, m.waiting = m.waiting, ""
	return m.running
}

func (m *keyModel) end() {
	m.running, m.waiting, m.behind = "", m.behind, ""
}

// Whatever comes in whatever order, one runs and one waits, as the model says.
func TestSubmitOnce_AgreesWithTheModel(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	var m keyModel
	var story []string
	random := rand.New(rand.NewPCG(1, 2))
	for i := range testkit.Amount(300, 3000) {
		switch what := random.IntN(5); {
		case what < 3:
			name := fmt.Sprintf("n%d", i)
			mode := []task.OnceMode{task.OnceSingleton, task.OnceLatest, task.OnceCancelRunning}[what]
			outcome, about := m.submit(name, mode)
			story = append(story, string(mode)+" "+name)
			payload := about
			if outcome == task.OnceReplaced {
				payload = name
			}
			got := k.submit(name, task.Once{Mode: mode})
			if outcome == task.OnceExisting { // whatever payload it has by now
				payload = strings.Trim(string(got.Task.Payload), `"`)
			}
			k.expect(got, outcome, about, payload)
		case what == 3 && m.running == "" && m.waiting != "":
			story = append(story, "begin "+m.waiting)
			k.Begin(k.named(m.begin()))
		case what == 4 && m.running != "":
			story = append(story, "end "+m.running)
			k.end(m.running)
			k.follow()
			m.end()
		}
		if t.Failed() {
			t.Fatalf("after %s", strings.Join(story[max(0, len(story)-12):], ", "))
		}
	}
	running, err := k.DB.ZRange(k.Ctx, string(k.KeysOf(k.ref).Running()), 0, -1).Result()
	testkit.Must(t, err)
	if want := k.named(m.running).String(); m.running != "" && !slices.Equal(running, []string{want}) {
		t.Errorf("%v run, want %s", running, want)
	}
	k.CheckSets()
}

// A submission whose name has a task with a damaged definition is refused, with a key and without one.
func TestCreate_RefusesTheNameOfADamagedTask(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	for _, d := range []task.Definition{
		{Ref: task.Ref{Namespace: k.ref.Namespace, ID: "plain"}, Type: "noop"},
		{Ref: k.named("a"), Type: "noop", Once: &task.Once{Mode: task.OnceSingleton, Key: k.ref.ID}},
	} {
		testkit.Must(t, k.Tasks.Create(k.Ctx, []task.Definition{d})[0].Err)
		damaged := k.DB.HSet(k.Ctx, string(k.KeysOf(d.Ref).Defs()), d.Ref.String(), "1767366245120")
		testkit.Must(t, damaged.Err())
		d.Queue = "other"
		got := k.Tasks.Create(k.Ctx, []task.Definition{d})[0]
		if code := task.CodeOf(got.Err); code != task.CodeTaskConflict {
			t.Errorf("%s: %s, %v", d.ID, code, got.Err)
		}
	}
}
