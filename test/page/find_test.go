package page

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// goTo presses the key of the field in the bar, and types an id there.
func (b *tab) goTo(id string) {
	b.t.Helper()
	call(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "/", Text: "/"})
	b.do(chromedp.KeyEvent(id + "\r"))
}

// By the keys or the mouse, with a script or without: an id leads to its page.
func findLeadsToAnID(_ *testing.T, n *node) {
	n.shell("order-1", "true", fields{"delay": "1h"})
	n.send(http.MethodPut, "/v1/schedules/nightly", fields{
		"every": "24h", "task": fields{"type": "shell", "payload": fields{"command": []string{"true"}}},
	})
	b := n.openTab()
	b.open("/nodes")
	b.goTo("order-1")
	b.await("h1", "order-1")
	b.look(900, "light") // the field is in the menu
	b.goTo("night")
	b.await("h1", "nightly")
	b.goTo("nobody")
	b.await("main", "No task has the id nobody")
	b.expectNoProblem("the pages")

	b.withoutScript()
	b.look(1440, "light")
	b.open("/find")
	b.write("#q", "order-1")
	b.click("main form button")
	b.await("h1", "order-1")
	b.click("#go")
	b.do(chromedp.KeyEvent("nightly\r"))
	b.await("h1", "nightly")
}

// A namespace is chosen on the page, without a script, and holds on the pages that follow.
func TestNamespace_HoldsFromPageToPage(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "true", fields{"delay": "1h"})
	n.send(http.MethodPost, "/v1/tasks?namespace=billing", fields{
		"id": "b", "type": "shell", "payload": fields{"command": []string{"true"}}, "delay": "1h",
	})
	b := n.openTab()
	b.withoutScript()
	b.open("/tasks")
	b.click(".nav summary")
	b.click(`.drop a[href="?namespace=billing"]`)
	chosen := func(where string) {
		t.Helper()
		if at := eval[string](b, `location.search`); !strings.Contains(at, "namespace=billing") {
			t.Errorf("%s: the address has %q", where, at)
		}
	}
	b.await(".nav summary", "billing")
	if rows := b.text("#rows tbody"); !strings.Contains(rows, "b") || strings.Contains(rows, "a\n") {
		t.Errorf("the rows are %q", rows)
	}
	b.click("#rows a")
	b.await("h1", "b")
	chosen("a task")
	b.click("summary.red")
	b.click(`form[action*="/cancel"] button`)
	b.await("[role=status].note", "was cancelled")
	chosen("what was done")
	b.click("nav a[data-key=s]")
	b.await(".nav summary", "billing")
	chosen("the schedules")
	b.click("main form button")
	b.awaitAddress("&") // the page before looks the same
	chosen("the filter")
	b.click("nav a[data-key=t]")
	b.await("#rows", "cancelled")
	chosen("the tasks")
}
