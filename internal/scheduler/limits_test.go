package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// limited sets a limit.
func (w *world) limited(name string, r limit.Rule) {
	w.t.Helper()
	n, err := limit.ParseName(name)
	testkit.Must(w.t, err)
	_, err = w.store.Rules.Set(w.t.Context(), rules.Entry{Name: n, Rule: r})
	testkit.Must(w.t, err)
}

// office is a worker that takes what is handed over, and counts what of it has not ended, by limit key.
type office struct {
	*world
	live map[task.Ref]bool
	runs []*tasks.Run
	most map[string]int
	cost map[string]int // of tasks, by limit key: they count as so many under "", and 0 as 1
}

func (w *world) office() *office {
	return &office{world: w, live: make(map[task.Ref]bool), most: make(map[string]int)}
}

// keyOf is the part of an id before its number.
func keyOf(ref task.Ref) string { return strings.TrimRight(ref.ID, "0123456789") }

// work takes some deliveries and begins them.
func (o *office) work() {
	o.t.Helper()
	for _, id := range o.takeOf(8) {
		id, _ = strings.CutPrefix(id, task.DefaultNamespace+":")
		id, _, _ = strings.Cut(id, ":")
		ref := task.Ref{Namespace: task.DefaultNamespace, ID: id}
		o.runs, o.live[ref] = append(o.runs, o.begin(ref, "office")), true
	}
	counts := make(map[string]int)
	for ref := range o.live {
		counts[keyOf(ref)]++
		counts[""] += max(o.cost[keyOf(ref)], 1)
	}
	for key, n := range counts {
		o.most[key] = max(o.most[key], n)
	}
}

// finish ends the first n of what runs.
func (o *office) finish(n int) {
	o.t.Helper()
	n = min(n, len(o.runs))
	ends := make([]tasks.End, n)
	for i, run := range o.runs[:n] {
		ends[i] = tasks.End{Run: run, State: task.Succeeded, Outcome: task.OutcomeSucceeded}
		delete(o.live, run.Task.Ref)
	}
	for _, err := range o.store.Tasks.FinishEach(o.t.Context(), ends) {
		testkit.Must(o.t, err)
	}
	o.runs = o.runs[n:]
}

// drain works until so many tasks have ended.
func (o *office) drain(n int) {
	o.t.Helper()
	ended := 0
	testkit.Eventually(o.t, fmt.Sprint(n, " tasks have ended"), func() bool {
		o.work()
		some := min(3, len(o.runs), n-ended)
		o.finish(some)
		ended += some
		return ended >= n
	})
}

// Two nodes lead the partitions in which tasks of a limit wait. Never more than it says are live, and all come to an
// end.
func TestDispatch_KeepsLimits(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("key:*", limit.Rule{Slots: 3})
	w.limited("all", limit.Rule{Slots: 5})
	w.overdueAs(60, "a", task.Definition{LimitKey: "a"})
	w.overdueAs(40, "b", task.Definition{LimitKey: "b"})
	w.overdueAs(20, "c", task.Definition{})
	x, y := w.start("x", never), w.start("y", never)
	w.leads(map[*node]int{x: 8, y: 8})
	o := w.office()
	testkit.Eventually(t, "all slots are used", func() bool { o.work(); return len(o.runs) == 5 })
	o.drain(120)
	if o.most["a"] > 3 || o.most["b"] > 3 || o.most[""] != 5 {
		t.Errorf("%v were live at once, want at most 3 of a and b each, and 5 of all", o.most)
	}
}

// A leader that has not noticed that the last node of an earlier release has gone follows limits that others set then.
func TestDispatch_KeepsLimitsBeforeItKnowsTheLayout(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, time.Hour)
	if w.store.HasLimits() {
		t.Fatal("the leader knows that the layout has moved")
	}
	w.limited("all", limit.Rule{Slots: 2})
	w.overdueAs(20, "a", task.Definition{})
	x := w.start("x", never)
	w.leads(map[*node]int{x: 16})
	o := w.office()
	o.drain(20)
	if o.most[""] != 2 {
		t.Errorf("%d were live at once, want 2", o.most[""])
	}
}

