package partition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// flow is the world with a run of a workflow that has one step, load.
type flow struct {
	*storetest.World
	t    *testing.T
	run  task.Ref
	step task.Ref
}

func newFlow(t *testing.T) *flow {
	t.Helper()
	f := &flow{World: storetest.New(t), t: t, run: task.Ref{Namespace: task.DefaultNamespace, ID: "etl"}}
	f.step = f.run.Step("load")
	f.Create(task.Definition{Ref: f.run, Type: task.WorkflowType, Queue: task.WorkflowQueue})
	return f
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want - and got +:\n%s", diff)
	}
}

// read returns the run as a leader reads it.
func (f *flow) read() partition.Run {
	f.t.Helper()
	runs, err := f.Leader(f.run).ReadRuns(f.Ctx, partition.ReadRun{Ref: f.run})
	testkit.Must(f.t, err)
	return runs[0]
}

// saw returns the state of the step as a leader sees it.
func (f *flow) saw() []partition.Seen {
	f.t.Helper()
	steps, err := f.Leader(f.run).ReadSteps(f.Ctx, []task.Ref{f.step})
	testkit.Must(f.t, err)
	return []partition.Seen{steps[0].Seen}
}

// advance writes a plan, and reports whether it was written.
func (f *flow) advance(w partition.RunWrite) bool {
	f.t.Helper()
	written, err := f.Leader(f.run).Advance(f.Ctx, []partition.RunWrite{w})
	testkit.Must(f.t, err)
	return written[0]
}

// released is a plan that releases the step; again, if it has attempts.
func (f *flow) released(text string, attempts int) partition.RunWrite {
	d := task.Definition{Ref: f.step, Type: "echo", Retention: task.RetentionLimit}.Normalize()
	return partition.RunWrite{
		Run: f.read(), Text: text, Look: time.Now().Add(time.Minute),
		Release: []partition.Release{{Task: d, Again: attempts > 0, Attempts: max(1, attempts)}},
	}
}

// begin claims the run and begins it, with the step released.
func (f *flow) begin() {
	f.t.Helper()
	f.Claim(f.run)
	w := f.released("one", 0)
	w.Begin, w.Plan = true, "{}"
	if !f.advance(w) {
		f.t.Fatal("the run did not begin")
	}
}

// outbox is what the outbox has of the run and its step.
func (f *flow) outbox() []string {
	f.t.Helper()
	entries, err := f.DB.ZRange(f.Ctx, string(f.KeysOf(f.run).Outbox()), 0, -1).Result()
	testkit.Must(f.t, err)
	return entries
}

// A run begins without a lease, and its step is created. The end of that is told to the run, and stays until it is
// taken.
func TestAdvance_CarriesARunFromItsBeginToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.begin()
	if own := f.Get(f.run); own.State != task.Running || own.Run != task.FlowRun || own.Attempt != 1 {
		t.Errorf("the run is %s, attempt %d, run %q", own.State, own.Attempt, own.Run)
	}
	testkit.Must(t, f.Begin(f.step).Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, `7`, ""))
	same(t, []string{"end default:etl@.load 1 succeeded", "plan default:etl"}, f.outbox())
	_, err := f.Leader(f.run).Sweep(f.Ctx, partition.Keep{Tasks: 0}, 100) // as if there were too many tasks
	testkit.Must(t, err)
	if f.Get(f.step).State != task.Succeeded {
		t.Error("the step is gone, and its run needs it")
	}
	kept := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	w := partition.RunWrite{
		Run: f.read(), Text: "two", Saw: f.saw(), Took: []string{"end default:etl@.load 1 succeeded"},
		End: &partition.RunEnd{State: task.Succeeded, Result: `{"n":7}`, Kept: kept, Free: []task.Ref{f.step}},
	}
	if !f.advance(w) {
		t.Fatal("the end was not written")
	}
	if own := f.Get(f.run); own.State != task.Succeeded || own.Result != `{"n":7}` {
		t.Errorf("the run is %s with %s", own.State, own.Result)
	}
	same(t, []string{}, f.outbox())
	for _, ref := range []task.Ref{f.run, f.step} {
		score, err := f.DB.ZScore(f.Ctx, string(f.KeysOf(ref).Expiry()), ref.String()).Result()
		testkit.Must(t, err)
		if got := time.UnixMilli(int64(score)); got.Sub(kept).Abs() > time.Second {
			t.Errorf("%s is kept until %s, want %s", ref.ID, got, kept)
		}
	}
}

