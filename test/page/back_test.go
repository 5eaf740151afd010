package page

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// formsOutliveBack: a reader who goes back to a form finds there what was typed.
func formsOutliveBack(t *testing.T, n *node) {
	b := n.openTab()
	b.open("/schedules/new")
	b.write("#f-id", "nightly report")
	b.write("#f-every", "1h")
	b.write(`[id="f-payload.headers"]`, "X-A: 1")
	b.write(`[id="f-payload.url"]`, "http://localhost/a")
	b.click(`.cap button[value="check"]`)
	b.await("main", "must be") // the id has a blank
	b.history()
	const typed = `["id", "every", "payload.headers"].map(n => document.getElementById("f-" + n).value).join()`
	if got := eval[string](b, typed); got != "nightly report,1h,X-A: 1" {
		t.Errorf("the fields have %q", got)
	}
}

// history goes back to the page before.
func (b *tab) history() {
	b.t.Helper()
	b.do(chromedp.NavigateBack())
	b.await("h1", "New schedule")
}
