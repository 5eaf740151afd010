package page

import (
	"fmt"
	"strings"
	"testing"
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
	b.click(`button[value="check"]`)
	b.await("main", check)
	b.click(`button[value="put"]`)
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
	definition := func(cron string) string {
		return "schedules:\n  - {id: night, cron: " + cron + ", task: {type: shell, payload: {command: ['true']}}}\n"
	}
	b.write("#text", definition("30 2 * * FRY"))
	b.click(`button[value="check"]`)
	b.await("[role=alert]", "Line 2, column 23")
	b.put(definition("30 2 * * FRI"), "at 02:30, on Friday", "Revision 1 is in force.")

	b.follow(`.acts a[href$="/trigger"]`, "Run it now")
	b.send("This is the task of that run.")
	b.open("/schedules/default/night")
	b.follow(`.acts a[href$="/pause"]`, "Pause")
	b.write("#p-note", "the disk")
	b.send("The schedule is paused.")
	if verdict := b.text("#verdict"); !strings.Contains(verdict, "Paused: the disk") {
		t.Errorf("the verdict is %q", verdict)
	}
	b.follow(`.acts a[href$="/resume"]`, "Resume")
	b.send("The schedule is resumed.")

	b.follow(`.acts a[href$="/edit"]`, "Edit night")
	text := eval[string](b, `document.querySelector("#text").value`)
	b.put(strings.Replace(text, "30 2 * * FRI", "45 2 * * FRI", 1), "cron: 45 2 * * FRI", "Revision 2 is in force.")
	b.click(`#revisions details:last-of-type summary`)
	b.follow(`a[href$="/rollback?revision=1"]`, "Roll back to revision 1")
	b.send("The definition of revision 1 is in force again.")
	b.follow(`.acts a[href$="/delete"]`, "Delete")
	b.send("The schedule is deleted.")
}
