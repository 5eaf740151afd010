package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"github.com/dts-sched/dts/internal/testkit"
)

// What needs no node of its own is tested with the same one.
func TestReader_OfOneNode(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for name, test := range map[string]func(*testing.T, *node){
		"its choices hold":                  pagesFollowTheReader,
		"a script chooses without new page": preferencesNeedNoNewPage,
		"keys can be switched off":          keysCanBeSwitchedOff,
		"forms outlive going back":          formsOutliveBack,
		"a log stays where its reader is":   logStaysWhereItsReaderIs,
		"a tab that nobody sees rests":      liveRestsWhileNobodySeesTheTab,
		"hostile text is shown":             pagesShowHostileText,
		"an id leads to its page":           findLeadsToAnID,
		"a run is steered":                  runsAreSteered,
		"a workflow is written":             workflowsAreWritten,
		"a step is approved":                stepsAreApproved,
		"a limit is set":                    limitsAreSet,
		"a task is asked to move":           tasksAreAskedToMove,
		"a worker is drained":               workersAreDrained,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, n.with(t))
		})
	}
}

// The log follows what is written while its end is in view. Else it stays where its reader is. A payload begins at its
// beginning.
func logStaysWhereItsReaderIs(t *testing.T, n *node) {
	second, third := filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "third")
	command := fmt.Sprintf(`await() { until [ -e "$1" ]; do sleep 0.1; done; }
		seq 100; await %s; echo second; await %s; echo third; exec sleep 600`, second, third)
	n.shell("log", "", fields{"payload": fields{
		"command": append([]string{"sh", "-c", command}, strings.Fields(strings.Repeat("more ", 50))...),
	}})
	n.awaitState("log", "running")
	b := n.openTab()
	b.open("/tasks/default/log")
	b.await("#log", "stdout 100")
	const atEnd = `(l => l.scrollHeight > l.clientHeight + 20 && l.scrollHeight - l.scrollTop - l.clientHeight < 8)` +
		`(document.querySelector(".log"))`
	write := func(file, line string) {
		testkit.Must(t, os.WriteFile(file, nil, 0o600))
		b.await("#log", "stdout "+line)
	}
	write(second, "second")
	if !eval[bool](b, atEnd) {
		t.Error("the log does not follow")
	}
	eval[any](b, `document.querySelector(".log").scrollTop = 50`)
	write(third, "third")
	if top := eval[int](b, `document.querySelector(".log").scrollTop`); top != 50 {
		t.Errorf("the log has moved from 50 to %d", top)
	}
	b.open("/tasks/default/log")
	if !eval[bool](b, atEnd) {
		t.Error("the log does not begin at its end")
	}
	const atBegin = `(l => l.scrollHeight > l.clientHeight + 20 && l.scrollTop === 0)(document.querySelector(".code"))`
	if !eval[bool](b, atBegin) {
		t.Error("the payload does not begin at its beginning, or is too short to tell")
	}
}

// A node that refuses a stream is asked again, less and less often, and the page says that it is not live.
func TestLive_BacksOffWhenItIsRefused(t *testing.T) {
	t.Parallel()
	n := startNodeAt(t, "", "--max-streams", "1")
	first, second := n.openTab(), n.openTab()
	first.open("/tasks")
	first.await("#live", "Live")
	call(second, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		const wait = window.setTimeout;
		window.waits = [];
		window.setTimeout = (f, ms) => { window.waits.push(ms); return wait(f, 0) };`})
	second.open("/tasks")
	testkit.Eventually(t, "it is refused eight times", func() bool { return eval[int](second, `waits.length`) >= 8 })
	second.await("#live", "Not live")
	waits := eval[[]int](second, `waits.slice(0, 8)`)
	if want := "[5000 10000 20000 40000 80000 160000 300000 300000]"; fmt.Sprint(waits) != want {
		t.Errorf("it waits %v, want %s", waits, want)
	}
	first.open("/tasks/nowhere/nothing")
	second.await("#live", "Live")
}

// pressed reports whether some keys lead to another page, as if they were pressed while the page opens.
func (b *tab) pressed(keys string) bool {
	b.t.Helper()
	return eval[bool](b, `((keys) => {
		let led = false;
		const see = e => { led = true; e.preventDefault() };
		document.addEventListener("click", see);
		for (const key of keys) {
			const press = new KeyboardEvent("keydown", {key, bubbles: true});
			Object.defineProperty(press, "timeStamp", {value: 100}); // ms since the page was opened
			document.body.dispatchEvent(press);
		}
		document.removeEventListener("click", see);
		return led;
	})("`+keys+`")`)
}

func keysCanBeSwitchedOff(t *testing.T, n *node) {
	b := n.openTab()
	b.open("/")
	if b.pressed("t") {
		t.Error("t leads to another page without g")
	}
	if b.pressed("gxt") {
		t.Error("g leads a second key, though the first led nowhere")
	}
	for _, want := range []bool{true, false, true} {
		checked, leads := eval[bool](b, `document.querySelector("#keys").checked`), b.pressed("gt")
		if checked != want || leads != want {
			t.Errorf("the box is checked: %t, keys work: %t, want %t", checked, leads, want)
		}
		b.click("#keys")
		b.open("/")
	}
	b.withoutScript()
	b.open("/")
	if shown := b.text("footer"); strings.Contains(shown, "Keys") {
		t.Errorf("without a script, the foot is %q", shown)
	}
}

// A script chooses the theme without a new page, and knows the zone of the browser. The server keeps both.
func preferencesNeedNoNewPage(t *testing.T, n *node) {
	b := n.openTab()
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
	b.open("/")
	b.keep()
	for _, theme := range []string{"light", "dark", "system", "light"} {
		b.click("#theme")
		if shown := eval[string](b, `document.documentElement.dataset.theme`); shown != theme || !b.kept() {
			t.Errorf("the theme is %s, want %s; the page is the same: %t", shown, theme, b.kept())
		}
		testkit.Eventually(t, "the server knows "+theme, func() bool {
			// no script can read the cookie: the page says what the server knows
			page := eval[string](b, `fetch("/").then(r => r.text())`)
			chosen := strings.Contains(page, ` data-theme="`+theme+`"`)
			return chosen || theme == "system" && !strings.Contains(page, ` data-theme="`)
		})
	}
	if kept := eval[int](b, `localStorage.length`); kept != 0 {
		t.Errorf("the browser keeps %d things", kept)
	}
	if label := eval[string](b, `document.querySelector("#theme").ariaLabel`); label != "Theme: light" {
		t.Errorf("the button says %q", label)
	}
	b.click("footer summary")
	b.click("#zone")
	b.await("[data-theme=light] footer summary", "Asia/Shanghai")
	if !eval[bool](b, `document.querySelector("#zone").hidden`) {
		t.Error("the zone that is shown is offered")
	}
	b.expectNoProblem("the pages")
}
