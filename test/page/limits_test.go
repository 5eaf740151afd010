package page

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// fill types texts into fields that are there, given as selectors and texts.
func (b *tab) fill(fields ...string) {
	b.t.Helper()
	for i := 0; i < len(fields); i += 2 {
		b.write(fields[i], fields[i+1])
	}
}

// limitsAreSet sets, pauses, changes and deletes a limit with the mouse. What waits is live.
func limitsAreSet(_ *testing.T, n *node) {
	n.awaitLimits()
	b := n.openTab()
	b.open("/queues")
	b.click("nav a[data-key=l]")
	b.await("h1", "Limits")
	b.click(`a[href="/limits/new"]`)
	b.await("h1", "New limit")
	b.fill("#f-name", "key:tenant-7", "#f-slots", "many")
	b.click("main form .btn.pri")
	b.await("#w-slots", "must be a whole number")
	b.fill("#f-slots", "1")
	b.click("main form .btn.pri")
	b.await("[role=status].note", "The limit was set at ")
	b.await("#verdict", "Not in use")

	b.click(`a[href="#pause"]`)
	b.fill("#note", "their server is down", "#for", "1h")
	b.click("#pause .btn.pri")
	b.await("[role=status].note", "The limit was paused at ")
	b.await("#verdict", "their server is down")
	n.shell("held", "exec sleep 600", fields{"limit_key": "tenant-7"})
	b.awaitValue("how many tasks wait", `document.querySelector("#meters figure:nth-child(2) .val").innerText`, "1")
	b.open("/tasks/default/held")
	b.await("#verdict", "(their server is down) until")
	b.click(`#verdict a[href="/limits/key:tenant-7"]`)
	b.await("h1", "key:tenant-7")
	b.click("#acts form button")
	b.await("[role=status].note", "The limit was resumed at ")
	b.await("#verdict", "Full, and nothing waits")

	n.shell("waits", "true", fields{"limit_key": "tenant-7"})
	b.await("#verdict", "Full: its tasks wait for a slot")
	b.click(`a[href="#set"]`)
	b.fill("#f-slots", "2")
	b.click("#set .btn.pri")
	b.await("[role=status].note", "The limit was set at ")
	n.awaitState("waits", "succeeded")
	b.click(`a[href="#delete"]`)
	b.click("#delete .btn.red")
	b.await("[role=status].note", "The limit was deleted at ")
	if rows := b.text("#rows"); strings.Contains(rows, "tenant-7") {
		b.t.Errorf("the rows are %q", rows)
	}
}

// awaitLimits waits until the node knows that no node of an earlier release lives.
func (n *node) awaitLimits() {
	n.t.Helper()
	testkit.Eventually(n.t, "limits work", func() bool {
		r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.URL+n.base+"/v1/limits", nil)
		testkit.Must(n.t, err)
		answer, err := http.DefaultClient.Do(r)
		testkit.Must(n.t, err)
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}
