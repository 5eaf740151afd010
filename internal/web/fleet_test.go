package web

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/text/language"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// troubled is a fleet in which something needs somebody: a queue without a worker, one that is paused, a node that has
// died, one that drains, and a worker by HTTP.
func (w *world) troubled() {
	w.t.Helper()
	w.submit("report-1", func(d *task.Definition) { d.Queue = "reports" })
	w.submit("mail-1", func(d *task.Definition) { d.Queue = "mails" })
	w.submit("order-1", nil)
	w.nodes[0].Queues["mails"], w.nodes[0].Version, w.nodes[0].IP = 2, "1.0.0", "192.0.2.1"
	w.nodes[0].Name, w.nodes[0].Labels = "web-1", config.Labels{"zone": "eu", "gpu": "2", "spot": ""}
	w.nodes[0].Machine = &cluster.Machine{
		CPU: new(0.42), Load: new(1.5), Memory: &cluster.Space{Used: 3 << 30, Total: 8 << 30},
		Disk: &cluster.Space{Used: 20 << 30, Total: 50 << 30}, Network: &cluster.Traffic{Received: 2 << 20, Sent: 300},
	}
	w.nodes = append(
		w.nodes,
		cluster.Node{
			ID: "node-b", State: cluster.StateDead, Roles: []string{"scheduler"}, Version: "1.0.0",
			LastBeat: start.Add(-time.Minute), StartedAt: start.Add(-time.Hour),
		},
		cluster.Node{
			ID: "node-c", State: cluster.StateDraining, Roles: []string{"worker"}, Version: "0.9.3", Capacity: 4, Running: 2,
			Tasks:  2,
			Queues: map[string]int{"default": 1}, LastBeat: start, StartedAt: start,
		},
		cluster.Node{
			ID: "pdf-1", Name: "pdf-1", State: cluster.StateAlive, Roles: []string{"worker"}, Via: "node-a", Capacity: 8,
			Machine: &cluster.Machine{Load: new(0.0)},
			Queues:  map[string]int{"default": 1},
		},
		cluster.Node{
			ID: "vm-7", Name: "vm-7", State: cluster.StateAlive, Roles: []string{"worker"}, Version: "1.0.0",
			Capacity: 4, Running: 1, Queues: map[string]int{}, Cordon: &cluster.Cordon{
				Of: "vm-7", By: "ann", Note: "a new kernel", Since: start, Until: start.Add(time.Hour),
				Queues: map[string]int{"default": 1},
			},
		},
		cluster.Node{
			ID: "vm-8", Name: "vm-8", State: cluster.StateAlive, Roles: []string{"worker"}, Version: "1.0.0",
			Capacity: 4, Running: 2, Tasks: 1, Queues: map[string]int{}, Cordon: &cluster.Cordon{
				Of: "vm-8", By: "ann", Note: strings.Repeat("its disk is being replaced ", 4), Since: start, Drain: true,
			},
		},
	)
	w.claim(0)
	testkit.Must(w.t, w.control.PauseQueue(w.ctx, me, "mails", "month-end close"))
	testkit.Must(w.t, w.control.SetQueueCapacity(w.ctx, me, "default", 50))
	w.get("/queues") // from now on it is known what holds
	w.pass(2 * time.Minute)
}

func TestGolden_Fleet(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pass(2 * time.Second)
		w.page("queues-empty", "/queues", http.StatusOK)
		w.page("doctor-asked", "/doctor", http.StatusOK)
		w.page("forecast-empty", "/forecast", http.StatusOK)
		w.troubled()
		w.page("queues", "/queues", http.StatusOK)
		w.page("queue-unserved", "/queues/reports", http.StatusOK)
		w.page("queue-paused", "/queues/mails", http.StatusOK)
		w.page("queue-served", "/queues/default", http.StatusOK)
		w.page("queue-not-found", "/queues/nobody", http.StatusNotFound)
		w.page("nodes", "/nodes", http.StatusOK)
		w.page("doctor", "/doctor/run", http.StatusOK)
	})
}

