package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
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

// guests has workers by HTTP that offer as many and as long names as one may, all others, and stay.
func (w *world) guests(n int) {
	w.t.Helper()
	guests := make([]cluster.Node, n)
	for i := range guests {
		guests[i] = cluster.Node{
			ID: fmt.Sprint("guest", i), Roles: []string{config.RoleWorker}, Capacity: 1, Queues: map[string]int{},
		}
		for k := range 100 {
			name := fmt.Sprintf("%d-%d", i, k)
			guests[i].Types = append(guests[i].Types, name+strings.Repeat("t", 100-len(name)))
			guests[i].Queues[name+strings.Repeat("q", 200-len(name))] = 1
		}
		guests[i].StartedAt = time.Unix(int64(i), 0)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	r := cluster.New(cluster.Options{
		DB: w.db, Key: w.store.Keys.Nodes(), Channel: w.store.Keys.Members(), ID: "host", Beat: beat,
		Self:   func() cluster.Node { return cluster.Node{Roles: []string{config.RoleAPI}} },
		Guests: func() []cluster.Node { return guests },
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); testkit.Must(w.t, testkit.Receive(w.t, ended, "the end of the registry")) })
	known := func() bool { return len(r.View().Alive(config.RoleWorker)) == n }
	testkit.Eventually(w.t, "the guests are on the list", known)
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
			w.guests(3)
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
	testkit.Eventually(t, "the leader knows that the worker has left", func() bool {
		return len(a.members.View().Alive(config.RoleWorker)) == 1
	})
	late := w.create(task.Definition{Type: "type7"})
	testkit.Eventually(t, "a later one waits", func() bool { return w.backlog()["default"] == 97 })
	w.join(1000, "type7")
	w.dispatched(late, 1)
}

func TestSlots_SaysWhatIsServed(t *testing.T) {
	t.Parallel()
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("%s%04d", strings.Repeat("x", 40), i)
	}
	node := func(capacity int, types []string, queues ...string) cluster.Node {
		n := cluster.Node{State: cluster.StateAlive, Roles: []string{config.RoleWorker}, Types: types, Capacity: capacity}
		n.Queues = map[string]int{}
		for _, q := range queues {
			n.Queues[q] = 1
		}
		return n
	}
	guest := func(types []string, queues ...string) cluster.Node {
		n := node(1, types, queues...)
		n.Via = "node"
		return n
	}
	dead := node(1, []string{"old"}, "default")
	dead.State = cluster.StateDead
	for name, c := range map[string]struct {
		nodes   []cluster.Node
		foreign map[string]int
		want    string
		leftOut int
	}{
		"nobody":      {want: "\n"},
		"a dead node": {nodes: []cluster.Node{dead}, want: "\n"},
		"no slots":    {nodes: []cluster.Node{node(0, []string{"a"}, "q")}, want: "\n"},
		"several nodes": {
			nodes: []cluster.Node{node(1, []string{"b"}, "q", "r"), node(1, []string{"a"}, "q", "s")},
			want:  ",q,s, a \n,q,r, b \n",
		},
		"any type": {nodes: []cluster.Node{node(1, []string{"b"}, "q"), node(1, nil, "q")}, want: ",q, * \n"},
		"asynq's own server": {
			nodes: []cluster.Node{node(1, []string{"b"}, "q", "r")}, foreign: map[string]int{"q": 2, "none": 0},
			want: ",q, * \n,q,r, b \n",
		},
		"many types of a node": {nodes: []cluster.Node{node(1, many, "q")}, want: ",q, " + strings.Join(many, " ") + " \n"},
		"too many of guests": {
			nodes: []cluster.Node{
				guest(many, "most"), guest(many, "most"), node(1, []string{"b"}, "q"),
				guest(many[:1000], "more"), guest([]string{"c"}, "q"),
			},
			want: ",q, b c \n,more, " + strings.Join(many[:1000], " ") + " \n", leftOut: 2,
		},
		"many types of a node and few of a guest": {
			nodes: []cluster.Node{guest([]string{"c"}, "r"), node(1, many, "q")},
			want:  ",r, c \n,q, " + strings.Join(many, " ") + " \n",
		},
	} {
		s := slots{members: fixed(c.nodes)}
		s.setForeign(nil, c.foreign, nil)
		if got := s.served(); got != c.want {
			t.Errorf("%s: %.200q, want %.200q", name, got, c.want)
		}
		if s.leftOut != c.leftOut {
			t.Errorf("%s: %d are left out, want %d", name, s.leftOut, c.leftOut)
		}
	}
}