// Neither retention nor the bound of stored tasks takes the task of a step from a run that has not ended, also if the
// run has yet to begin again, so that it keeps no step by a mark.
func TestSweep_KeepsStepsOfALivingRun(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.begin()
	testkit.Must(t, f.Begin(f.step).Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	sweep := func(of ...task.Ref) {
		t.Helper()
		for _, ref := range of { // as if its retention were over
			member := redis.Z{Score: 1, Member: ref.String()}
			testkit.Must(t, f.DB.ZAddXX(f.Ctx, string(f.KeysOf(ref).Expiry()), member).Err())
		}
		_, err := f.Leader(f.run).Sweep(f.Ctx, partition.Keep{Tasks: 0}, 100)
		testkit.Must(t, err)
	}
	there := func(when string) {
		t.Helper()
		if f.Get(f.step).State != task.Succeeded {
			t.Errorf("the step is gone %s", when)
		}
		deleted, err := f.Tasks.Forget(f.Ctx, f.step, f.Get(f.step).FinishedAt, tasks.Forgetting{})
		if err != nil || deleted {
			t.Errorf("%s, somebody can delete it: %t, %v", when, deleted, err)
		}
	}
	sweep(f.step)
	there("while its run runs")
	f.goesIn(task.RetentionLimit, "while its run runs")
	w := partition.RunWrite{
		Run: f.read(), Text: "two", Saw: f.saw(), Took: []string{"end default:etl@.load 1 succeeded"},
		End: &partition.RunEnd{State: task.Failed, Kept: time.Now().Add(time.Hour), Free: []task.Ref{f.step}},
	}
	if !f.advance(w) {
		t.Fatal("the end was not written")
	}
	_, err := f.Tasks.RerunIn(f.Ctx, f.run, "rerun", time.Time{})
	testkit.Must(t, err)
	sweep(f.step)
	there("while its run is to begin again")
	f.goesIn(time.Hour, "while its run is to begin again")
	_, err = f.Tasks.Cancel(f.Ctx, f.run, "")
	testkit.Must(t, err)
	sweep(f.step, f.run)
	if f.Get(f.step).State != task.None {
		t.Error("the step is there, and its run has ended")
	}
}

// goesIn checks that the step is looked at again to be deleted in so long, or later, but in less than twice that.
func (f *flow) goesIn(after time.Duration, when string) {
	f.t.Helper()
	score, err := f.DB.ZScore(f.Ctx, string(f.KeysOf(f.step).Expiry()), f.step.String()).Result()
	testkit.Must(f.t, err)
	if in := time.Until(time.UnixMilli(int64(score))); in < after-time.Minute || in > 2*after {
		f.t.Errorf("%s, the step is looked at again in %s, want %s", when, in, after)
	}
}

// Whatever a plan was made from may change before it is written. Then nothing of it is.
func TestAdvance_WritesNothingOfAnOutdatedPlan(t *testing.T) {
	t.Parallel()
	changes := map[string]func(f *flow){
		"another plan was written": func(f *flow) {
			if !f.advance(partition.RunWrite{Run: f.read(), Text: "another", Look: time.Now()}) {
				f.t.Fatal("the other plan was not written")
			}
		},
		"somebody has asked for something": func(f *flow) {
			testkit.Must(f.t, f.Tasks.AskRun(f.Ctx, f.run, "pause"))
		},
		"somebody has cancelled the run": func(f *flow) {
			_, err := f.Tasks.Cancel(f.Ctx, f.run, "")
			testkit.Must(f.t, err)
		},
		"the step has begun": func(f *flow) { f.Begin(f.step) },
		"the step is gone": func(f *flow) {
			testkit.Must(f.t, f.DB.HDel(f.Ctx, string(f.KeysOf(f.step).States()), f.step.String()).Err())
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t)
			f.begin()
			f.Claim(f.step)
			w := partition.RunWrite{
				Run: f.read(), Text: "two", Saw: f.saw(), Took: []string{"plan default:etl"},
				End: &partition.RunEnd{State: task.Failed, Kept: time.Now(), Free: []task.Ref{f.step}},
			}
			change(f)
			before := f.read()
			if f.advance(w) {
				t.Error("it was written")
			}
			after := f.read()
			same(t, before, after)
			same(t, []string{"plan default:etl"}, f.outbox())
		})
	}
}