// A node that is drained says how many tasks it has left, and when it has none. Its free slots count nowhere.
func TestNodes_ShowDrains(t *testing.T) {
	inWorld(t, func(w *world) {
		drained := cluster.Node{
			ID: "node-b", State: cluster.StateAlive, Roles: []string{"worker"}, Capacity: 5, Running: 3, Tasks: 2,
			Queues: map[string]int{"default": 1},
		}
		w.nodes = append(w.nodes, drained)
		w.pass(time.Minute)
		w.expectDone("/nodes/cordon", w.fill("/nodes", "node", "node-b", "drain", "true"), "/nodes?said=node-drained")
		w.pass(2 * time.Minute)
		w.expect("/nodes", "One of them drains.", `<span class="w">draining</span>`, "2 tasks left", "node-b is drained: it",
			`3 <small>of 13 in use`, "Of cordoned nodes, only slots in use count.")
		w.expect("/", "<small>of 13 slots")
		w.expectNot("/nodes", "cordoned: they take")
		w.nodes[1].Tasks = 0
		w.expect("/nodes", `<span class="w">draining</span>`, "0 tasks left") // it may begin one that it has taken
		w.nodes[1].Cordon.Obeyed = true
		w.expect("/nodes", `<span class="w">drained</span>`)
		w.expectNot("/nodes", "tasks left")
	})
}

func TestGolden_Forecast(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
			w.put(id, func(d *schedule.Definition) { d.Rules = []schedule.Rule{{Cron: "0 1 * * *"}} })
		}
		w.put("hourly", func(d *schedule.Definition) { d.Rules = []schedule.Rule{{Cron: "30 * * * *"}} })
		w.submit("later", func(d *task.Definition) { d.Delay = time.Hour })
		w.pass(2 * time.Second)
		w.page("forecast", "/forecast", http.StatusOK)
		w.page("forecast-short", "/forecast?hours=6&namespace=other", http.StatusOK)
	})
}

func TestGolden_Submit(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", func(d *task.Definition) { d.Queue, d.Retry.MaxAttempts, d.Timeout = "reports", 3, time.Minute })
		w.submit("b", func(d *task.Definition) { d.Payload = []byte(`{"url":"http://localhost/a","new":true}`) })
		w.pass(2 * time.Second)
		w.page("submit", "/submit", http.StatusOK)
		w.page("submit-shell", "/submit?type=shell", http.StatusOK)
		w.page("submit-other", "/submit?type=other", http.StatusOK)
		w.page("submit-copy", "/submit?from=default/a", http.StatusOK)
		w.page("submit-copy-json", "/submit?from=default/b", http.StatusOK)
	})
}

// typed is a form of a page with some fields filled in.
func (w *world) typed(page string, fields ...string) url.Values {
	w.t.Helper()
	form := w.form(page)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

// expectDone checks that a form leads to a page.
func (w *world) expectDone(path string, form url.Values, to string) {
	w.t.Helper()
	got := w.send(http.MethodPost, path, form)
	if got.status != http.StatusSeeOther || got.leadsTo() != to {
		w.t.Fatalf("%s: %d to %q, want %q\n%s", path, got.status, got.header.Get("Location"), to, got.text)
	}
}

// expectRefused checks that a form is shown again, with all of some texts.
func (w *world) expectRefused(path string, form url.Values, texts ...string) {
	w.t.Helper()
	got := w.send(http.MethodPost, path, form)
	if got.status != http.StatusBadRequest {
		w.t.Fatalf("%s: %d, want 400", path, got.status)
	}
	for _, text := range texts {
		if !strings.Contains(got.text, text) {
			w.t.Errorf("%s: the page lacks %q:\n%s", path, text, got.text)
		}
	}
}

func (w *world) queue(name string) control.QueueInfo {
	w.t.Helper()
	all, err := w.control.ListQueues(w.ctx, me)
	testkit.Must(w.t, err)
	i := slices.IndexFunc(all, func(q control.QueueInfo) bool { return q.Name == name })
	if i < 0 {
		w.t.Fatalf("no queue %s among %+v", name, all)
	}
	return all[i]
}

func TestQueue_IsSteered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		w.claim(0)
		w.expectRefused("/queues/default/pause", w.typed("/queues/default", "note", "two\nlines"),
			`class="panel open" id="pause"`, `aria-invalid="true"`, "write one line of text")
		paused := w.typed("/queues/default", "note", "month-end close")
		w.expectDone("/queues/default/pause", paused, "/queues/default?said=queue-paused")
		if q := w.queue("default"); !q.Paused || q.PauseNote != "month-end close" {
			t.Errorf("it is not paused: %+v", q)
		}
		if text := w.get("/queues/default").text; strings.Contains(text, `id="pause"`) {
			t.Error("a paused queue can be paused")
		}
		w.expectDone("/queues/default/resume", w.form("/queues/default"), "/queues/default?said=queue-resumed")
		w.expectRefused("/queues/default/capacity", w.typed("/queues/default", "capacity", "ten"),
			`class="panel open" id="capacity"`, `value="ten"`, "from 0 to 100,000,000; 0 for any number of tasks")
		limited := w.typed("/queues/default", "capacity", "10")
		w.expectDone("/queues/default/capacity", limited, "/queues/default?said=queue-capacity")
		if q := w.queue("default"); q.Paused || q.Capacity != 10 {
			t.Errorf("it has another capacity: %+v", q)
		}
		lifted := w.typed("/queues/default", "do", "lift")
		w.expectDone("/queues/default/capacity", lifted, "/queues/default?said=queue-no-capacity")
		if q := w.queue("default"); q.Capacity != 0 {
			t.Errorf("it still has a capacity: %+v", q)
		}
		for _, lines := range [][2]string{{"5", "queue-capacity"}, {"0", "queue-no-capacity"}} {
			form := w.typed("/queues/default", "capacity", lines[0])
			w.expectDone("/queues/default/capacity", form, "/queues/default?said="+lines[1])
		}
		if q := w.queue("default"); q.Capacity != 0 {
			t.Errorf("0 is no capacity: %+v", q)
		}
	})
}

