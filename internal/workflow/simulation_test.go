package workflow_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/flowtest"
)

// anyFlow returns a random workflow of up to that many steps.
func anyFlow(t *testing.T, random *rand.Rand, most int) *workflow.Flow {
	t.Helper()
	f, err := workflow.Compile(flowtest.AnyThatWaits(random, most))
	testkit.Must(t, err)
	return f
}

// world is Redis for one run: the tasks of its steps, and what asks for attention.
type world struct {
	t      *testing.T
	f      *workflow.Flow
	r      workflow.Run
	state  task.State // of the run's own task
	tasks  []workflow.Task
	ids    []string // of tasks, as they were created
	ended  []int    // steps whose ends are not planned yet
	asks   []workflow.Ask
	begin  int
	now    time.Time
	fates  func(step, attempt int) workflow.Task // how the attempts end
	random *rand.Rand
}

func newSimulation(
	t *testing.T, f *workflow.Flow, random *rand.Rand, fates func(step, attempt int) workflow.Task,
) *world {
	t.Helper()
	w := &world{t: t, f: f, r: workflow.NewRun(f), begin: 1, fates: fates, random: random, state: task.Running}
	w.now = time.UnixMilli(1_800_000_000_000).UTC()
	for i := range f.Len() {
		w.tasks = append(w.tasks, workflow.Task{Step: i})
	}
	w.ids = make([]string, f.Len())
	return w
}

// plan plans until nothing more is wanted, and carries the plan out.
func (w *world) plan() {
	w.t.Helper()
	in := workflow.Input{
		Now: w.now, Begin: w.begin, Asks: w.asks, Room: 1 + w.random.IntN(5),
		About: workflow.About{Ref: task.Ref{Namespace: "default", ID: "run"}, Created: w.now, Params: map[string]any{}},
	}
	for range 1 + w.random.IntN(2) { // some are told twice
		for _, i := range w.random.Perm(len(w.ended)) {
			in.Tasks = append(in.Tasks, w.tasks[w.ended[i]])
		}
	}
	in.Memo = &workflow.Memo{}
	p := workflow.Next(w.f, w.r, in)
	for len(p.Wants) > 0 {
		for _, i := range p.Wants {
			if slices.ContainsFunc(in.Tasks, func(t workflow.Task) bool { return t.Step == i }) {
				w.t.Fatalf("step %s is wanted again", w.f.StepID(i))
			}
			in.Tasks = append(in.Tasks, w.tasks[i])
		}
		p = workflow.Next(w.f, w.r, in)
	}
	in.Memo = nil // whoever plans without it plans the same
	if again := workflow.Next(w.f, w.r, in); !reflect.DeepEqual(p, again) {
		w.t.Fatalf("planned again, the run is\n%s, and was\n%s", again.Run.Encode(), p.Run.Encode())
	}
	if w.random.IntN(5) == 0 {
		return // the leader dies before the plan takes effect
	}
	w.carryOut(p)
}

// carryOut has a plan take effect.
func (w *world) carryOut(p workflow.Plan) {
	w.t.Helper()
	decoded, err := workflow.DecodeRun(p.Run.Encode(), w.f.Len())
	if err != nil || decoded.Encode() != p.Run.Encode() {
		w.t.Fatalf("%v: %s", err, p.Run.Encode())
	}
	w.r, w.ended, w.asks, w.begin = decoded, nil, nil, 0
	for _, r := range p.Release {
		at := &w.tasks[r.Step]
		if r.Again != (w.ids[r.Step] != "") || at.State != task.None && !at.State.Final() {
			w.t.Fatalf("step %s is released while its task is %q; again: %t", w.f.StepID(r.Step), at.State, r.Again)
		}
		w.ids[r.Step] = r.Task.ID
		*at = workflow.Task{Step: r.Step, State: task.Scheduled, Attempt: at.Attempt}
	}
	for _, i := range p.Stop {
		if at := &w.tasks[i]; !at.State.Final() {
			at.State = task.Cancelled
			w.ended = append(w.ended, i)
		}
	}
	if p.End != nil {
		w.state = p.End.State
	}
	w.checkPlan(p)
}

// checkPlan checks what holds for each plan.
func (w *world) checkPlan(p workflow.Plan) {
	w.t.Helper()
	if most := w.f.AtOnce; most > 0 && len(w.active()) > most {
		w.t.Fatalf("%d tasks are active at once, more than %d", len(w.active()), most)
	}
	if !p.Look.IsZero() && !p.Look.After(w.now) {
		w.t.Fatalf("the run is planned again at %s, and it is %s", p.Look, w.now)
	}
	if (p.End != nil) != (p.Run.Phase == workflow.PhaseEnded) {
		w.t.Fatalf("in phase %s the end of the run is %v", p.Run.Phase, p.End)
	}
	isMoved := p.More || p.Run.Paused || slices.ContainsFunc(p.Run.Steps, func(s workflow.StepRun) bool {
		return s.State == workflow.Waiting // somebody answers, or p.Look comes
	})
	if p.End == nil && len(w.active())+len(w.ended) == 0 && !isMoved {
		w.t.Fatalf("nothing plans the run again:\n%s", p.Run.Encode())
	}
}

// active returns the steps whose tasks have not ended.
func (w *world) active() (steps []int) {
	for i, t := range w.tasks {
		if t.State != task.None && !t.State.Final() {
			steps = append(steps, i)
		}
	}
	return steps
}

// lose deletes the task of a step that is active.
func (w *world) lose(i int) {
	if t := &w.tasks[i]; t.State != task.None && !t.State.Final() {
		t.State = task.None
		w.ended = append(w.ended, i)
	}
}