func TestAdvance_NeedsTheLease(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.Claim(f.run)
	w := f.released("one", 0)
	w.Begin = true
	stale := f.Partitions.At(f.PartitionOf(f.run)).Lead("0:nobody")
	if _, err := stale.Advance(f.Ctx, []partition.RunWrite{w}); err == nil {
		t.Error("a leader without the lease wrote a plan")
	}
	if text := f.read().Text; text != "" {
		t.Errorf("the run has the text %q", text)
	}
}

// A step is released although its task is there: Redis had lost that it was released, and a worker has restored the
// task.
func TestAdvance_LeavesATaskThatIsThere(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.begin()
	testkit.Must(t, f.Begin(f.step).Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, `7`, ""))
	testkit.Must(t, f.DB.Del(f.Ctx, string(f.KeysOf(f.run).Outbox())).Err())
	if !f.advance(f.released("again", 0)) {
		t.Fatal("the plan was not written")
	}
	if got := f.Get(f.step); got.State != task.Succeeded || got.Attempt != 1 {
		t.Errorf("the step is %s, attempt %d", got.State, got.Attempt)
	}
	same(t, []string{"end default:etl@.load 1 succeeded", "plan default:etl"}, f.outbox())
}

// Who deletes a run deletes what its steps were given and what they yielded. A step that has not ended stays.
func TestForget_TakesTheStepsOfARun(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.Claim(f.run)
	late := f.run.Step("late")
	w := f.released("one", 0)
	w.Begin, w.Plan = true, `{"definition":{"id":"etl","steps":[{"id":"load","task":{}},{"id":"late"},{"id":"never"}]}}`
	d := task.Definition{Ref: late, Type: "echo", Retention: task.RetentionLimit}.Normalize()
	w.Release = append(w.Release, partition.Release{Task: d, Attempts: 1})
	if !f.advance(w) {
		t.Fatal("the run did not begin")
	}
	testkit.Must(t, f.Begin(f.step).Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, `7`, ""))
	w = partition.RunWrite{
		Run: f.read(), Text: "two", Saw: f.saw(), Took: []string{"end default:etl@.load 1 succeeded"},
		End: &partition.RunEnd{State: task.Failed, Kept: time.Now().Add(time.Hour), Free: []task.Ref{f.step}},
	}
	if !f.advance(w) {
		t.Fatal("the end was not written")
	}
	deleted, err := f.Tasks.Forget(f.Ctx, f.run, f.Get(f.run).FinishedAt, tasks.Forgetting{})
	if err != nil || !deleted {
		t.Fatalf("the run is not deleted: %v", err)
	}
	if f.Get(f.step).State != task.None || f.Get(late).State == task.None {
		t.Errorf("the step is %q, and one that has not ended %q", f.Get(f.step).State, f.Get(late).State)
	}
	f.CheckSets()
}

// Runs that are cancelled together have more steps than Lua can pass to a call at once.
func TestAdvance_WritesManyStepsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	var refs []task.Ref
	for i := range 9 {
		ref := f.NameIn(f.PartitionOf(f.run), "default", fmt.Sprint("many", i))
		f.Create(task.Definition{Ref: ref, Type: task.WorkflowType, Queue: task.WorkflowQueue})
		refs = append(refs, ref)
	}
	f.Claim(f.run)
	write := func(change func(w *partition.RunWrite, step task.Ref)) {
		t.Helper()
		reads, err := f.Leader(f.run).ReadRuns(f.Ctx, wanted(refs)...)
		testkit.Must(t, err)
		var writes []partition.RunWrite
		for i, ref := range refs {
			w := partition.RunWrite{Run: reads[i], Text: reads[i].Text + "x", Look: time.Now().Add(time.Minute)}
			for n := range 1000 {
				change(&w, ref.Step(fmt.Sprint("s", n)))
			}
			writes = append(writes, w)
		}
		written, err := f.Leader(f.run).Advance(f.Ctx, writes)
		if err != nil || slices.Contains(written, false) || len(written) != len(refs) {
			t.Fatalf("written: %v, %v", written, err)
		}
	}
	write(func(w *partition.RunWrite, step task.Ref) {
		d := task.Definition{Ref: step, Type: "echo", Retention: task.RetentionLimit}.Normalize()
		w.Begin, w.Release = true, append(w.Release, partition.Release{Task: d, Attempts: 1})
	})
	write(func(w *partition.RunWrite, step task.Ref) { w.Stop = append(w.Stop, step) })
	if n := f.DB.ZCard(f.Ctx, string(f.KeysOf(f.run).Wheel())).Val(); n > 0 {
		t.Errorf("%d steps still wait", n)
	}
}