func TestQueueStateOf(t *testing.T) {
	t.Parallel()
	reason := func(code status.Code) []status.Reason { return []status.Reason{{Code: code, Kind: "queue", ID: "q"}} }
	worker := cluster.Node{
		ID: "a", State: cluster.StateAlive, Roles: []string{"worker"}, Queues: map[string]int{"q": 1}, Capacity: 4,
	}
	draining, dead, scheduler := worker, worker, worker
	draining.State, dead.State, scheduler.Roles = cluster.StateDraining, cluster.StateDead, []string{"scheduler"}
	type info = control.QueueInfo
	here, away := []cluster.Node{worker}, []cluster.Node{draining, dead, scheduler}
	for _, c := range []struct {
		what    string
		queue   func(*info)
		nodes   []cluster.Node
		reasons []status.Reason
		want    queueState
		needs   bool
	}{
		{"nothing waits, nobody serves", func(*info) {}, nil, nil, queueIdle, false},
		{"nobody serves", func(q *info) { q.Waiting = 1 }, nil, nil, queueUnserved, true},
		{"others only", func(q *info) { q.Pending = 1 }, away, nil, queueUnserved, true},
		{"asynq serves", func(q *info) { q.Pending, q.Foreign = 1, 5 }, nil, nil, queueForeign, false},
		{"asynq's client", func(q *info) { q.Pending, q.OfAsynq = 1, true }, away, nil, queueAsynqs, true},
		{"its server", func(q *info) { q.Pending, q.OfAsynq, q.Foreign = 1, true, 5 }, nil, nil, queueForeign, false},
		{"its queue, and ours", func(q *info) { q.Waiting, q.OfAsynq = 1, true }, nil, nil, queueUnserved, true},
		{"served", func(q *info) { q.Pending = 1 }, here, nil, queueServed, false},
		{"paused and empty", func(q *info) { q.Paused = true }, here, nil, queuePaused, false},
		{"paused", func(q *info) { q.Paused, q.Waiting = true, 1 }, here, nil, queuePaused, true},
		{"full", func(q *info) { q.Waiting, q.Pending, q.Capacity = 3, 2, 5 }, here, nil, queueFull, true},
		{"room", func(q *info) { q.Waiting, q.Capacity = 4, 5 }, here, nil, queueServed, false},
		{"late", func(q *info) { q.Waiting = 1 }, here, reason(status.Late), queueLate, true},
		{"slots", func(q *info) { q.Waiting = 1 }, here, reason(status.SlotsTaken), queueTaken, true},
		{"type", func(q *info) { q.Waiting = 1 }, here, reason(status.TypeUnserved), queueUnrun, true},
	} {
		q := control.QueueInfo{}
		q.Name = "q"
		c.queue(&q)
		if got := rowOf(q, c.nodes, c.reasons); got.State != c.want || got.NeedsSomebody() != c.needs {
			t.Errorf("%s: %d, needs somebody: %t; want %d, %t", c.what, got.State, got.NeedsSomebody(), c.want, c.needs)
		}
	}
}

