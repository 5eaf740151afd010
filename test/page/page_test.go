package page

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/web"
)

//go:embed testdata/axe.min.js
var axe string

// moreExamples are addresses that the examples of the pages leave out, of an installation that is furnished.
var moreExamples = []string{
	"/tasks?state=failed&label=order%3D4711", "/tasks?since=yesterday", "/tasks/default/failed", "/tasks/default/waits",
	"/bulk/new/retry?state=failed", "/bulk/new/requeue?state=scheduled", "/bulk/new/forget?state=failed&error=x",
	"/submit?type=shell", "/submit?type=other", "/submit?from=default/failed",
	"/queues/reports", "/queues/default#pause", "/queues/default#capacity", "/limits/key:*#pause",
	"/limits/key:shop#set", "/limits/key:shop#delete", "/nodes#cordon", "/forecast?hours=6",
	"/schedules?is=failing&prefix=h", "/schedules?label=team", "/schedules/default/failing?gaps=1",
	"/schedules/default/often/audit", "/schedules/default/hourly/trigger", "/schedules/default/hourly/resume",
	"/schedules/default/hourly/delete", "/schedules/default/often/backfill?from=10m",
	"/schedules/default/hourly/rollback?revision=1", "/find?q=often", "/runs?state=failed&workflow=etl",
	"/runs/default/flow?state=succeeded", "/workflows/default/etl/delete", "/tasks/default/flow@.load",
	"/runs/default/refund",
}

// unanswered are addresses of nothing.
var unanswered = []string{"/nowhere", "/tasks/default/nobody"}

// furnish gives the node something for each page.
func (n *node) furnish() {
	n.t.Helper()
	n.send(http.MethodPut, "/v1/schedules/hourly", fields{
		"cron": "0 * * * *", "description": "orders of the hour",
		"task": fields{"type": "shell", "payload": fields{"command": []string{"true"}}},
	})
	n.send(http.MethodPut, "/v1/schedules/hourly", fields{
		"cron": "5 * * * *", "timezone": "Europe/Berlin",
		"task": fields{"type": "shell", "payload": fields{"command": []string{"true"}}},
	})
	n.send(http.MethodPut, "/v1/schedules/often", fields{
		"every": "1s", "task": fields{"type": "shell", "payload": fields{"command": []string{"sleep", "1.5"}}},
	})
	n.send(http.MethodPut, "/v1/schedules/failing", fields{
		"every": "1s", "pause_on_failure": 1, "task": fields{
			"type": "shell", "payload": fields{"command": []string{"false"}}, "retry": fields{"max_attempts": 1},
		},
	})
	order := fields{"order": "4711"}
	n.shell("runs", "echo begins; echo warns >&2; exec sleep 600", fields{"labels": order, "owner": "ann"})
	n.shell("failed", "echo no disk; exit 3", fields{"labels": order})
	n.shell("waits", "true", fields{"delay": "1h"})
	n.shell("often", "true", fields{"delay": "1h"})
	n.shell("report", "true", fields{"queue": "reports"})
	n.awaitLimits()
	n.send(http.MethodPut, "/v1/limits/key:*", fields{"slots": 5})
	n.send(http.MethodPut, "/v1/limits/queue:reports", fields{"slots": 20, "rate": 100, "per": "1m", "burst": 20})
	n.send(http.MethodPost, "/v1/limits/key:shop/pause", fields{"for": "1h", "note": "their server is down"})
	n.shell("key", "true", fields{"limit_key": "shop,other"})
	n.send(http.MethodPut, "/v1/workflows/etl", etl("/"))
	n.send(http.MethodPost, "/v1/runs", fields{"id": "flow", "workflow": "etl", "params": fields{"day": "2026-11-25"}})
	n.refund("refund")
	n.awaitState("failed", "failed")
	n.awaitState("runs", "running")
	n.awaitState("flow@.load", "running")
}

// look is a way in which a page is looked at.
type look struct {
	width int64
	theme string
}

// looks are a screen by day and a telephone by night; in the long form, also the other way round.
var looks = []look{{1440, "light"}, {390, "dark"}, {1440, "dark"}, {390, "light"}}[:testkit.Amount(2, 4)]

// runAxe is a script that returns what axe-core finds wrong with a page, a sentence for each, given further options.
const runAxe = `axe.run(document, {resultTypes: ["violations"]%s}).then(r => r.violations.flatMap(v =>
	v.nodes.map(n => v.id + ": " + v.help + ": " + n.target + " " + n.html.slice(0, 200))))`

