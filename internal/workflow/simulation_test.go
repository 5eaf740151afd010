package workflow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// anyFlow returns a workflow of up to that many steps, with all rules.
func anyFlow(t *testing.T, random *rand.Rand, most int) *Flow {
	t.Helper()
	for {
		d := Definition{
			Ref: task.Ref{Namespace: "default", ID: "any"}, AtOnce: random.IntN(4) * random.IntN(3),
			Steps:     anySteps(random, "s", 1+random.IntN(most)),
			OnFailure: anySteps(random, "o", random.IntN(3)),
			Finally:   anySteps(random, "f", random.IntN(3)),
		}
		if random.IntN(4) == 0 {
			d.Failure = FailureStop
		}
		if random.IntN(4) == 0 {
			d.Output = json.RawMessage(`{"of": "${{ steps.s0.output }}", "state": "${{ steps.s0.state }}"}`)
		}
		if f, err := Compile(d); err == nil {
			return f
		} else if task.CodeOf(err) != task.CodeInvalid {
			t.Fatal(err)
		}
	}
}

func anySteps(random *rand.Rand, prefix string, n int) []Step {
	steps := make([]Step, n)
	for i := range steps {
		s := Step{ID: fmt.Sprint(prefix, i), AllowFailure: random.IntN(6) == 0}
		for j := range min(i, 6) {
			if need := i - 1 - j; random.IntN(3) == 0 {
				s.Needs = append(s.Needs, steps[need].ID)
			}
		}
		if random.IntN(2) == 0 {
			s.Rule = Rules[random.IntN(len(Rules))]
		}
		if len(s.Needs) > 0 && random.IntN(5) == 0 {
			s.When = []string{
				fmt.Sprintf(`steps.%s.state != "failed"`, s.Needs[0]), fmt.Sprintf(`steps.%s.output.n > 1`, s.Needs[0]),
				fmt.Sprintf(`${{ steps.%s.attempt < 2 }}`, s.Needs[0]),
			}[random.IntN(3)]
		}
		s.Task = &task.Definition{Type: "custom", Payload: json.RawMessage(`{"run": "${{ run.id }}"}`)}
		if len(s.Needs) > 0 && random.IntN(3) == 0 {
			s.Task.Payload = json.RawMessage(fmt.Sprintf(`{"before": "${{ steps.%s.output }}"}`, s.Needs[0]))
		}
		steps[i] = s
	}
	for i := range steps {
		if random.IntN(6) == 0 {
			decideAt(random, steps, i)
		}
	}
	return steps
}

// decideAt has a step decide which of those go on that need it.
func decideAt(random *rand.Rand, steps []Step, at int) {
	s := &steps[at]
	var behind []string
	for _, other := range steps[at+1:] {
		if slices.Contains(other.Needs, s.ID) {
			behind = append(behind, other.ID)
		}
	}
	if len(behind) == 0 {
		return
	}
	s.Task, s.AllowFailure = nil, false
	when := fmt.Sprintf(`run.attempt == %d`, 1+random.IntN(2))
	s.Decide = []Choice{{When: when, Then: behind[:1]}, {Then: behind[random.IntN(len(behind)):]}}
}

// world is Redis for one run: the tasks of its steps, and what asks for attention.
type world struct {
	t      *testing.T
	f      *Flow
	r      Run
	state  task.State // of the run's own task
	tasks  []Task
	ids    []string // of tasks, as they were created
	ended  []int    // steps whose ends are not planned yet
	asks   []Ask
	begin  int
	now    time.Time
	fates  func(step, attempt int) Task // how the attempts end
	random *rand.Rand
}

func newSimulation(t *testing.T, f *Flow, random *rand.Rand, fates func(step, attempt int) Task) *world {
	t.Helper()
	w := &world{t: t, f: f, r: NewRun(f), begin: 1, fates: fates, random: random, state: task.Running}
	w.now = time.UnixMilli(1_800_000_000_000).UTC()
	for i := range f.nodes {
		w.tasks = append(w.tasks, Task{Step: i})
	}
	w.ids = make([]string, len(f.nodes))
	return w
}

// plan plans until nothing more is wanted, and carries the plan out.
func (w *world) plan() {
	w.t.Helper()
	in := Input{
		Now: w.now, Begin: w.begin, Asks: w.asks, Room: 1 + w.random.IntN(5),
		About: About{Ref: task.Ref{Namespace: "default", ID: "run"}, Created: w.now, Params: map[string]any{}},
	}
	for range 1 + w.random.IntN(2) { // some are told twice
		for _, i := range w.random.Perm(len(w.ended)) {
			in.Tasks = append(in.Tasks, w.tasks[w.ended[i]])
		}
	}
	p := Next(w.f, w.r, in)
	for len(p.Wants) > 0 {
		for _, i := range p.Wants {
			if slices.ContainsFunc(in.Tasks, func(t Task) bool { return t.Step == i }) {
				w.t.Fatalf("step %s is wanted again", w.f.nodes[i].ID)
			}
			in.Tasks = append(in.Tasks, w.tasks[i])
		}
		p = Next(w.f, w.r, in)
	}
	if again := Next(w.f, w.r, in); !reflect.DeepEqual(p, again) {
		w.t.Fatalf("planned again, the run is\n%s, and was\n%s", again.Run.Encode(), p.Run.Encode())
	}
	if w.random.IntN(5) == 0 {
		return // the leader dies before the plan takes effect
	}
	w.carryOut(p)
}