// What is served may change, and change back, while claims look at many tasks in parts.
func TestApart_LooksAgainIfWhatIsServedChangesDuringALook(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	a := &apart{names: []string{"waits"}}
	claim := func(served, next string) string {
		t.Helper()
		now = now.Add(unnamedPause)
		if !a.due(served, now) {
			return ""
		}
		r := partition.Quotas{Served: served}
		a.reserve(&r, now)
		a.note(r, outcome{backlog: partition.Backlog{}, apart: []string{"waits"}, unnamed: next}, now)
		return r.Unnamed
	}
	for i, c := range []struct{ served, next, want string }{
		{"one", "5 t", lua.FirstUnnamed}, {"both", "6 t", "5 t"}, {"one", "", "6 t"},
		{"one", "", lua.FirstUnnamed}, // what the looks have passed while "both" were served
		{"one", "", ""}, {"both", "", lua.FirstUnnamed}, {"both", "", ""},
	} {
		if got := claim(c.served, c.next); got != c.want {
			t.Errorf("claim %d looks from %q, want %q", i, got, c.want)
		}
	}
	if now = now.Add(unnamedTime); claim("both", "") != lua.FirstUnnamed {
		t.Error("it does not look again after a long time")
	}
	now = now.Add(unnamedTime)
	r := partition.Quotas{Served: "both"}
	a.reserve(&r, now)
	a.note(r, outcome{}, now)
	if got := claim("both", ""); got != lua.FirstUnnamed {
		t.Errorf("after a claim that failed, one looks from %q", got)
	}
}

// fixed is members that stay as they are.
type fixed []cluster.Node

func (f fixed) View() cluster.View { return cluster.View{At: time.Unix(1, 0), Nodes: slices.Clone(f)} }

func (fixed) Watch() (<-chan struct{}, func()) { return nil, func() {} }

func (f fixed) Nodes(context.Context) ([]cluster.Node, error) { return slices.Clone(f), nil }

// More names than may be: the rest waits without one, starts when somebody serves it, and costs nothing before.
func TestDispatch_StartsWhatHadNoNameWhenAWorkerComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = []string{"echo"}
	const n = contract.WaitingNamesLimit/2 + 400
	refs := w.siblings(n)
	defs := make([]task.Definition, n)
	for i, ref := range refs {
		defs[i] = task.Definition{Ref: ref, Type: fmt.Sprint("type", i)}.Normalize()
	}
	for _, c := range w.store.Tasks.Create(t.Context(), defs) {
		testkit.Must(t, c.Err)
	}
	k := w.store.KeysOf(refs[0])
	others := func() []string { return w.db.ZRange(t.Context(), string(k.Ready(lua.Unnamed)), 0, -1).Val() }
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	empty := func() bool { return w.db.ZCard(t.Context(), string(k.Wheel())).Val() == 0 }
	testkit.Eventually(t, "all have left the wheel", empty)
	a.quiet("claim")
	none := others()
	if len(none) < 390 || len(none) > 410 {
		t.Fatalf("%d tasks have no name, want about 400", len(none))
	}
	first, err := task.ParseRef(none[0])
	testkit.Must(t, err)
	last, err := task.ParseRef(none[len(none)-1])
	testkit.Must(t, err)
	w.join(1000, w.get(first).Type, w.get(last).Type)
	w.dispatched(first, 1)
	w.dispatched(last, 1)
	testkit.Eventually(t, "the others wait still", func() bool { return len(others()) == len(none)-2 })
}
