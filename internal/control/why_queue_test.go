package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
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

// apart lets a due task wait in the lane of its type, as a leader does if nobody runs that.
func (w *world) apart(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.db.ZRem(w.ctx, w.partitionKey(ref, "wheel"), ref.String()).Err())
	testkit.Must(w.t, w.db.SAdd(w.ctx, w.partitionKey(ref, "backlog"), "reports http").Err())
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "ready:reports http"), z(1000, ref.String())).Err())
}
