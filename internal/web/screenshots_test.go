package web

import (
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The pictures in docs/images show a shop's installation that has run for 90 days of virtual time. Its ids and times
// are the same each time. `make screenshots` runs this test to write pages; test/page then photographs them.

// pictured is when the pages are made: a moment before a clock change that a schedule meets.
var pictured = time.Date(2026, time.October, 22, 14, 5, 20, 0, time.UTC)

// scene is a world whose schedules tick, and whose tasks end as told.
type scene struct {
	*world
	plots   map[string]plot
	runs    map[string]int    // how many runs of a schedule have begun
	newest  map[string]string // the newest tick of a schedule that was looked at
	running []acting
	drawn   *rand.Rand
	orders  int
	down    [2]time.Time // from when to when no node is there
}

// plot says how long the nth run of a schedule takes, and why it fails: "" if it succeeds.
type plot func(n int) (took time.Duration, reason string)

// acting is a run that ends at a time.
type acting struct {
	*tasks.Run
	ends   time.Time
	reason string
}

// failing fails in the runs of these numbers.
func failing(reason string, typical time.Duration, runs ...int) plot {
	return func(n int) (time.Duration, string) {
		took := typical + typical/8*time.Duration((n*5)%7) + typical/3*time.Duration((n*n)%3)
		if slices.Contains(runs, n) {
			return took / 2, reason
		}
		return took, ""
	}
}

// add puts a schedule of tasks of type shell, whose runs follow a plot.
func (s *scene) add(id, cron, command string, p plot, change func(*schedule.Definition)) {
	s.t.Helper()
	s.plots[id] = p
	s.put(id, func(d *schedule.Definition) {
		d.Rules, d.Misfire.Policy = []schedule.Rule{{Cron: cron}}, schedule.MisfireSkip
		d.Task.Type, d.Task.Payload = "shell", fmt.Appendf(nil, `{"command":[%q]}`, command)
		change(d)
	})
}

// until lets the time pass to an end. Ticks fire, and runs begin and end, when it is time for them.
func (s *scene) until(end time.Time) {
	s.t.Helper()
	for {
		at := end
		if tick := s.nextTick(); tick.Before(at) {
			at = tick
		}
		for _, r := range s.running {
			if r.ends.Before(at) {
				at = r.ends
			}
		}
		s.pass(clock.Until(at))
		if !at.Before(end) {
			return
		}
		s.finish()
		s.lag()
		s.fire()
		s.start()
	}
}

// lag lets as little time pass as a fleet needs to begin what is due.
func (s *scene) lag() { s.pass(time.Duration(2+s.drawn.ExpFloat64()*4) * time.Millisecond) }

// nextTick is when leaders next look at a tick.
func (s *scene) nextTick() time.Time {
	s.t.Helper()
	next, err := s.control.NextTicks(s.ctx, me, 1)
	testkit.Must(s.t, err)
	if len(next.Ticks) == 0 {
		return pictured
	}
	tick := next.Ticks[0].Tick
	if tick.After(s.down[0]) && tick.Before(s.down[1]) {
		return s.down[1]
	}
	return tick
}

// finish ends the runs whose time has come.
func (s *scene) finish() {
	s.t.Helper()
	s.running = slices.DeleteFunc(s.running, func(r acting) bool {
		if r.ends.After(clock.Now()) {
			return false
		}
		state, outcome := task.Succeeded, task.OutcomeSucceeded
		if r.reason != "" {
			state, outcome = task.Failed, task.OutcomeFailed
		}
		testkit.Must(s.t, r.Finish(s.ctx, state, outcome, "", r.reason))
		return true
	})
}

// start begins the runs of new ticks.
func (s *scene) start() {
	s.t.Helper()
	for _, id := range slices.Sorted(maps.Keys(s.plots)) {
		recent := s.schedule(id).Recent
		if len(recent) == 0 || recent[len(recent)-1].Name == s.newest[id] {
			continue
		}
		tick := recent[len(recent)-1]
		s.newest[id] = tick.Name
		if !tick.HasTask {
			continue
		}
		took, reason := s.plots[id](s.runs[id])
		s.runs[id]++
		run := s.beginOn(s.runs[id], task.Ref{Namespace: "default", ID: id + "@" + tick.Name}, 1)[0]
		s.running = append(s.running, acting{run, clock.Now().Add(took), reason})
	}
}

// beginOn begins an attempt of some tasks, on one of two nodes.
func (s *scene) beginOn(node int, ref task.Ref, attempt int, more ...task.Ref) (all []*tasks.Run) {
	s.t.Helper()
	s.claim(1000)
	name := []string{"node-a", "node-b"}[node%2]
	var starts []tasks.Start
	for _, ref := range append([]task.Ref{ref}, more...) {
		starts = append(starts, tasks.Start{Ref: ref, Attempt: attempt, Run: name + "#run1"})
	}
	for _, begun := range s.store.Tasks.BeginEach(s.ctx, tasks.Runner{Node: name, Lease: time.Hour}, starts) {
		testkit.Must(s.t, begun.Err)
		s.tally.Begun(begun.Run.Task.Queue, clock.Now().Sub(begun.Run.Task.DueAt))
		all = append(all, begun.Run)
	}
	return all
}

// order runs some tasks that a shop submits. One in thirty fails.
func (s *scene) order(n int) {
	s.t.Helper()
	var refs []task.Ref
	for range n {
		s.orders++
		refs = append(refs, s.submit(fmt.Sprintf("order-%d", 88000+s.orders), nil))
	}
	s.lag()
	runs := s.beginOn(n, refs[0], 1, refs[1:]...)
	s.pass(240 * time.Millisecond)
	var ends []tasks.End
	for _, run := range runs {
		end := tasks.End{Run: run, State: task.Succeeded, Outcome: task.OutcomeSucceeded, Result: `{"status":200}`}
		if s.drawn.IntN(30) == 0 {
			end.State, end.Outcome, end.Reason = task.Failed, task.OutcomeFailed, "HTTP 503: the payment service is busy"
		}
		ends = append(ends, end)
	}
	for _, err := range s.store.Tasks.FinishEach(s.ctx, ends) {
		testkit.Must(s.t, err)
	}
}

// long begins a task that still runs in the pictures.
func (s *scene) long(node int, id string, percent int, note string) {
	s.t.Helper()
	ref := s.submit(id, func(d *task.Definition) { d.Type, d.Payload = "shell", []byte(`{"command":["make","all"]}`) })
	s.lag()
	run := s.beginOn(node, ref, 1)[0]
	if percent > 0 {
		testkit.Must(s.t, run.Progress(s.ctx, percent, note))
	}
}

// export is a task that fails three times, for three reasons.
func (s *scene) export() {
	s.t.Helper()
	ref := s.submit("export-orders-2026-10-21", func(d *task.Definition) {
		d.Type, d.Owner, d.Labels = "shell", "finance", map[string]string{"day": "2026-10-21", "team": "finance"}
		d.Payload = []byte(`{"command":["./export","--day","2026-10-21","--to","/mnt/reports"],"env":{"FORMAT":"parquet"}}`)
		d.Retry.MaxAttempts = 3
	})
	for i, attempt := range []struct {
		took   time.Duration
		reason string
		log    []string
	}{
		{4200 * time.Millisecond, "exit status 2: cannot connect to orders-db: connection refused", []string{
			"connecting to orders-db:5432", "! cannot connect to orders-db: connection refused",
		}},
		{time.Minute, "took longer than 1m0s", []string{
			"connecting to orders-db:5432", "reading orders of 2026-10-21", "2000 of 18412 rows", "4000 of 18412 rows",
		}},
		{31 * time.Second, "exit status 1: no space left on device", []string{
			"connecting to orders-db:5432", "reading orders of 2026-10-21", "6000 of 18412 rows", "12000 of 18412 rows",
			"18412 of 18412 rows", "writing /mnt/reports/orders-2026-10-21.parquet",
			"! write /mnt/reports/orders-2026-10-21.parquet: no space left on device", "! removed the incomplete file",
		}},
	} {
		s.lag()
		run := s.beginOn(i, ref, i+1)[0]
		var lines []tasks.Line
		for _, text := range attempt.log {
			line := tasks.Line{Stream: "stdout", Text: text}
			if warning, is := strings.CutPrefix(text, "! "); is {
				line = tasks.Line{Stream: "stderr", Text: warning}
			}
			lines = append(lines, line)
		}
		testkit.Must(s.t, run.Log(s.ctx, 1, lines))
		s.until(clock.Now().Add(attempt.took))
		switch i {
		case 2:
			testkit.Must(s.t, run.Finish(s.ctx, task.Failed, task.OutcomeFailed, "", attempt.reason))
		default:
			outcome := []task.Outcome{task.OutcomeFailed, task.OutcomeTimeout}[i]
			testkit.Must(s.t, run.Reattempt(s.ctx, 10*time.Second, outcome, attempt.reason))
			s.until(clock.Now().Add(10 * time.Second))
		}
	}
}

// days lets the nightly schedules run for 90 days. On two of them, no node is there.
func (s *scene) days() {
	s.t.Helper()
	s.until(pictured.AddDate(0, 0, -91))
	backup := func(d *schedule.Definition) {
		d.Description, d.Owner, d.Timezone = "dump of the shop's database, to the cold store", "platform", "Europe/Berlin"
		d.Labels, d.PauseOnFailure, d.Exclude = map[string]string{"team": "platform"}, 3, []string{"2026-08-15"}
	}
	p := failing("exit status 1: cold-store: connection reset", 200*time.Second, 11, 38, 39, 72)
	s.add("backup-database", "30 3 * * *", "/usr/local/bin/backup", p, backup)
	s.add("send-digest", "0 7 * * MON", "/usr/local/bin/digest", failing("", 9*time.Second), func(d *schedule.Definition) {
		d.Description, d.Owner, d.Timezone = "the week in numbers, by mail", "marketing", "Europe/Berlin"
	})
	s.down = [2]time.Time{pictured.AddDate(0, 0, -31), pictured.AddDate(0, 0, -29)}
	s.until(pictured.AddDate(0, 0, -24))
	s.add("backup-database", "30 2 * * *", "/usr/local/bin/backup", p, func(d *schedule.Definition) {
		backup(d)
		d.Task.Timeout = 15 * time.Minute
	})
	s.until(pictured.Add(-7 * time.Hour))
}

// today adds schedules that tick more often.
func (s *scene) today() {
	s.t.Helper()
	s.add("close-month", "0 18 LW * *", "/usr/local/bin/close", failing("", time.Minute), func(d *schedule.Definition) {
		d.Description, d.Owner, d.Timezone = "月末结算", "finance", "Asia/Shanghai"
	})
	s.add("import-feed", "*/20 * * * *", "/usr/local/bin/import", failing("exit status 1: no space left on device",
		7*time.Second, 4, 15, 16, 17), func(d *schedule.Definition) {
		d.Description, d.Owner, d.PauseOnFailure = "prices of suppliers", "catalogue", 3
	})
	s.add("refresh-prices", "*/15 * * * *", "/usr/local/bin/prices", failing("HTTP 502: bad gateway", 11*time.Second,
		9, 26, 27), func(d *schedule.Definition) {
		d.Description, d.Owner, d.PauseOnFailure = "prices of the catalogue", "catalogue", 3
	})
	s.add("send-reminders", "0 8-18 * * MON-FRI", "/usr/local/bin/remind", failing("", 20*time.Second),
		func(d *schedule.Definition) {
			d.Description, d.Owner, d.Timezone = "reminders of open baskets ✉️", "marketing", "Europe/Berlin"
		})
	s.until(pictured.Add(-3 * time.Hour))
	s.add("sync-stock", "*/5 * * * *", "/usr/local/bin/stock", failing("exit status 4: warehouse: no route to host",
		80*time.Second, 21), func(d *schedule.Definition) {
		d.Description, d.Owner = "stock of both warehouses", "logistics"
	})
	s.add("warm-cache", "*/2 * * * *", "/usr/local/bin/warm", func(n int) (time.Duration, string) {
		if n%11 == 7 {
			return 150 * time.Second, ""
		}
		return 38 * time.Second, ""
	}, func(d *schedule.Definition) {
		d.Description, d.Overlap = "the pages that customers see first", schedule.OverlapSkip
	})
	s.until(pictured.Add(-100 * time.Minute))
	_, err := s.control.PauseSchedule(s.ctx, me, "send-reminders", "the text is being translated")
	testkit.Must(s.t, err)
	s.until(pictured.Add(-65 * time.Minute))
}

// hour is the last one, in which orders come.
func (s *scene) hour() {
	s.t.Helper()
	for minute := 65; minute > 0; minute-- {
		s.until(pictured.Add(-time.Duration(minute) * time.Minute))
		s.order(6 + s.drawn.IntN(7) + 9*(minute%17)/16)
		switch minute {
		case 42:
			for _, id := range []string{"report-sales", "report-tax", "report-returns"} {
				s.submit(id, func(d *task.Definition) { d.Queue = "reports" })
			}
			s.claim(0)
			testkit.Must(s.t, s.control.PauseQueue(s.ctx, me, "reports", "month-end close"))
		case 37:
			s.long(0, "rebuild-search-index", 64, "49,280 of 77,000 products")
		case 21:
			s.long(1, "resize-images-autumn", 18, "batch 3 of 17")
		case 12:
			s.export()
		case 6:
			s.long(0, "train-ranking", 0, "")
		}
		s.get("/") // what holds is known since then
	}
	s.until(pictured)
	s.pack()
}

// screenshots are the pages of the pictures, by their names.
func (s *scene) screenshots() map[string]answer {
	const one = "/schedules/default/backup-database"
	text := s.textOf(one + "/edit")
	text = strings.NewReplacer("30 2 * * *", "15 2 * * MON-FRI", "timeout: 15m", "timeout: 20m").Replace(text)
	shots := map[string]answer{
		"overview": s.get("/"), "schedules": s.get("/schedules"), "schedule": s.get(one),
		"task": s.get("/tasks/default/export-orders-2026-10-21"),
		"edit": s.write(one+"/edit", "check", text),
	}
	s.shopRuns() // after the others, which it would change
	const flow = "/workflows/default/shop-etl/edit"
	text = strings.NewReplacer("deadline: 2h", "deadline: 3h", "          - report\n",
		"          - report\n          - check_prices\n").Replace(s.textOf(flow))
	shots["run"], shots["workflow"] = s.get("/runs/default/shop-etl-2026-10-21"), s.write(flow, "check", text)
	return shots
}

// textOf is the text of a page on which one is written.
func (s *scene) textOf(path string) string {
	s.t.Helper()
	return html.UnescapeString(anyText.FindStringSubmatch(s.get(path).text)[1])
}

// shopFlow is the workflow of the pictures.
const shopFlow = `{"description": "what the shop has sold in a day, into the warehouse", "owner": "data",
	"deadline": "2h",
	"params": {"day": {"type": "string", "required": true, "pattern": "[0-9]{4}-[0-9]{2}-[0-9]{2}"}},
	"steps": [
		{"id": "orders", "task": {"type": "shell",
			"payload": {"command": ["./orders"], "env": {"DAY": "${{ params.day }}"}}}},
		{"id": "customers", "task": {"type": "shell", "payload": {"command": ["./customers"]}}},
		{"id": "prices", "task": {"type": "http", "payload": {"url": "https://shop.example/prices"}}},
		{"id": "clean_orders", "needs": ["orders"], "task": {"type": "shell", "payload": {"command": ["./clean"]}}},
		{"id": "merge", "needs": ["customers"], "task": {"type": "shell", "payload": {"command": ["./merge"]}}},
		{"id": "check_prices", "needs": ["prices"], "allow_failure": true, "task": {"type": "http",
			"payload": {"url": "https://shop.example/check"}, "retry": {"max_attempts": 1}}},
		{"id": "size", "needs": ["clean_orders"], "decide": [
			{"when": "steps.clean_orders.output.rows > 1000", "then": ["load_parts"]}, {"then": ["load_all"]}]},
		{"id": "load_parts", "needs": ["size", "merge"], "task": {"type": "shell", "payload": {"command": ["./load", "8"]}}},
		{"id": "load_all", "needs": ["size", "merge"], "task": {"type": "shell", "payload": {"command": ["./load"]}}},
		{"id": "report", "needs": ["load_parts", "load_all"],
			"task": {"type": "shell", "payload": {"command": ["./report"]}}},
		{"id": "mail", "needs": ["report"], "task": {"type": "http", "payload": {"url": "https://mail.example/"}}}],
	"on_failure": [{"id": "alarm", "task": {"type": "http", "payload": {"url": "https://pager.example/"}}}],
	"finally": [{"id": "tidy", "task": {"type": "shell", "payload": {"command": ["rm", "-r", "/tmp/etl"]}}}]}`

// shopRuns has a run with some steps that have ended.
func (s *scene) shopRuns() {
	s.t.Helper()
	s.putFlow("shop-etl", shopFlow)
	ref := s.startWorkflow("shop-etl-2026-10-21", "shop-etl", `{"day": "2026-10-21"}`)
	begin := func(ids ...string) (runs []*tasks.Run) {
		s.lag()
		for i, id := range ids {
			runs = append(runs, s.beginOn(i, ref.Step(id), 1)[0])
		}
		return runs
	}
	end := func(run *tasks.Run, after time.Duration, state task.State, result, reason string) {
		s.until(clock.Now().Add(after))
		testkit.Must(s.t, run.Finish(s.ctx, state, task.Outcome(state), result, reason))
		s.plan(ref, false)
	}
	first := begin("orders", "customers", "prices")
	end(first[2], 2300*time.Millisecond, task.Succeeded, `{"prices":2210}`, "")
	check := begin("check_prices")[0]
	end(check, 900*time.Millisecond, task.Failed, "", "HTTP 422: 3 prices are below 0")
	end(first[0], 38*time.Second, task.Succeeded, `{"rows":18412}`, "")
	clean := begin("clean_orders")[0]
	end(first[1], 14*time.Second, task.Succeeded, `{"rows":9120}`, "")
	begin("merge")
	end(clean, 11*time.Second, task.Succeeded, `{"rows":18397}`, "")
	s.until(clock.Now().Add(27 * time.Second))
	s.pack()
}

var (
	anyAsset = regexp.MustCompile(`"(/assets/[^"]+)"`)
	anyText  = regexp.MustCompile(`(?s)<textarea[^>]*>\n(.*)</textarea>`)
)

func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("`make screenshots` runs it")
	}
	inWorld(t, func(w *world) {
		s := &scene{
			world: w, plots: map[string]plot{}, runs: map[string]int{}, newest: map[string]string{},
			drawn: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // the same each time
		}
		node := &s.nodes[0]
		node.Host, node.Capacity, node.Running, node.Partitions = "vm-a", 12, 3, []int{0}
		node.Queues = map[string]int{"critical": 6, "default": 3, "low": 1, "reports": 1}
		s.nodes = append(s.nodes, cluster.Node{
			ID: "node-b", Host: "vm-b", State: cluster.StateAlive, Roles: node.Roles, Capacity: 12, Running: 2, Tasks: 2,
			Partitions: []int{1}, Queues: node.Queues, Types: node.Types,
		})
		s.days()
		s.today()
		s.hour()
		files := map[string]string{}
		for name, answer := range s.screenshots() {
			if answer.status != http.StatusOK {
				t.Errorf("%s: status %d: %s", name, answer.status, answer.text)
			}
			files[name] = answer.text
			for _, link := range anyAsset.FindAllStringSubmatch(answer.text, -1) {
				files[link[1]] = s.get(link[1]).text
			}
		}
		for name, text := range files {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, url.PathEscape(name)), []byte(text), 0o600))
		}
	})
}
