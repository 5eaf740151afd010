package web

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Whoever reads the overview after a while waits longer for Redis, and its answers are no less true for that.
func TestOverview_HasTheNextTicksOfASlowRedis(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", nil)
		for _, delay := range []time.Duration{0, 300 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond} {
			testkit.Must(t, clock.Sleep(w.ctx, 40*time.Second))
			w.delay.Store(int64(delay))
			w.expectNot("/", "No schedule has a tick to come.")
			w.expect("/", `<a class="id" href="/schedules/default/hourly">`)
			w.delay.Store(0)
		}
	})
}

// "All well" does not stand beside failures.
func TestOverview_CountsFailuresThatNeedNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		const text = "Nothing needs somebody; one attempt failed in the last hour"
		w.run(w.submit("well", nil), time.Second, task.Succeeded, "", "")
		w.pass(time.Minute)
		w.expect("/", "All well")
		w.failed("failed")
		w.pass(time.Minute)
		w.expect("/", text)
		w.expectNot("/", "All well")
		w.pass(2 * time.Hour)
		w.expectNot("/", text)
	})
}

// A task that has just begun runs for some ms.
func TestOverview_SaysHowLongTasksRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begin(w.submit("runs", nil))
		w.pass(340 * time.Millisecond)
		w.pack()
		w.expect("/", `<td class="n" data-l="Ran">340 ms</td>`)
	})
}

// Tasks hold as many slots as they say, and runs of workflows hold none.
func TestOverview_CountsTheSlotsOfTasks(t *testing.T) {
	page := control.TaskPage{Tasks: make([]task.Task, 3)}
	page.Tasks[0].Reach, page.Tasks[2].Type = ";;;4", task.WorkflowType
	v := visit{Namespace: control.EveryNamespace, Status: status.Status{Figures: status.Figures{Running: 9}}}
	if got := slotsTaken(&v, page); got != 5 {
		t.Errorf("a list of all tasks that run has %d slots, want 5", got)
	}
	page.NextCursor = "more"
	if got := slotsTaken(&v, page); got != 9 {
		t.Errorf("beside a list of some, %d slots are taken, want the 9 of the status", got)
	}
}

// A search that was given up says so.
func TestOverview_SaysThatTheNextTicksAreNotKnown(t *testing.T) {
	if known := (control.Upcoming{}); isLate(known) {
		t.Error("nothing comes, and that is known")
	}
	if given := (control.Upcoming{KnownUntil: start}); !isLate(given) {
		t.Error("nobody knows what comes")
	}
}