// A queue that only asynq's own servers serve is shown, and can be neither paused nor given a capacity.
func TestQueues_OfAsynqAreOnlyRead(t *testing.T) {
	t.Parallel()
	site := &Site{templates: map[string]*template.Template{}}
	testkit.Must(t, site.parse())
	q := control.QueueInfo{Foreign: 10}
	q.Name, q.Pending, q.Size, q.Archived = "emails", 2, 7, 3
	row := rowOf(q, nil, nil)
	reader := &visit{printer: newPrinter(language.English), zone: time.UTC}
	shown := &view{visit: reader, Data: queueList{Foreign: []queueRow{row}}}
	var text bytes.Buffer
	testkit.Must(t, site.templates["queues"].ExecuteTemplate(&text, "rows", shown))
	for _, want := range []string{"Queues of asynq", "emails", "of 10", ">5<"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "Pause…") || (oneQueue{queueRow: row, Known: true}).CanSteer() {
		t.Error("it can be steered")
	}
}

// Workers of DTS would archive what another asynq client has put into its queue: nobody is told to start one.
func TestQueue_OfAnotherClientHasNoAdviceToServeIt(t *testing.T) {
	inWorld(t, func(w *world) {
		other := asynq.NewClientFromRedisClient(w.db.UniversalClient)
		_, err := other.Enqueue(asynq.NewTask("mail", nil), asynq.Queue("mailer"))
		testkit.Must(t, err)
		w.get("/") // from now on it is known what holds
		w.pass(2 * time.Minute)
		w.expect("/queues/mailer", "Another asynq client uses it", "it would archive these tasks", "It is a queue of asynq")
		w.expect("/queues", "Queues of asynq", "no server of asynq", "has no server of asynq")
		w.expect("/", "which another asynq client uses", "it would archive these tasks")
		for _, path := range []string{"/queues/mailer", "/queues", "/"} {
			for _, word := range []string{"dtsd serve", "Pause…", "Capacity…"} {
				w.expectNot(path, word)
			}
		}
		_, err = other.Enqueue(asynq.NewTask("mail", nil), asynq.Queue("later"), asynq.ProcessIn(time.Hour))
		testkit.Must(t, err)
		w.expect("/queues/later", "Another asynq client uses it", "It is a queue of asynq")
		for _, word := range []string{"dtsd serve", "Pause…", "Capacity…"} { // also while nothing waits
			w.expectNot("/queues/later", word)
		}
		w.submit("a", func(d *task.Definition) { d.Queue = "mailer" })
		w.claim(0)
		w.expect("/queues/mailer", "dtsd serve", "Pause…")
	})
}

func TestShadesOf(t *testing.T) {
	t.Parallel()
	got := shadesOf([]int{1, 1, 0, 100, 10, 10, 10}, 57, 100)
	want := []string{`d="M57 0.5h2"`, "d=\"\"", `d="M1 1.5h3"`, `d=""`, `d="M0 1.5h1"`}
	for i, s := range got {
		if string(s.Path) != want[i] {
			t.Errorf("shade %d: %s, want %s", i+1, s.Path, want[i])
		}
	}
}

// The bar, the title and the headline count the same things, of which the status lists only some.
func TestView_CountsWhatNeedsSomebody(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 60 {
			name := "queue-" + itoa(i)
			w.submit(name, func(d *task.Definition) { d.Queue = name })
		}
		w.claim(0)
		w.get("/") // from now on it is known what holds
		w.pass(2 * time.Minute)
		page := w.get("/").text
		for _, want := range []string{">(60) Overview", "60 things need somebody", `<span class="cnt bad">60<`} {
			if !strings.Contains(page, want) {
				t.Errorf("the overview lacks %q:\n%s", want, page)
			}
		}
	})
}

// A queue to which nobody has submitted anything yet is served by the nodes that take tasks from it.
func TestQueue_NamesWhoServesItBeforeItHasTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.nodes[0].Queues["mails"] = 1
		w.pass(2 * time.Second)
		page := w.get("/queues/mails").text
		if !strings.Contains(page, "Served, and nothing waits") || !strings.Contains(page, `href="/tasks?node=node-a"`) {
			t.Errorf("the page says\n%s", page)
		}
	})
}
