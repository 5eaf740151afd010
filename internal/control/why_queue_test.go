package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
	"github.com/dts-sched/dts/lua"
)

// expectQueue checks what the queue "reports" waits for, and returns the first reason.
func (w *world) expectQueue(want ...why.Code) why.Reason {
	w.t.Helper()
	const name = "reports"
	answer, err := w.WhyQueue(w.ctx, me, name)
	testkit.Must(w.t, err)
	got, first := codes(answer)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s waits for %v, want %v: %+v", name, got, want, first)
	}
	return first
}

func TestWhyQueue_TellsWhatItsTasksWaitFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"http": {}, "shell": {Setting: "enable-shell"}}
	a := w.due("a", "reports")
	w.nodes = fleet{worker("node", 0, []string{"shell"}, "reports")}
	w.apart(a)
	if r := w.expectQueue(why.TypeUnserved); !strings.Contains(r.Detail,
		"1 task waits for one.") || *r.Tasks != 1 || *r.Ahead != 1 {
		t.Errorf("%+v, want the type and its task", r)
	}
	w.nodes = fleet{}
	w.expectQueue(why.QueueUnserved)
	w.nodes = fleet{worker("node", 1, []string{"http"}, "reports")}
	testkit.Must(t, w.PauseQueue(w.ctx, me, "reports", ""))
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "reports", 1))
	w.expectQueue(why.QueuePaused, why.SlotsTaken, why.QueueFull)
	testkit.Must(t, w.ResumeQueue(w.ctx, me, "reports"))
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "reports", 0))
	w.nodes = fleet{worker("node", 0, []string{"http"}, "reports")}
	w.expectQueue(why.Delivery)
	testkit.Must(t, w.db.Del(w.ctx, string(w.store.KeysOf(a).Term(fence))).Err())
	w.expectQueue(why.NoLeader)
	w.expectQueue(why.NoLeader)
	_, err := w.CancelTask(w.ctx, me, "a", "")
	testkit.Must(t, err)
	w.expectQueue()
}

func TestWhyQueue_CountsTasksOfLimitsAndNodes(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.nodes = fleet{worker("node", 0, nil, "reports")}
	testkit.Must(t, w.setLimit(me, "key:x", LimitRule{Slots: 1}))
	for id, lane := range map[string]lua.Lane{
		"dear": {Queue: "reports", Limits: "2,key:x"}, "cheap": {Queue: "reports", Limits: "key:x"},
		"gpu": {Queue: "reports", Reach: "gpu;;"},
	} {
		a := w.due(id, "reports")
		testkit.Must(t, w.db.ZRem(w.ctx, w.partitionKey(a, "wheel"), a.String()).Err())
		testkit.Must(t, w.db.SAdd(w.ctx, w.partitionKey(a, "backlog"), lane.Name()).Err())
		testkit.Must(t, w.db.ZAdd(w.ctx, w.partitionKey(a, "ready:"+lane.Name()), z(1000, a.String())).Err())
	}
	r := w.expectQueue(why.NoNode, why.Limited)
	if !strings.HasPrefix(r.Detail, "1 of 3 tasks waits for this. The next one is gpu.") || *r.Tasks != 1 {
		t.Errorf("%+v, want the task that no node may run", r)
	}
	answer, err := w.WhyQueue(w.ctx, me, "reports")
	testkit.Must(t, err)
	if l := answer.Reasons[1]; !strings.Contains(l.Detail, "the limit key:x has 1 slot: it can never") || *l.Tasks != 1 {
		t.Errorf("%+v, want the task that costs too much", l)
	}
	if answer.Now != "3 tasks are waiting in it. Nothing holds 1 of them up." {
		t.Errorf("it says %q", answer.Now)
	}
}

// apart lets a due task wait in the lane of its type, as a leader does if nobody runs that.
func (w *world) apart(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.db.ZRem(w.ctx, w.partitionKey(ref, "wheel"), ref.String()).Err())
	testkit.Must(w.t, w.db.SAdd(w.ctx, w.partitionKey(ref, "backlog"), "reports http").Err())
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "ready:reports http"), z(1000, ref.String())).Err())
}
