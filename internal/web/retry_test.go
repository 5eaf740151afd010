package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// retries has a schedule whose only task has failed twice, and tries again in three minutes.
func (w *world) retries(id string) task.Ref {
	w.t.Helper()
	w.put(id, nil)
	run, err := w.control.TriggerSchedule(w.ctx, me, id)
	testkit.Must(w.t, err)
	ref := task.Ref{Namespace: "default", ID: run.TaskID(id)}
	testkit.Must(w.t, w.begin(ref).Reattempt(w.ctx, time.Second, task.OutcomeFailed, "connection reset"))
	testkit.Must(w.t, clock.Sleep(w.ctx, 2*time.Second))
	testkit.Must(w.t, w.beginAttempt(ref, 2).Reattempt(w.ctx, 3*time.Minute, task.OutcomeFailed, "connection <refused>"))
	return ref
}

// edit puts a schedule again whose tasks call another address.
func (w *world) edit(id string) {
	w.t.Helper()
	w.put(id, func(d *schedule.Definition) { d.Task.Payload = []byte(`{"url":"http://localhost/b"}`) })
}

func TestGolden_ScheduleTriesAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.retries("hourly")
		w.page("schedule-tries-again", "/schedules/default/hourly", http.StatusOK)
		w.page("schedules-tries-again", "/schedules", http.StatusOK)
		w.edit("hourly")
		w.page("schedule-outdated", "/schedules/default/hourly", http.StatusOK)
		w.get("/prefer/language/zh")
		w.page("schedule-outdated-zh", "/schedules/default/hourly", http.StatusOK)
	})
}

// What a retry has done is said in words that stay true: the page shows them when the task has ended again.
func TestTask_SaysOfARetryWhatStaysTrue(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.failed("a")
		retry := w.fill("/tasks/default/a")
		said := w.send(http.MethodPost, "/tasks/default/a/retry", retry).header.Get("Location")
		w.expect(said, "The task was retried at ")
		testkit.Must(t, w.beginAttempt(ref, 2).Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
		w.expect(said, "The task was retried at ", "Succeeded in")
		w.expectNot(said, "is due again")
	})
}

// A schedule looks as it is from the first failure of its task until that has ended.
func TestSchedule_TellsOfATaskThatTriesAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.retries("hourly")
		const link = `<a href="/tasks/default/hourly@`
		w.expect("/schedules/default/hourly", "Tries again", "in 3 min", link,
			"connection &lt;refused&gt;</a> (2 attempts so far)")
		w.expect("/schedules", "tries again", "2 attempts so far", "in 3 min", link, "connection &lt;refused&gt;")
		testkit.Must(t, clock.Sleep(w.ctx, 4*time.Minute))
		run := w.beginAttempt(ref, 3)
		w.expect("/schedules/default/hourly", "Tries again now: ", "connection &lt;refused&gt;</a> (2 attempts so far)")
		testkit.Must(t, run.Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
		w.expectNot("/schedules/default/hourly", "ries again")
		w.expectNot("/schedules", "ries again")
	})
}

// What a change leaves behind ends by what the page advises.
func TestSchedule_TellsOfATaskWithTheOldDefinition(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.retries("hourly")
		const old = "A task of revision 1 still tries again with the old definition."
		w.expectNot("/schedules/default/hourly", old)
		w.put("hourly", func(d *schedule.Definition) { d.Description = "its task is the same" })
		w.expectNot("/schedules/default/hourly", old)
		w.edit("hourly")
		w.expect("/schedules/default/hourly", old, ">Cancel the task</a>",
			`, then <a href="/schedules/default/hourly/trigger">trigger the schedule</a>.`,
			"<code>dtsctl task cancel "+ref.ID+"</code>, <code>dtsctl schedule trigger hourly</code>")
		_, err := w.control.CancelTask(w.ctx, me, ref.ID, "")
		testkit.Must(t, err)
		w.expectNot("/schedules/default/hourly", old)
		_, err = w.control.TriggerSchedule(w.ctx, me, "hourly")
		testkit.Must(t, err)
	})
}

// The list asks no more often, however many of its schedules have a task that is tried again.
func TestSchedules_AskOnceForWhatIsTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", nil)
		_, err := w.control.TriggerSchedule(w.ctx, me, "hourly")
		testkit.Must(t, err)
		depth := w.depth("/schedules")
		w.retries("again")
		if got := w.depth("/schedules"); got != depth {
			t.Errorf("%d calls one after the other, want %d as without a task that is tried again", got, depth)
		}
	})
}

// depth is how many calls to Redis a page makes one after the other.
func (w *world) depth(path string) int {
	w.t.Helper()
	const call = time.Millisecond
	w.get(path) // reads what all readers share
	w.delay.Store(int64(call))
	defer w.delay.Store(0)
	began := clock.Now()
	w.get(path)
	return int(clock.Since(began) / call)
}

// A task that its handler has put off is not one that is tried again.
func TestLists_TellWhatWasPutOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", nil)
		run, err := w.control.TriggerSchedule(w.ctx, me, "hourly")
		testkit.Must(t, err)
		ref := task.Ref{Namespace: "default", ID: run.TaskID("hourly")}
		testkit.Must(t, w.begin(ref).Reattempt(w.ctx, time.Hour, task.OutcomeSnoozed, "the <report> is not there yet"))
		w.pass(time.Second)
		w.pack()
		for _, page := range []string{"/tasks", "/schedules/default/hourly", "/bulk/new/cancel?state=scheduled"} {
			w.expect(page, "snoozed", "the &lt;report&gt; is not there yet")
			w.expectNot(page, "tries again")
		}
	})
}

// The task that is tried again need not be one of the first that have not ended.
func TestSchedule_FindsTheTaskThatTriesAgainAmongOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
		var ref task.Ref
		for range 10 {
			run, err := w.control.TriggerSchedule(w.ctx, me, "hourly")
			testkit.Must(t, err)
			ref = task.Ref{Namespace: "default", ID: run.TaskID("hourly")}
			w.pass(time.Second)
		}
		testkit.Must(t, w.begin(ref).Reattempt(w.ctx, time.Hour, task.OutcomeFailed, "connection refused"))
		w.expect("/schedules", "connection refused")
		w.expect("/schedules/default/hourly", "Tries again", "connection refused")
	})
}