// ofLooks are the rules of axe-core that depend on how a page looks: in the short form, others are checked once a page.
const ofLooks = `, runOnly: ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]`

// Each page can be read by everybody: by axe-core, in two themes and at two widths, and without a fault in the console.
func TestPages_AreInOrder(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.furnish()
	examples := web.Examples()
	delete(examples, "/bulk/:id") // it has the address of one that is started: see examineBulk
	all := slices.Concat(slices.Collect(maps.Values(examples)), moreExamples, unanswered)
	t.Run("each", func(t *testing.T) {
		for part := range slices.Chunk(all, (len(all)+1)/2) { // two tabs at once
			t.Run(part[0], func(t *testing.T) {
				t.Parallel()
				b := n.with(t).openTab()
				for _, path := range part {
					b.examine(path, looks...)
				}
			})
		}
	})
	n.openTab().examineBulk()
	n.workWithoutScript()
}

// examineBulk retries all tasks that failed, from their list, and looks at the page that follows.
func (b *tab) examineBulk() {
	b.t.Helper()
	b.open("/tasks?state=failed&label=order%3D4711")
	b.click(`a[href^="/bulk/new/retry"]`)
	b.await("main", "One task runs again")
	b.click(`main form[method=post] button`)
	b.await(`[role=status].note`, "It was started at ")
	b.await("#progress", "It is done: one task was changed.")
	b.examine(eval[string](b, "location.pathname"), looks...)
}

// examine looks at a page in some ways.
func (b *tab) examine(path string, looks ...look) {
	b.t.Helper()
	b.open(path)
	if !slices.Contains(unanswered, path) { // whose status is told as an error
		b.expectNoProblem(path)
	}
	eval[any](b, axe+"; 0")
	for i, look := range looks {
		rules := ""
		if i > 0 && testkit.Amount(0, 1) == 0 {
			rules = ofLooks
		}
		where := fmt.Sprintf("%s, %d pixels, %s", path, look.width, look.theme)
		b.look(look.width, look.theme)
		for _, violation := range eval[[]string](b, fmt.Sprintf(runAxe, rules)) {
			b.t.Errorf("%s: %s", where, violation)
		}
		if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(look.width) {
			b.t.Errorf("%s: it is %d pixels wide", where, wide)
		}
		b.expectRoom(where)
		if look.width < 500 {
			b.expectTargets(where)
		}
		b.large(200)
		b.expectRoom(where + ", large text")
		b.large(100)
	}
	b.mu.Lock()
	b.problems = nil
	b.mu.Unlock()
}

// workWithoutScript reads, retries and cancels tasks with JavaScript off.
func (n *node) workWithoutScript() {
	n.t.Helper()
	b := n.openTab()
	b.withoutScript()
	b.open("/")
	b.click(`nav a[href="/tasks"]`)
	b.await("h1", "Tasks")
	b.click(`a[href="/tasks/default/failed"]`)
	b.await("#verdict", "Failed")
	if log := b.text("#log"); !strings.Contains(log, "no disk") {
		n.t.Errorf("the log shows %q", log)
	}
	b.click(`form[action$="/retry"] button`)
	b.await(`[role=status].note`, "The task was retried at ")
	n.awaitState("failed", "failed")
	b.open("/tasks/default/runs")
	b.click(`summary.red`)
	b.click(`form[action$="/cancel"] button`)
	b.await(`[role=status].note`, "was cancelled, or was asked to stop, at")
	n.awaitState("runs", "cancelled")
	if live := b.text("#live"); strings.Contains(live, "Live") {
		n.t.Errorf("without a script, the page says %q", live)
	}
}

// A reader's choices hold on the next pages, without JavaScript.
func pagesFollowTheReader(_ *testing.T, n *node) {
	b := n.openTab()
	b.withoutScript()
	b.open("/tasks")
	b.click(`footer summary`)
	eval[any](b, `document.querySelector("#f-zone").value = "Europe/Berlin"`)
	b.click(`footer form button`)
	b.await(`footer summary`, "Europe/Berlin")
	b.click(`footer a[href="/prefer/theme/dark"]`)
	b.await(`[data-theme=dark] h1`, "Tasks")
	b.click(`footer a[href="/prefer/theme/system"]`)
	b.await(`html:not([data-theme]) h1`, "Tasks")
	b.click(`footer a[hreflang="zh"]`)
	b.await("h1", "任务")
	b.click(`nav a[href="/"]`)
	b.await("nav", "概览")
}