func wanted(refs []task.Ref) (reads []partition.ReadRun) {
	for _, ref := range refs {
		reads = append(reads, partition.ReadRun{Ref: ref})
	}
	return reads
}

// A rerun has the task of a step begin again. Its attempts count on, so that no delivery has the name of an earlier
// one.
func TestAdvance_HasAStepBeginAgain(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.begin()
	testkit.Must(t, f.Begin(f.step).Finish(f.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	if !f.advance(f.released("again", 3)) {
		t.Fatal("the plan was not written")
	}
	got := f.Get(f.step)
	if got.State != task.Scheduled || got.Attempt != 1 || got.MaxAttempts != 4 || got.Error != "" {
		t.Errorf("the step is %s, attempt %d of %d, with %q", got.State, got.Attempt, got.MaxAttempts, got.Error)
	}
	testkit.Must(t, f.Begin(f.step).Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	if got := f.Get(f.step); got.Attempt != 2 {
		t.Errorf("it succeeded with attempt %d", got.Attempt)
	}
}

// Only a run that runs can be asked for something. Of a run that has not begun, that is possible early only. One that
// is queued can be planned.
func TestAskRun_RefusesWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	const none, early, refused = "", true, false // refused: what is not early
	states := []struct {
		name  string
		enter func(f *flow)
		takes map[bool]bool // by early
		plans bool          // without an ask
	}{
		{"scheduled", func(*flow) {}, map[bool]bool{early: true, refused: false}, false},
		{"queued", func(f *flow) { f.Claim(f.run) }, map[bool]bool{early: true, refused: false}, true},
		{"running", func(f *flow) { f.begin() }, map[bool]bool{early: true, refused: true}, true},
		{"failed", func(f *flow) { f.begin(); f.end() }, map[bool]bool{early: false, refused: false}, false},
		{"to begin again", func(f *flow) {
			f.begin()
			f.end()
			_, err := f.Tasks.Retry(f.Ctx, f.run)
			testkit.Must(f.t, err)
		}, map[bool]bool{early: true, refused: false}, false},
	}
	for _, c := range states {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t)
			c.enter(f)
			ask := map[bool]func(string) error{
				true:  func(line string) error { return f.Tasks.AskEarly(f.Ctx, f.run, line) },
				false: func(line string) error { return f.Tasks.AskRun(f.Ctx, f.run, line) },
			}
			for isEarly, takes := range c.takes {
				testkit.Must(t, f.DB.Del(f.Ctx, string(f.KeysOf(f.run).Asks()), string(f.KeysOf(f.run).Outbox())).Err())
				want := map[bool]string{true: "signal {}\n", false: none}[takes]
				err := ask[isEarly]("signal {}")
				if takes != (err == nil) || err != nil && task.CodeOf(err) != task.CodeNotRunning {
					t.Errorf("early: %t: %v", isEarly, err)
				}
				same(t, want, f.read().Asks)
				if told := slices.Contains(f.outbox(), "plan default:etl"); told != takes {
					t.Errorf("early: %t: the leader is told: %t", isEarly, told)
				}
			}
			if err := f.Tasks.AskRun(f.Ctx, f.run, none); c.plans != (err == nil) {
				t.Errorf("to be planned only: %v", err)
			}
		})
	}
	f := newFlow(t)
	unknown := task.Ref{Namespace: task.DefaultNamespace, ID: "unknown"}
	if err := f.Tasks.AskEarly(f.Ctx, unknown, "pause"); task.CodeOf(err) != task.CodeTaskNotFound {
		t.Errorf("an unknown run: %v", err)
	}
}

