package web

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// fire does what leaders do about schedules that are due.
func (w *world) fire() {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		leader := w.store.Partitions.At(p).Lead(fence)
		due, err := leader.Due(w.ctx, 100, false)
		testkit.Must(w.t, err)
		var plans []partition.Planned
		for _, a := range due.Agendas {
			plans = append(plans, partition.Planned{Agenda: a, Plan: schedule.MakePlan(a.Agenda)})
		}
		for _, fired := range leader.Fire(w.ctx, plans) {
			testkit.Must(w.t, fired.Err)
		}
	}
}

// tick lets an hour pass, and ends the tasks of the ticks of some schedules: as succeeded, failed, or not at all for
// "".
func (w *world) tick(ends map[string]task.State) {
	w.t.Helper()
	w.pass(time.Hour + 10*time.Second - clock.Now().Sub(start)%time.Hour) // ticks come 2 s after full hours
	w.fire()
	for _, id := range []string{"a", "b", "c", "hourly"} {
		if end := ends[id]; end != "" {
			newest := w.schedule(id).Recent
			ref := task.Ref{Namespace: "default", ID: id + "@" + newest[len(newest)-1].Name}
			w.run(ref, 1500*time.Millisecond, end, "", "HTTP 503: the service is busy")
		}
	}
}

func (w *world) schedule(id string) schedule.Schedule {
	w.t.Helper()
	s, err := w.control.GetSchedule(w.ctx, me, id)
	testkit.Must(w.t, err)
	return s
}

func TestGolden_Schedules(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pass(2 * time.Second)
		w.page("schedules-empty", "/schedules", http.StatusOK)
		w.put("hourly", func(d *schedule.Definition) {
			d.Owner, d.Labels = "finance", map[string]string{"team": "finance"}
			d.Description = "<script>alert('1')</script> \u202e 每小时结算 📒"
		})
		w.put("a", func(d *schedule.Definition) { d.PauseOnFailure = 2 })
		w.put("b", func(d *schedule.Definition) { d.PauseOnFailure = 5 })
		w.put("weekly", func(d *schedule.Definition) {
			d.Rules = []schedule.Rule{{Cron: "0 8 * * MON"}, {Cron: "0 9 * * TUE"}, {Every: 200 * time.Hour}}
			d.Timezone = "Europe/Berlin"
		})
		w.put("paused", nil)
		_, err := w.control.PauseSchedule(w.ctx, me, "paused", "until the new disk is there 💾")
		testkit.Must(t, err)
		w.tick(map[string]task.State{"hourly": task.Succeeded, "a": task.Failed, "b": task.Succeeded})
		w.tick(map[string]task.State{"hourly": task.Succeeded, "a": task.Failed, "b": task.Failed})
		w.tick(map[string]task.State{"hourly": task.Succeeded})
		w.get("/")
		w.pass(5 * time.Minute)
		w.page("schedules", "/schedules", http.StatusOK)
		w.page("schedules-filtered", "/schedules?is=failing&prefix=b&namespace=default", http.StatusOK)
		w.page("schedules-wrong", "/schedules?label=team", http.StatusOK)
		w.page("schedule-paused-itself", "/schedules/default/a", http.StatusOK)
		w.page("schedule-failing", "/schedules/default/b", http.StatusOK)
		w.page("schedule-audited", "/schedules/default/hourly/audit", http.StatusOK)
		w.page("schedule-not-run", "/schedules/default/weekly", http.StatusOK)
		w.page("schedule-not-found", "/schedules/default/nobody", http.StatusNotFound)
	})
}

func TestGolden_ScheduleChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.put("a", func(d *schedule.Definition) { d.Overlap, d.Task.Timeout = schedule.OverlapReplace, time.Minute })
		w.pass(2 * time.Second)
		w.tick(nil)
		w.pass(2 * time.Second)
		for name, path := range map[string]string{
			"trigger": "trigger", "pause": "pause", "resume-wrong": "resume", "delete": "delete?tasks=all",
			"rollback": "rollback?revision=1", "rollback-wrong": "rollback?revision=7", "backfill": "backfill",
			"backfill-preview": "backfill?from=2026-01-01&to=2026-01-02+14:00&pace=30s", "backfill-wrong": "backfill?from=soon",
		} {
			w.page("schedule_change-"+name, "/schedules/default/a/"+path, http.StatusOK)
		}
		w.page("schedule_change-not-found", "/schedules/default/a/nonsense", http.StatusNotFound)
	})
}

var anyHidden = regexp.MustCompile(`type="hidden" name="([a-z_]+)" value="([^"]*)"`)

