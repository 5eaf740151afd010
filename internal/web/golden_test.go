package web

import (
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// update has the tests write the pages into testdata/golden.
var update = flag.Bool("update", false, "write the pages into testdata/golden")

// page compares a page with the file testdata/golden/NAME.html.
func (w *world) page(name, path string, want int) {
	w.t.Helper()
	answer := w.get(path)
	if answer.status != want {
		w.t.Errorf("%s: status %d, want %d", path, answer.status, want)
	}
	w.compare(name, answer)
}

// compare compares an answer with the file testdata/golden/NAME.html.
func (w *world) compare(name string, answer answer) {
	w.t.Helper()
	if kind := answer.header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
		w.t.Errorf("%s: %s", name, kind)
	}
	if size := len(answer.text); size > sizeLimit {
		w.t.Errorf("%s has %d bytes, more than %d", name, size, sizeLimit)
	}
	got := plain(answer.text)
	file := filepath.Join("testdata", "golden", name+".html")
	if *update {
		testkit.Must(w.t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(kept), "\n"), strings.Split(got, "\n")); diff != "" {
		w.t.Errorf("the page differs from %s (go test ./internal/web -update writes it):\n%s", file, diff)
	}
}

// sizeLimit is how many bytes a page may have.
const sizeLimit = 80 << 10

// The pages of an installation in which nothing happened, by its name.
func TestGolden_Empty(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pass(2 * time.Second)
		w.pack()
		w.page("overview-empty", "/", http.StatusOK)
		w.page("tasks-empty", "/tasks", http.StatusOK)
		w.page("not-found", "/nowhere", http.StatusNotFound)
		w.page("task-not-found", "/tasks/default/nobody", http.StatusNotFound)
	})
}

// Who has nothing yet, or asks for what is not there, is led on.
func TestEmpty_LeadsOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pass(2 * time.Second)
		w.pack()
		w.expect("/", `href="/schedules/new">New schedule</a>`, `href="/submit">Submit a task</a>`)
		w.expect("/tasks", `There are no tasks yet. <a href="/submit">Submit a task</a>`)
		w.expectNot("/tasks", "No task matches.")
		w.expect("/tasks?queue=low", "No task matches.")
		w.expect("/tasks/default/nobody", "Tasks are forgotten some time after their end.", `<a href="/tasks">All tasks</a>`)
		w.expectNot("/schedules/default/nobody", "Tasks are forgotten")
		w.submit("waits", func(d *task.Definition) { d.Queue = "low" })
		w.claim(0)
		w.expect("/queues/low", "From due to begun.")
		w.expectNot("/queues/low", "Most: 0 ms")
		w.get("/prefer/language/zh")
		for _, path := range []string{"/nowhere", "/tasks/default/nobody", "/schedules/default/nobody"} {
			w.expect(path, `data-live>这里什么都没有 · DTS</title>`)
		}
	})
}

func TestGolden_Well(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", nil)
		w.run(w.submit("order-1", nil), 1200*time.Millisecond, task.Succeeded, `{"status":200}`, "")
		w.run(w.submit("order-2", nil), 300*time.Millisecond, task.Failed, "", "HTTP 503: the service is busy")
		w.begin(w.submit("order-3", nil))
		w.pass(70 * time.Second)
		w.pack()
		w.page("overview-well", "/", http.StatusOK)
		w.page("tasks", "/tasks", http.StatusOK)
		w.page("tasks-filtered", "/tasks?state=failed&label=order%3D4711&namespace=default", http.StatusOK)
		w.page("tasks-wrong", "/tasks?since=yesterday", http.StatusOK)
		w.get("/prefer/language/zh")
		w.page("overview-zh", "/", http.StatusOK)
	})
}

func TestGolden_WithReasons(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("nightly", func(d *schedule.Definition) { d.Description = "orders of the day" })
		_, err := w.control.PauseSchedule(w.ctx, me, "nightly", "for the holidays")
		testkit.Must(t, err)
		w.submit("report-1", func(d *task.Definition) { d.Queue = "reports" })
		w.nodes[0].Partitions = []int{0}
		w.nodes = append(w.nodes, cluster.Node{
			ID: "node-b", State: cluster.StateDead, Roles: []string{"scheduler"}, LastBeat: start.Add(-time.Minute),
			StartedAt: start.Add(-time.Hour),
		})
		w.claim(0)
		w.get("/") // from now on it is known what holds
		w.pass(2 * time.Minute)
		w.page("overview-reasons", "/", http.StatusOK)
	})
}