// end ends the run.
func (f *flow) end() {
	f.t.Helper()
	w := partition.RunWrite{
		Run: f.read(), Text: "ended", End: &partition.RunEnd{State: task.Failed, Kept: time.Now().Add(time.Hour)},
	}
	if !f.advance(w) {
		f.t.Fatal("the end was not written")
	}
}

// The newest pause or resume counts, and of signals and answers the first one: it keeps its place if it comes again.
func TestAskRun_NotesEachLineOnce(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.begin()
	for asks, want := range map[string]string{
		"pause, pause":                    "pause\n",
		"pause, resume, pause":            "resume\npause\n",
		"pause, resume, rerun, pause":     "resume\nrerun\npause\n",
		"signal a, signal b, signal a":    "signal a\nsignal b\n",
		"answer a, answer b, answer a":    "answer a\nanswer b\n",
		"signal ab, signal a, signal ab":  "signal ab\nsignal a\n",
		"pause, signal a, pause":          "signal a\npause\n",
		"signal %a, signal b, signal %a":  "signal %a\nsignal b\n",
		"signal a, pause, resume, answer": "signal a\npause\nresume\nanswer\n",
	} {
		for ask := range strings.SplitSeq(asks, ", ") {
			testkit.Must(t, f.Tasks.AskRun(f.Ctx, f.run, ask))
		}
		same(t, want, f.read().Asks)
		testkit.Must(t, f.DB.Del(f.Ctx, string(f.KeysOf(f.run).Asks())).Err())
	}
}

// What a leader does not do is bounded, and nothing of what is too much is noted.
func TestAskRun_RefusesTooMuch(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	f := newFlow(t)
	asks := string(f.KeysOf(f.run).Asks())
	for _, c := range []struct {
		before, ask int // bytes
		takes       bool
	}{{0, limit, true}, {0, limit + 1, false}, {limit - 10, 10, true}, {limit - 10, 11, false}, {limit, 1, false}} {
		before := strings.Repeat("y", c.before)
		testkit.Must(t, f.DB.HSet(f.Ctx, asks, f.run.String(), before).Err())
		testkit.Must(t, f.DB.Del(f.Ctx, string(f.KeysOf(f.run).Outbox())).Err())
		err := f.Tasks.AskEarly(f.Ctx, f.run, strings.Repeat("x", c.ask))
		if c.takes {
			testkit.Must(t, err)
			continue
		}
		if task.CodeOf(err) != task.CodeUnavailable || !strings.Contains(err.Error(), "much was asked of run") {
			t.Errorf("%d bytes behind %d: %v", c.ask, c.before, err)
		}
		if got := f.read().Asks; got != before || len(f.outbox()) > 0 {
			t.Errorf("%d bytes are asked of it, not %d, and the outbox has %q", len(got), c.before, f.outbox())
		}
	}
}

// A rerun that was cancelled before it began leaves nothing for the next one to do.
func TestRerun_ForgetsWhatAnEarlierOneWasAskedFor(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.begin()
	w := partition.RunWrite{
		Run: f.read(), Text: "two", End: &partition.RunEnd{State: task.Failed, Kept: time.Now().Add(time.Hour)},
	}
	if !f.advance(w) {
		t.Fatal("the end was not written")
	}
	_, err := f.Tasks.RerunIn(f.Ctx, f.run, "rerun load", time.Time{})
	testkit.Must(t, err)
	_, err = f.Tasks.Cancel(f.Ctx, f.run, "")
	testkit.Must(t, err)
	_, err = f.Tasks.RerunIn(f.Ctx, f.run, "rerun", time.Time{})
	testkit.Must(t, err)
	same(t, "rerun\n", f.read().Asks)
}

// A signal that was given to a run that was cancelled before it began is there when it begins after all.
func TestRerun_KeepsSignals(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	for _, ask := range []string{"pause", "signal b", "answer c", "signal a"} {
		testkit.Must(t, f.Tasks.AskEarly(f.Ctx, f.run, ask))
	}
	for _, ask := range []string{"rerun", "rerun load"} {
		_, err := f.Tasks.Cancel(f.Ctx, f.run, "")
		testkit.Must(t, err)
		_, err = f.Tasks.RerunIn(f.Ctx, f.run, ask, time.Time{})
		testkit.Must(t, err)
		same(t, "signal b\nsignal a\n"+ask+"\n", f.read().Asks)
	}
}