// Tasks that need one slot, three or all share a limit, in partitions of two nodes. None of them waits for ever, and
// the slots are never exceeded.
func TestDispatch_KeepsCosts(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("all", limit.Rule{Slots: 5})
	w.overdueAs(60, "one", task.Definition{})
	w.overdueAs(20, "three", task.Definition{Cost: 3})
	w.overdueAs(6, "five", task.Definition{Cost: 5})
	w.overdueAs(1, "dear", task.Definition{Cost: 6})
	x, y := w.start("x", never), w.start("y", never)
	w.leads(map[*node]int{x: 8, y: 8})
	o := w.office()
	o.cost = map[string]int{"one": 1, "three": 3, "five": 5}
	o.drain(86)
	if o.most[""] != 5 || o.most["five"] != 1 || o.most["three"] != 1 {
		t.Errorf("%v were live at once, want 5 slots in use, and one task of three and of five each", o.most)
	}
	if o.most["dear"] > 0 {
		t.Error("a task that costs more than the limit has was handed over")
	}
}

// What has no limit, or one that is free, overtakes what waits for a slot.
func TestDispatch_ALimitHoldsUpNoOther(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("key:slow", limit.Rule{Slots: 1})
	w.overdueAs(300, "slow", task.Definition{LimitKey: "slow"})
	x := w.start("x", never)
	w.leads(map[*node]int{x: 16})
	o := w.office()
	testkit.Eventually(t, "one runs", func() bool { o.work(); return len(o.runs) == 1 })
	w.overdueAs(100, "free", task.Definition{})
	testkit.Eventually(t, "the others run", func() bool { o.work(); return o.most["free"] == 100 })
	if o.most["slow"] != 1 {
		t.Errorf("%d were live at once, want 1", o.most["slow"])
	}
}

func TestDispatch_KeepsARate(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("queue:default", limit.Rule{Rate: 20, Per: time.Second, Burst: 5})
	w.overdueAs(30, "a", task.Definition{})
	x := w.start("x", never)
	begin := time.Now()
	w.leads(map[*node]int{x: 16})
	o := w.office()
	testkit.Eventually(t, "all run", func() bool { o.work(); return len(o.runs) == 30 })
	if took := time.Since(begin); took < 1200*time.Millisecond {
		t.Errorf("30 tasks began in %s, want 1.25 s or more", took)
	}
}

// A limit of which nothing is left is known to nobody.
func TestDispatch_APausedLimitWaits(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("key:a", limit.Rule{Paused: time.Now().Add(time.Hour)})
	w.overdueAs(5, "a", task.Definition{LimitKey: "a"})
	w.overdueAs(5, "b", task.Definition{})
	x := w.start("x", never)
	w.leads(map[*node]int{x: 16})
	o := w.office()
	testkit.Eventually(t, "the others run", func() bool { o.work(); return o.most["b"] == 5 })
	if o.most["a"] > 0 {
		t.Errorf("%d run of a limit that is paused", o.most["a"])
	}
	w.limited("key:a", limit.Rule{Slots: 100})
	testkit.Eventually(t, "all run", func() bool { o.work(); return o.most["a"] == 5 })
}

// newUnlapsed is a world in which runs that nobody extends go on.
func newUnlapsed(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, time.Hour)
	testkit.Must(t, w.store.Advance(t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	return w
}

// A leader that goes leaves slots to its tasks, which the next one counts.
func TestDispatch_KeepsLimitsWhileLeadersChange(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("all", limit.Rule{Slots: 4})
	w.overdueAs(60, "a", task.Definition{})
	o := w.office()
	for i := range 3 {
		x := w.start(fmt.Sprint("x", i), 300*time.Millisecond)
		w.leads(map[*node]int{x: 16})
		o.drain(15)
		testkit.Eventually(t, "all slots are used", func() bool { o.work(); return len(o.runs) == 4 })
		if i == 1 {
			x.proxy.Cut() // it dies
			continue
		}
		x.end()
	}
	last := w.start("last", never)
	w.leads(map[*node]int{last: 16})
	o.drain(15)
	if o.most[""] > 4 {
		t.Errorf("%d were live at once, want at most 4", o.most[""])
	}
}
