package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dts-sched/dts/internal/testkit"
)

// follow clicks a link, and waits for the page with a heading.
func (b *tab) follow(selector, heading string) {
	b.t.Helper()
	b.click(selector)
	b.await("h1", heading)
}

// write puts a text into a field.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	eval[any](b, fmt.Sprintf(`document.querySelector(%q).value = %q; 0`, selector, text))
}

// value is what stands in a field.
func (b *tab) value(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%q).value`, selector))
}

// reportPage is the page of the schedule report.
const reportPage = "/schedules/default/report"

// awaitVerdict opens the page of the schedule report again and again, as a reader does without a script, until its
// verdict has a text.
func (b *tab) awaitVerdict(text string) {
	b.t.Helper()
	testkit.Eventually(b.t, "the verdict has "+text, func() bool {
		b.open(reportPage)
		return strings.Contains(b.text("#verdict"), text)
	})
}

// send clicks the button of the form, and waits until the next page says what was done.
func (b *tab) send(said string) {
	b.t.Helper()
	b.click(`main form[method=post] button`)
	b.await(`[role=status].note`, said)
}

// put checks a text, puts it, and waits until a page says which revision is in force.
func (b *tab) put(text, check, said string) {
	b.t.Helper()
	b.write("#text", text)
	b.click(`.cap button[value="check"]`)
	b.await("main", check)
	b.click(`.cap button[value="put"]`)
	b.await(`[role=status].note`, said)
}

// With JavaScript off, a schedule is written, checked, put, steered and deleted.
func TestSchedules_WorkWithoutScript(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	b := n.openTab()
	b.withoutScript()
	b.open("/schedules")
	b.await("main", "There are no schedules yet.")
	b.follow(`a.btn[href="/schedules/new"]`, "New schedule")
	b.write("#f-id", "night")
	b.click(`button[name="show_text"]`)
	b.await(".cap", "Use fields")
	if text := b.value("#text"); !strings.Contains(text, "- id: night\n") {
		t.Errorf("the text lacks what was typed: %q", text)
	}
	definition := func(cron string) string {
		return "schedules:\n  - {id: night, cron: " + cron + ", task: {type: shell, payload: {command: ['true']}}}\n"
	}
	b.write("#text", definition("30 2 * * FRY"))
	b.click(`.cap button[value="check"]`)
	b.await("[role=alert]", "Line 2, column 23")
	b.put(definition("30 2 * * FRI"), "at 02:30, on Friday", "Revision 1 was put at ")
	b.do(chromedp.NavigateBack()) // which shows the check, and does not ask whether to send it again
	b.await("main", "It is valid.")
	if text := b.value("#text"); !strings.Contains(text, "30 2 * * FRI") {
		t.Errorf("back on the page, the text is %q", text)
	}
	b.open("/schedules/default/night")

	b.follow(`.acts a[href$="/trigger"]`, "Run it now")
	b.send(", and got this task.")
	b.open("/schedules/default/night")
	b.follow(`.acts a[href$="/pause"]`, "Pause")
	b.write("#p-note", "the disk")
	b.send("The schedule was paused at ")
	if verdict := b.text("#verdict"); !strings.Contains(verdict, "Paused: the disk") {
		t.Errorf("the verdict is %q", verdict)
	}
	b.follow(`.acts a[href$="/resume"]`, "Resume")
	b.send("The schedule was resumed at ")

	b.follow(`.acts a[href$="/edit"]`, "Edit night")
	text := b.value("#text")
	b.put(strings.Replace(text, "30 2 * * FRI", "45 2 * * FRI", 1), "cron: 45 2 * * FRI", "Revision 2 was put at ")
	b.click(`#revisions details:last-of-type summary`)
	b.follow(`a[href$="/rollback?revision=1"]`, "Roll back to revision 1")
	b.send("The definition of revision 1 was put again at ")
	b.follow(`.acts a[href$="/delete"]`, "Delete")
	b.send("The schedule was deleted at ")
}

// With JavaScript off, somebody puts a recurring task, sees it run, sees it fail, reads why, mends it, and sees it
// succeed.
func TestJourney_FromAFailureToItsCure(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/report" {
			return
		}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		http.Error(w, "no such report", http.StatusNotFound)
	}))
	t.Cleanup(service.Close)
	n := startNode(t)
	b := n.openTab()
	b.withoutScript()
	b.open("/")
	b.follow(`nav a[href="/schedules"]`, "Schedules")
	b.follow(`a.btn[href="/schedules/new"]`, "New schedule")
	b.write("#f-id", "report")
	b.write("#f-cron", "every second")
	b.write(`[name="payload.url"]`, service.URL+"/raport")
	b.click(`.cap button[value="check"]`)
	b.await(`[id="w-cron"]`, "has 2 fields")
	if id := b.value("#f-id"); id != "report" {
		t.Errorf("the id has become %q", id)
	}
	b.write("#f-cron", "")
	b.write("#f-every", "1s")
	b.click(`.cap button[value="check"]`)
	b.await("main", "every 1s")
	b.click(`.cap button[value="put"]`)
	b.await(`[role=status].note`, "Revision 1 was put at ")

	b.awaitVerdict("Runs: one task has not ended")
	if why := b.text("#acts"); !strings.Contains(why, "It cannot be triggered now: One of its tasks has not ended") {
		t.Errorf("while a task runs, the buttons are %q", why)
	}
	b.click("#acts .mute a")
	b.await("#rows", "running")

	close(goOn)
	b.awaitVerdict("Failing:")
	b.awaitVerdict("404") // which the page may have read just before the task failed
	b.click(`#ledger a[href^="/tasks/"]`)
	b.await("#verdict", "Failed: ")
	if why := b.text("main"); !strings.Contains(why, "no such report") {
		t.Errorf("the task says %q", why)
	}

	b.follow(`a[href="`+reportPage+`"]`, "report")
	b.follow(`.acts a[href$="/edit"]`, "Edit report")
	b.put(strings.Replace(b.value("#text"), "/raport", "/report", 1), "/report", "Revision 2 was put at ")
	b.awaitVerdict("Well: the last run succeeded")
}