// carryOut has a plan take effect.
func (w *world) carryOut(p Plan) {
	w.t.Helper()
	decoded, err := DecodeRun(p.Run.Encode(), len(w.f.nodes))
	if err != nil || decoded.Encode() != p.Run.Encode() {
		w.t.Fatalf("%v: %s", err, p.Run.Encode())
	}
	w.r, w.ended, w.asks, w.begin = decoded, nil, nil, 0
	for _, r := range p.Release {
		at := &w.tasks[r.Step]
		if r.Again != (w.ids[r.Step] != "") || at.State != task.None && !at.State.Final() {
			w.t.Fatalf("step %s is released while its task is %q; again: %t", w.f.nodes[r.Step].ID, at.State, r.Again)
		}
		w.ids[r.Step] = r.Task.ID
		*at = Task{Step: r.Step, State: task.Scheduled, Attempt: at.Attempt}
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
func (w *world) checkPlan(p Plan) {
	w.t.Helper()
	if most := w.f.AtOnce; most > 0 && len(w.active()) > most {
		w.t.Fatalf("%d tasks are active at once, more than %d", len(w.active()), most)
	}
	if !p.Look.IsZero() && !p.Look.After(w.now) {
		w.t.Fatalf("the run is planned again at %s, and it is %s", p.Look, w.now)
	}
	if (p.End != nil) != (p.Run.Phase == PhaseEnded) {
		w.t.Fatalf("in phase %s the end of the run is %v", p.Run.Phase, p.End)
	}
	if asks := len(w.active()) + len(w.ended); p.End == nil && asks == 0 && !p.More && !p.Run.Paused {
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

// run plans and ends tasks in any order until the run has ended.
func (w *world) run(meanwhile func()) {
	w.t.Helper()
	for range 30 * (len(w.f.nodes) + 5) {
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
		meanwhile()
	}
	w.t.Fatalf("the run hangs:\n%s", w.r.Encode())
}

func (w *world) audit() {
	w.t.Helper()
	for _, finding := range Audit(w.f, w.r, w.state, w.tasks) {
		w.t.Errorf("%s\n%s", finding, w.r.Encode())
	}
}

// fatesOf returns how the attempts of tasks end, always the same for a seed.
func fatesOf(seed uint64) func(step, attempt int) Task {
	return func(step, attempt int) Task {
		random := rand.New(rand.NewPCG(seed, uint64(step*100+attempt)))
		switch random.IntN(5) {
		case 0:
			return Task{State: task.Failed, Error: "broken"}
		case 1:
			return Task{State: task.Succeeded, Result: `{"n": 1}`}
		}
		return Task{State: task.Succeeded, Result: `{"n": 2}`}
	}
}

// Whatever the order in which tasks end, and are told of, what becomes of each step depends on how they ended only.
func TestNext_VerdictsDoNotDependOnTheOrderOfEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		f := anyFlow(t, random, 20)
		if f.Failure == FailureStop {
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
					t.Fatalf("seed %d: step %s is %s, and in another order %s; the run %s and %s", seed, f.nodes[i].ID, s.State,
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
					w.asks = append(w.asks, Ask{Do: DoResume})
				}
				switch random.IntN(80) {
				case 0:
					w.asks = append(w.asks, Ask{Do: DoCancel})
				case 1, 2:
					w.asks = append(w.asks, Ask{Do: DoPause})
				case 3:
					w.now = w.now.Add(DefaultDeadline)
				case 4:
					w.now = w.now.Add(DefaultClosing)
				case 5:
					w.lose(random.IntN(len(w.tasks)))
				}
			})
			w.audit()
			ends[w.state]++
			again := Ask{Do: DoRerun}
			if random.IntN(2) == 0 {
				again.Steps = []int{random.IntN(len(w.f.Steps))}
			}
			w.state, w.begin, w.asks = task.Running, attempt+1, []Ask{again}
		}
	}
	for _, s := range []task.State{task.Succeeded, task.Failed, task.Cancelled} {
		if ends[s] < 50 {
			t.Errorf("%d runs %s, too few to say something", ends[s], s)
		}
	}
}