// end ends the task of a step.
func (w *world) end(i int) {
	attempt := w.tasks[i].Attempt + 1
	w.tasks[i] = w.fates(i, attempt)
	w.tasks[i].Step, w.tasks[i].Attempt = i, attempt
	w.ended = append(w.ended, i)
}

// answer gives a signal, or answers the approval of a step that waits: always the same for a seed of fates.
func (w *world) answer() {
	for i, s := range w.r.Steps {
		step, _ := w.f.Step(i)
		if s.State != workflow.Waiting || w.random.IntN(3) > 0 {
			continue
		}
		if wait := step.Wait; wait.Approval != nil {
			output := `{"approved":true,"by":"ann"}`
			if w.fates(i, s.Generation).State == task.Failed {
				output = `{"approved":false,"note":"no"}`
			}
			told := &workflow.Told{Generation: s.Generation, Output: output}
			w.ask(workflow.Ask{Do: workflow.DoAnswer, Steps: []int{i}, Answer: told})
		}
	}
	if w.random.IntN(4) == 0 { // early or late, and again
		name := flowtest.Signals[w.random.IntN(len(flowtest.Signals))]
		w.ask(workflow.Ask{Do: workflow.DoSignal, Signal: &workflow.Signal{Name: name, Data: []byte(`{"n":2}`)}})
	}
}

// ask asks something of the run, as a line.
func (w *world) ask(a workflow.Ask) {
	w.t.Helper()
	line := a.Encode(w.f)
	read, ok := w.f.ParseAsk(line)
	if !ok || !reflect.DeepEqual(read, a) {
		w.t.Fatalf("%q is read as %+v, want %+v", line, read, a)
	}
	w.asks = append(w.asks, read)
}

// run plans and ends tasks in any order until the run has ended.
func (w *world) run(meanwhile func()) {
	w.t.Helper()
	for range 30 * (w.f.Len() + 5) {
		w.plan()
		if w.state.Final() {
			return
		}
		w.now = w.now.Add(time.Second)
		if active := w.active(); len(active) > 0 {
			for range 1 + w.random.IntN(len(active)) {
				if i := active[w.random.IntN(len(active))]; !w.tasks[i].State.Final() {
					w.end(i)
				}
			}
		}
		w.answer()
		meanwhile()
	}
	w.t.Fatalf("the run hangs:\n%s", w.r.Encode())
}

func (w *world) audit() {
	w.t.Helper()
	for _, finding := range workflow.Audit(w.f, w.r, w.state, w.tasks) {
		w.t.Errorf("%s\n%s", finding, w.r.Encode())
	}
}

// fatesOf returns how the attempts of tasks end, always the same for a seed.
func fatesOf(seed uint64) func(step, attempt int) workflow.Task {
	return func(step, attempt int) workflow.Task {
		random := rand.New(rand.NewPCG(seed, uint64(step*100+attempt)))
		switch random.IntN(5) {
		case 0:
			return workflow.Task{State: task.Failed, Error: "broken"}
		case 1:
			return workflow.Task{State: task.Succeeded, Result: `{"n": 1}`}
		}
		return workflow.Task{State: task.Succeeded, Result: `{"n": 2}`}
	}
}

// Whatever the order in which tasks end, and are told of, what becomes of each step depends on how they ended only.
func TestNext_VerdictsDoNotDependOnTheOrderOfEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		f := anyFlow(t, random, 20)
		if f.Failure == workflow.FailureStop {
			continue // whom a failure stops depends on what had ended
		}
		var first *world
		for order := range uint64(4) {
			w := newSimulation(t, f, rand.New(rand.NewPCG(seed, 2+order)), fatesOf(seed))
			w.run(func() {})
			w.audit()
			if first == nil {
				first = w
			}
			for i, s := range w.r.Steps {
				if s.State != first.r.Steps[i].State || w.state != first.state {
					t.Fatalf("seed %d: step %s is %s, and in another order %s; the run %s and %s", seed, f.StepID(i), s.State,
						first.r.Steps[i].State, w.state, first.state)
				}
			}
		}
	}
}

// Somebody cancels, pauses, and runs again, from any steps on.
func TestNext_EndsEachRunAsTheAuditSays(t *testing.T) {
	t.Parallel()
	ends := map[task.State]int{}
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 9))
		w := newSimulation(t, anyFlow(t, random, 30), random, fatesOf(seed))
		for attempt := 1; attempt <= 3; attempt++ {
			w.run(func() {
				if w.r.Paused {
					w.asks = append(w.asks, workflow.Ask{Do: workflow.DoResume})
				}
				switch random.IntN(80) {
				case 0:
					w.asks = append(w.asks, workflow.Ask{Do: workflow.DoCancel})
				case 1, 2:
					w.asks = append(w.asks, workflow.Ask{Do: workflow.DoPause})
				case 3:
					w.now = w.now.Add(workflow.DefaultDeadline)
				case 4:
					w.now = w.now.Add(workflow.DefaultClosing)
				case 6:
					w.now = w.now.Add(time.Hour)
				case 5:
					w.lose(random.IntN(len(w.tasks)))
				}
			})
			w.audit()
			ends[w.state]++
			again := workflow.Ask{Do: workflow.DoRerun}
			if random.IntN(2) == 0 {
				again.Steps = []int{random.IntN(len(w.f.Steps))}
			}
			w.state, w.begin, w.asks = task.Running, attempt+1, []workflow.Ask{again}
		}
	}
	for _, s := range []task.State{task.Succeeded, task.Failed, task.Cancelled} {
		if ends[s] < 50 {
			t.Errorf("%d runs %s, too few to say something", ends[s], s)
		}
	}
}
