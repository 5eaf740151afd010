package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/handover"
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
			a.plan.tell(func(h *handover.Planner, _ time.Time) {
				g, _ := h.Grant(0, true, time.Time{})
				if flows := len(g.Lanes); flows > 1 {
					t.Errorf("the leader keeps %d names, want that of the served queue at most", flows)
				}
			})
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