// fill is what a browser sends of the form of a page, with some fields filled in.
func (w *world) fill(path string, fields ...string) url.Values {
	w.t.Helper()
	page := w.get(path).text
	form := url.Values{}
	for _, f := range anyHidden.FindAllStringSubmatch(page, -1) {
		form.Set(f[1], f[2])
	}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

// checkedField is the field that says what was checked.
var checkedField = regexp.MustCompile(`name="checked" value="([0-9a-f]+)"`)

// checked lets a form be checked, so that it can be put.
func (w *world) checked(path string, form url.Values) url.Values {
	w.t.Helper()
	check := maps.Clone(form)
	check.Set("do", "check")
	if found := checkedField.FindStringSubmatch(w.send(http.MethodPost, path, check).text); found != nil {
		form.Set("checked", found[1])
	}
	return form
}

// do sends the form of a page of the schedule a, and returns what the page says to which it leads.
func (w *world) do(what string, fields ...string) string {
	w.t.Helper()
	path, _, _ := strings.Cut("/schedules/default/a/"+what, "?")
	got := w.send(http.MethodPost, path, w.fill("/schedules/default/a/"+what, fields...))
	if got.status != http.StatusSeeOther {
		w.t.Fatalf("%s: %d %s", what, got.status, got.text)
	}
	return w.get(got.header.Get("Location")).text
}

func TestScheduleChange_DoesWhatItSays(t *testing.T) {
	inWorld(t, func(w *world) {
		says := func(page, want string) {
			t.Helper()
			if !strings.Contains(page, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
		w.put("a", nil)
		w.put("a", func(d *schedule.Definition) { d.Owner = "finance" })
		says(w.do("pause", "note", "the <disk>"), "Paused: the &lt;disk&gt;")
		if s := w.schedule("a"); s.PausedAt.IsZero() || s.PauseNote != "the <disk>" {
			t.Errorf("paused at %s: %q", s.PausedAt, s.PauseNote)
		}
		says(w.do("resume"), "The schedule was resumed at ")
		if !w.schedule("a").PausedAt.IsZero() {
			t.Error("it is paused")
		}
		says(w.do("rollback?revision=1"), "The definition of revision 1 was put again at ")
		if s := w.schedule("a"); s.Revision != 3 || s.Owner != "" {
			t.Errorf("revision %d of %q", s.Revision, s.Owner)
		}
		says(w.do("trigger"), ", and got this task.")
		says(w.do("backfill?from=2026-01-02+00:00&to=2026-01-02+05:00"), "5 tasks were created at ")
		made, err := w.control.ListTasks(w.ctx, me, control.TaskFilter{Namespace: "default", Schedule: "a"}, 100, "")
		if err != nil || len(made.Tasks) != 6 {
			t.Errorf("%d tasks, %v", len(made.Tasks), err)
		}
		w.pass(time.Second)
		says(w.get("/schedules/default/a/trigger").text, "This cannot be done now:")
		says(w.do("delete?tasks=all"), "The schedule was deleted at ")
		if _, err := w.control.GetSchedule(w.ctx, me, "a"); task.CodeOf(err) != schedule.CodeNotFound {
			t.Errorf("it is there: %v", err)
		}
	})
}

// What was shown is what is done: a revision that somebody has put meanwhile is not replaced.
func TestScheduleChange_RollsBackWhatWasShown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.put("a", func(d *schedule.Definition) { d.Owner = "finance" })
		form := w.fill("/schedules/default/a/rollback?revision=1")
		w.put("a", func(d *schedule.Definition) { d.Owner = "growth" })
		got := w.send(http.MethodPost, "/schedules/default/a/rollback", form)
		if got.status != http.StatusPreconditionFailed {
			t.Errorf("status %d", got.status)
		}
		if owner := w.schedule("a").Owner; owner != "growth" {
			t.Errorf("the owner is %q", owner)
		}
	})
}

func TestSchedule_FitsItsBudget(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 60 {
			w.put("schedule-"+itoa(100+i), func(d *schedule.Definition) { d.Description = strings.Repeat("é", 200) })
		}
		w.get("/schedules")
		before := w.calls.Load()
		page := w.get("/schedules").text
		if len(page) > sizeLimit {
			t.Errorf("the list has %d bytes", len(page))
		}
		if n := w.calls.Load() - before; n > 8 {
			t.Errorf("the list takes %d calls to Redis", n)
		}
		if !strings.Contains(page, "schedule-139") || strings.Contains(page, "schedule-140") {
			t.Error("the first page does not have 40 schedules")
		}
		next := regexp.MustCompile(`href="(\?cursor=[^"]+)"`).FindStringSubmatch(page)
		if next == nil || !strings.Contains(w.get("/schedules"+next[1]).text, "schedule-159") {
			t.Errorf("the next page is %v", next)
		}
	})
}

// What needs somebody comes before that nothing is to do.
func TestOverview_SaysReasonsFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", func(d *schedule.Definition) { d.PauseOnFailure = 1 })
		w.tick(map[string]task.State{"a": task.Failed})
		w.get("/") // from now on it is known what holds
		w.pass(3 * time.Hour)
		if page := w.get("/").text; !strings.Contains(page, "One thing needs somebody") {
			t.Errorf("the overview says\n%s", page)
		}
	})
}

// A tick whose time has come is not said to come, and what failed shows among the days at once.
func TestSchedule_SaysThatATickIsDue(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", nil)
		w.pass(time.Hour + 3*time.Second)
		w.expect("/schedules/default/hourly", "A tick is due, and is not decided yet. It was due", `id="days" data-live`)
	})
}

// Runs that took no time have ended, too.
func TestSchedule_SaysThatRunsHaveEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		const none, took = "No run has ended yet.", "at most 0 ms."
		w.put("hourly", nil)
		w.expect("/schedules/default/hourly", none)
		w.expect("/schedules/default/hourly", "The first tick comes", "</time>.</span>",
			"once: one run makes up for all of them")
		run, err := w.control.TriggerSchedule(w.ctx, me, "hourly")
		testkit.Must(t, err)
		w.run(w.ref(run.TaskID("hourly")), 0, task.Succeeded, "", "")
		w.pass(time.Second)
		w.expect("/schedules/default/hourly", took, "v-1.0")
		w.expectNot("/schedules/default/hourly", none)
	})
}