func TestGolden_Task(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour })
		runs := w.submit("runs", func(d *task.Definition) { d.Type, d.Payload = "shell", []byte(`{"command":"make"}`) })
		run := w.begin(runs)
		lines := []tasks.Line{{Stream: "stdout", Text: "make: all"}, {Stream: "stderr", Text: "warning"}}
		testkit.Must(t, run.Log(w.ctx, 1, lines))
		testkit.Must(t, run.Progress(w.ctx, 40, "compiles"))
		w.run(w.submit("succeeded", nil), 1200*time.Millisecond, task.Succeeded, `{"status":200}`, "")
		w.run(w.submit("failed", nil), 300*time.Millisecond, task.Failed, "", "HTTP 503: the service is busy")
		again := w.begin(w.submit("again", nil))
		testkit.Must(t, again.Reattempt(w.ctx, time.Hour, task.OutcomeTimeout, "took longer than 30s"))
		snoozed := w.begin(w.submit("snoozed", nil))
		testkit.Must(t, snoozed.Reattempt(w.ctx, time.Hour, task.OutcomeSnoozed, "snoozed for 1h0m0s"))
		w.pass(2 * time.Second)
		for _, name := range []string{"waits", "runs", "succeeded", "failed", "again", "snoozed"} {
			w.page("task-"+name, "/tasks/default/"+name, http.StatusOK)
		}
	})
}

func TestGolden_Bulk(t *testing.T) {
	inWorld(t, func(w *world) {
		w.run(w.submit("failed", nil), 300*time.Millisecond, task.Failed, "", "HTTP 503: the service is busy")
		w.bulk("moving", bulks.Running, 3)
		w.bulk("stopped", bulks.Stopped, 4)
		w.pass(2 * time.Second)
		w.page("bulks", "/bulk", http.StatusOK)
		w.page("bulk", "/bulk/moving", http.StatusOK)
		w.page("bulk-stopped", "/bulk/stopped", http.StatusOK)
		w.page("bulk_ask", "/bulk/new/retry?state=failed", http.StatusOK)
		w.page("bulk_ask-requeue", "/bulk/new/requeue?state=scheduled", http.StatusOK)
		w.page("bulk_ask-none", "/bulk/new/forget?state=succeeded&queue=none", http.StatusOK)
		w.page("bulk_ask-wrong", "/bulk/new/retry?state=running", http.StatusOK)
		w.page("bulk_ask-unknown", "/bulk/new/anything", http.StatusNotFound)
	})
}

// What a bulk action changes is what its preview has shown, though "two hours ago" is another time by now.
func TestBulk_ChangesWhatItsPreviewShowed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.failed("old")
		w.pass(90 * time.Minute)
		w.failed("new")
		w.pass(time.Minute)
		w.pack()
		const address = "/bulk/new/retry?state=failed&since=2h"
		page := w.get(address).text
		asOf := regexp.MustCompile(`name="as_of" value="([^"]*)"`).FindStringSubmatch(page)
		if asOf == nil || !strings.Contains(page, "Retry 2 tasks") {
			t.Fatalf("the preview has no time, or other tasks:\n%s", page)
		}
		form := w.form(address)
		if got := w.send(http.MethodPost, address, form); got.status != http.StatusBadRequest {
			t.Errorf("without the time of the preview: status %d", got.status)
		}
		form = w.form(address)
		form.Set("as_of", asOf[1])
		w.pass(time.Hour)
		if got := w.send(http.MethodPost, address, form); got.status != http.StatusSeeOther {
			t.Fatalf("status %d: %s", got.status, got.text)
		}
		all, err := w.control.ListBulks(w.ctx, control.Caller{Namespace: control.EveryNamespace})
		testkit.Must(t, err)
		if len(all) != 1 || all[0].Total != 2 {
			t.Errorf("it has begun %+v", all)
		}
	})
}

// pack packs the index of lists.
func (w *world) pack() {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		packer := w.store.Listing.Packer(p, fence)
		for more := true; more; {
			var err error
			more, err = packer.Pack(w.ctx)
			testkit.Must(w.t, err)
		}
	}
}

func TestGolden_RedisAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		w.redis.Close()
		w.page("redis-away", "/tasks/default/a", http.StatusServiceUnavailable)
	})
}

// A page that no other test compares is compared as its example shows it.
func TestGolden_HasEachPage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy()
		for _, p := range pages {
			if !comparedElsewhere(p.name) {
				w.page(p.name+exampleOfPage, p.address(), http.StatusOK)
			}
		}
	})
}

// exampleOfPage ends the names of files that have the examples of pages.
const exampleOfPage = "-example"

// comparedElsewhere reports whether a page has a file other than that of its example.
func comparedElsewhere(name string) bool {
	for _, pattern := range []string{name + ".html", name + "-*.html"} {
		files, _ := filepath.Glob(filepath.Join("testdata", "golden", pattern))
		if slices.ContainsFunc(files, func(file string) bool { return !strings.HasSuffix(file, exampleOfPage+".html") }) {
			return true
		}
	}
	return false
}
