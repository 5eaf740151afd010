package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dts-sched/dts/internal/testkit"
)

// seen reports whether an element is shown.
func (b *tab) seen(selector string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf(`document.querySelector(%q)?.checkVisibility() ?? false`, selector))
}

// awaitSeen waits until an element is shown.
func (b *tab) awaitSeen(selector string) {
	b.t.Helper()
	testkit.Eventually(b.t, selector+" is shown", func() bool { return b.seen(selector) })
}

// The buttons of a task follow it, though no stream has forms. They wait while somebody is at them.
func TestActions_FollowWhatHappens(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "exec sleep 600", nil)
	n.shell("b", "exec sleep 600", nil)
	n.awaitState("a", "running")
	n.awaitState("b", "running")
	b, typing, queue := n.openTab(), n.openTab(), n.openTab()
	b.open("/tasks/default/a")
	b.await("#live", "Live")
	b.keep()
	queue.open("/queues/default")
	queue.await("#live", "Live")
	typing.open("/tasks/default/b")
	typing.await("#live", "Live")
	typing.click("summary.red")
	typing.do(chromedp.SendKeys("#t-note", "is late"))

	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	b.awaitSeen(`form[action$="/retry"]`)
	if b.seen("summary.red") || b.seen("#can") || !b.kept() {
		t.Error("it can still be cancelled, or the page was read again")
	}
	b.click(`form[action$="/retry"] button`)
	b.await("[role=status].note", "The task was retried at ")

	n.send(http.MethodDelete, "/v1/tasks/b", nil)
	typing.awaitSeen("#can")
	if text := eval[string](typing, `document.querySelector("#t-note").value`); text != "is late" {
		t.Errorf("what was typed became %q", text)
	}
	typing.click("#can a")
	typing.awaitSeen(`form[action$="/retry"]`)

	n.send(http.MethodPost, "/v1/queues/default/pause", fields{})
	queue.awaitSeen(`form[action$="/resume"]`)
	queue.click(`form[action$="/resume"] button`)
	queue.await("[role=status].note", "The queue was resumed at ")
	for _, tab := range []*tab{b, typing, queue} {
		tab.expectNoProblem("the pages")
	}
}

// A list does not grow: its rows change in their places, and a link counts those that are new.
func TestLists_KeepTheirRows(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "exec sleep 600", nil)
	n.shell("b", "exec sleep 600", nil)
	n.awaitState("a", "running")
	n.awaitState("b", "running")
	all, running := n.openTab(), n.openTab()
	all.open("/tasks")
	all.await("#live", "Live")
	all.keep()
	running.open("/tasks?state=running")
	running.await("#live", "Live")
	rows := func(b *tab) string {
		return eval[string](b, `[...document.querySelectorAll("#rows tbody tr .id")].map(e => e.textContent).join()`)
	}
	before := rows(all)
	n.shell("c", "true", nil)
	n.shell("d", "true", fields{"delay": "1h"})
	all.await("#newer", "2 newer")
	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	all.await("#rows", "cancelled")
	if after := rows(all); after != before || all.seen("#newer span") || !all.kept() {
		t.Errorf("the rows %s became %s, or are out of date", before, after)
	}
	all.click("#newer a")
	all.await("#rows", "scheduled")
	if after := rows(all); len(after) != len("a,b,c,d") || all.seen("#newer") {
		t.Errorf("read again, the rows are %s", after)
	}
	running.awaitSeen("#newer span")
	if past := running.text(".past .id"); past != "a" || running.seen("#newer a") {
		t.Errorf("of %s, %q runs no longer", rows(running), past)
	}
	all.expectNoProblem("the list")
	running.expectNoProblem("what runs")
}

// A row that leaves a full page lets another one move up from the next page, which is no newer.
func TestLists_CountNoRowsOfTheNextPage(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	delayed := func(id string, seconds int) { n.shell(id, "true", fields{"delay": fmt.Sprintf("%ds", seconds)}) }
	for i := range 60 {
		delayed(fmt.Sprint("t", i), 3600+100*i)
	}
	n.putHourly("b")
	tasks, schedules := n.openTab(), n.openTab()
	tasks.open("/tasks?state=scheduled")
	tasks.await("#live", "Live")
	schedules.open("/schedules")
	schedules.await("#live", "Live")
	n.send(http.MethodDelete, "/v1/tasks/t30", nil)
	tasks.awaitSeen("#newer span")
	if tasks.seen("#newer a") {
		t.Errorf("when a row has left, it says %q", tasks.text("#newer a"))
	}
	delayed("between", 3600+100*40+50)
	tasks.await("#newer a", "1 newer")
	delayed("first", 3600+100*70)
	tasks.await("#newer a", "2 newer")
	n.putHourly("a")
	schedules.await("#newer a", "1 more")
	tasks.expectNoProblem("the tasks")
	schedules.expectNoProblem("the schedules")
}

// putHourly puts a schedule that ticks each hour.
func (n *node) putHourly(id string) {
	n.t.Helper()
	n.send(http.MethodPut, "/v1/schedules/"+id, fields{
		"every": "1h", "task": fields{"type": "shell", "payload": fields{"command": []string{"true"}}},
	})
}

// The title of the tab, and the bar, count what needs somebody.
func TestLive_CountsInTheTitle(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	b := n.openTab()
	b.open("/bulk")
	b.await("#live", "Live")
	b.keep()
	n.send(http.MethodPost, "/v1/queues/default/pause", fields{})
	n.shell("waits", "true", nil)
	b.await(`nav a[data-key=q]`, "1")
	testkit.Eventually(t, "the title counts it", func() bool { // and what a busy machine adds
		title := eval[string](b, `document.title`)
		return strings.HasPrefix(title, "(") && strings.Contains(title, ") Bulk actions")
	})
	if !b.kept() {
		t.Error("the page was read again")
	}
	b.expectNoProblem("the page")
}

// What waits under a focus does not hide that the stream is lost.
func TestLive_SaysThatTheStreamIsLost(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "true", fields{"delay": "1h"})
	b := n.openTab()
	b.open("/tasks")
	b.await("#live", "Live")
	eval[any](b, `document.querySelector("#rows a").focus(), 0`)
	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	b.await(`#states a[href*="state=cancelled"]`, "1") // which comes with the rows
	b.await("#live", "waiting")
	testkit.Must(t, n.Stop())
	b.await("#live", "Reconnecting")
	eval[any](b, `document.activeElement.blur(), 0`)
	b.await("#rows", "cancelled")
	if live := b.text("#live"); !strings.Contains(live, "Reconnecting") {
		t.Errorf("the stream is lost, and the page says %q", live)
	}
}
