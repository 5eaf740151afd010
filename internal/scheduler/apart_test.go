package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// many creates tasks that are due, each of which is another one as change has it.
func (w *world) many(n int, change func(i int, d *task.Definition)) []task.Ref {
	w.t.Helper()
	defs := make([]task.Definition, n)
	refs := make([]task.Ref, n)
	for i := range defs {
		refs[i] = task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint("many", i)}
		defs[i] = task.Definition{Ref: refs[i], Type: "echo"}
		change(i, &defs[i])
		defs[i] = defs[i].Normalize()
	}
	for _, c := range w.store.Tasks.Create(w.t.Context(), defs) {
		testkit.Must(w.t, c.Err)
	}
	return refs
}

// What nobody serves costs a claim nothing, however many names it has.
func TestDispatch_ManyUnservedNamesHoldUpNoOther(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, change := range map[string]func(i int, d *task.Definition){
		"types":  func(i int, d *task.Definition) { d.Type = fmt.Sprint("type", i) },
		"queues": func(i int, d *task.Definition) { d.Queue = fmt.Sprint("queue", i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 1000
			w := newWorld(t)
			w.types = []string{"echo"}
			refs := w.many(n, change)
			a := w.start("a", never)
			w.leads(map[*node]int{a: 16})
			w.dispatched(w.create(task.Definition{}), 1)
			testkit.Eventually(t, "the others wait in DTS", func() bool {
				waiting := 0
				for _, some := range w.backlog() {
					waiting += some
				}
				return waiting == n
			})
			a.quiet("claim")
			if k := a.runs("take_back"); k != 0 {
				t.Errorf("take_back ran %d times: a claim took what nobody serves", k)
			}
			a.quotas.mu.Lock()
			flows := len(a.quotas.flows)
			a.quotas.mu.Unlock()
			if flows > 1 {
				t.Errorf("the leader keeps %d names, want that of the served queue at most", flows)
			}
			if got := w.get(refs[n-1]); got.State != task.Scheduled || got.Attempt != 0 {
				t.Errorf("one of them is %s, attempt %d", got.State, got.Attempt)
			}
		})
	}
}

func TestDispatch_StartsWhatWaitedApartWhenAWorkerComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = []string{"echo"}
	refs := w.many(100, func(i int, d *task.Definition) { d.Type = fmt.Sprint("type", i%50) })
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "all wait in DTS", func() bool { return w.backlog()["default"] == 100 })
	a.asleep()
	leave := w.join(1000, "type7", "type8")
	for _, i := range []int{7, 8, 57, 58} {
		w.dispatched(refs[i], 1)
	}
	testkit.Eventually(t, "the others wait still", func() bool {
		return w.backlog()["default"] == 96 && w.pending("default") == 4
	})
	leave()
	late := w.create(task.Definition{Type: "type7"})
	testkit.Eventually(t, "a later one waits", func() bool { return w.backlog()["default"] == 97 })
	w.join(1000, "type7")
	w.dispatched(late, 1)
}

func TestSlots_SaysWhatIsServed(t *testing.T) {
	t.Parallel()
	many := make([]string, 2000)
	for i := range many {
		many[i] = strings.Repeat("x", 40) + fmt.Sprint(i)
	}
	node := func(capacity int, types []string, queues ...string) cluster.Node {
		n := cluster.Node{State: cluster.StateAlive, Roles: []string{config.RoleWorker}, Types: types, Capacity: capacity}
		n.Queues = map[string]int{}
		for _, q := range queues {
			n.Queues[q] = 1
		}
		return n
	}
	dead := node(1, []string{"old"}, "default")
	dead.State = cluster.StateDead
	for name, c := range map[string]struct {
		nodes   []cluster.Node
		foreign map[string]int
		want    string
	}{
		"nobody":      {want: "\n"},
		"a dead node": {nodes: []cluster.Node{dead}, want: "\n"},
		"no slots":    {nodes: []cluster.Node{node(0, []string{"a"}, "q")}, want: "\n"},
		"several nodes": {
			nodes: []cluster.Node{node(1, []string{"b"}, "q", "r"), node(1, []string{"a"}, "q", "s")},
			want:  ",s, a \n,q, a b \n,r, b \n",
		},
		"any type": {nodes: []cluster.Node{node(1, []string{"b"}, "q"), node(1, nil, "q")}, want: ",q, * \n"},
		"asynq's own server": {
			nodes: []cluster.Node{node(1, []string{"b"}, "q", "r")}, foreign: map[string]int{"q": 2, "none": 0},
			want: ",q, * \n,r, b \n",
		},
		"too much to say": {nodes: []cluster.Node{node(1, many, "q")}, want: ""},
	} {
		s := slots{members: fixed(c.nodes)}
		s.setForeign(nil, c.foreign, nil)
		if got := s.served(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// fixed is members that stay as they are.
type fixed []cluster.Node

func (f fixed) View() cluster.View { return cluster.View{At: time.Unix(1, 0), Nodes: slices.Clone(f)} }

func (fixed) Watch() (<-chan struct{}, func()) { return nil, func() {} }
