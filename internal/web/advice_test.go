package web

import (
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// What a page can do is a link, with the command below. What it cannot do stays as it is.
func TestAdvice_LinksToThePageThatDoesIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Wait: nothing holds it up.":                       "Wait: nothing holds it up.",
		"Start a scheduler: dtsd serve --roles scheduler.": "Start a scheduler: dtsd serve --roles scheduler.",
		"See what it is: dtsctl nothing known.":            "See what it is: dtsctl nothing known.",
		"Resume it: dtsctl queue resume mails.":            "[Resume it](/queues/mails). | dtsctl queue resume mails",
		"See what is damaged: dtsctl doctor.":              "[See what is damaged](/doctor). | dtsctl doctor",
		"See all errors: dtsctl task failures -A.":         "[See all errors](/#causes). | dtsctl task failures -A",
		"See why: dtsctl schedule ledger a.b -n pay.": "[See why](/schedules/pay/a.b#ledger). | " +
			"dtsctl schedule ledger a.b -n pay",
		"See what it ran, and where: dtsctl node get vm-a.": "[See what it ran, and where](/tasks?node=vm-a). | " +
			"dtsctl node get vm-a",
		"Wait, or run it now: dtsctl -n pay task change x --delay 0s.": "Wait, or [run it now](/tasks/pay/x). | " +
			"dtsctl -n pay task change x --delay 0s",
		"Wait, or run it now: dtsctl schedule trigger a.": "Wait, or [run it now](/schedules/default/a/trigger). | " +
			"dtsctl schedule trigger a",
		"See why they wait: dtsctl queue why q. Or raise the capacity: dtsctl queue capacity q N.": "" +
			"[See why they wait](/queues/q). Or [raise the capacity](/queues/q#capacity). | " +
			"dtsctl queue why q | dtsctl queue capacity q N",
		"See why they failed: dtsctl task list --schedule a --state failed. Then resume it: dtsctl schedule resume a. " +
			"One runs.": "[See why they failed](/tasks?namespace=default&schedule=a&state=failed). " +
			"Then [resume it](/schedules/default/a/resume). One runs. | " +
			"dtsctl task list --schedule a --state failed | dtsctl schedule resume a",
		"Add slots. See what runs: dtsctl task list -A --state running. Cancel what hangs.": "Add slots. " +
			"[See what runs](/tasks?state=running). Cancel what hangs. | dtsctl task list -A --state running",
	} {
		a := (&visit{path: "/"}).Advice(text)
		got := ""
		for _, s := range a.Sentences {
			got += s.Before
			if s.Link != "" {
				got += fmt.Sprintf("[%s](%s)", s.Link, s.Path)
			}
		}
		for _, c := range a.Commands {
			got = strings.TrimSpace(got) + " | " + c
		}
		if got != want {
			t.Errorf("%s\n\tbecomes %s\n\twant    %s", text, got, want)
		}
	}
}

// aCommand is a command on a page, which a link before it makes needless.
var aCommand = regexp.MustCompile(
	`<a href="([^"]+)">[^<]+</a>[^<]*</span> <span class="small mute">Or in a shell: <code>dtsctl`)

// Each page that the advice of a page leads to is there.
func TestAdvice_LeadsToPages(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", func(d *schedule.Definition) { d.PauseOnFailure = 1 })
		w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour })
		w.submit("due", func(d *task.Definition) { d.Queue = "reports" })
		for _, address := range []string{"/tasks/default/waits", "/schedules/default/a", "/queues/reports", "/"} {
			for _, found := range aCommand.FindAllStringSubmatch(w.get(address).text, -1) {
				if to := found[1]; to != "#acts" && w.get(to).status != http.StatusOK {
					t.Errorf("%s leads to %s, which is not there", address, to)
				}
			}
		}
		if text := w.get("/tasks/default/waits").text; !strings.Contains(text, `<a href="#acts">run it now</a>`) {
			t.Errorf("the task does not say where it can be run now:\n%s", text)
		}
	})
}

// Two commands do not look like one.
func TestAdvice_SeparatesItsCommands(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", func(d *schedule.Definition) { d.PauseOnFailure = 1 })
		run, err := w.control.TriggerSchedule(w.ctx, me, "a")
		testkit.Must(t, err)
		w.run(task.Ref{Namespace: "default", ID: run.TaskID("a")}, time.Second, task.Failed, "", "HTTP 503")
		w.pass(time.Minute)
		w.expect("/", "--state failed</code>, <code>dtsctl schedule resume a")
	})
}

// Where an action is missing, the page says why.
func TestPages_SayWhyAnActionIsMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.put("allows", func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
		for _, id := range []string{"a", "allows"} {
			w.send(http.MethodPost, "/schedules/default/"+id+"/trigger", w.fill("/schedules/default/"+id+"/trigger"))
		}
		w.failed("failed")
		w.begin(w.submit("runs", nil))
		w.submit("due", func(d *task.Definition) { d.Queue = "reports" })
		w.claim(0)
		w.submit("held", func(d *task.Definition) { d.Queue = "reports" })
		w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour })
		w.pass(2 * time.Minute)
		for address, want := range map[string]string{
			"/schedules/default/a":      "It cannot be triggered now: <a href=",
			"/tasks/default/failed":     "It has ended: it cannot be cancelled or moved.",
			"/tasks/default/runs":       "A worker runs it: it cannot be moved.",
			"/tasks/default/held":       "It is due already: below is what it waits for.",
			"/tasks/default/waits":      "When it has ended, it can be retried.",
			"/tasks?state=running":      "Tasks that run can only be cancelled.",
			"/tasks":                    "To forget tasks, choose a state in which they have ended.",
			"/tasks?owner=nobody":       "No task here can be retried, moved or cancelled.",
			"/schedules/default/allows": `/allows/trigger"`,
		} {
			if text := w.get(address).text; !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", address, want, text)
			}
		}
		w.expect("/tasks/default/waits", `waits/now"`)
		w.expectNot("/tasks/default/held", `held/now"`)
		if text := w.get("/schedules/default/allows").text; strings.Contains(text, "cannot be triggered") {
			t.Error("a schedule whose policy allows it cannot be triggered")
		}
	})
}

// The words of links that are known are in the reader's language, others as the API has them.
func TestLinkText_IsInTheLanguageOfTheReader(t *testing.T) {
	t.Parallel()
	chinese := &visit{printer: newPrinter(language.SimplifiedChinese)}
	for words, want := range map[string]string{"See why": "查看原因", "Resume <it>": "Resume &lt;it&gt;"} {
		if got := string(chinese.LinkText(words)); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
		if got := string(inEnglish(start).LinkText(words)); got != template.HTMLEscapeString(words) {
			t.Errorf("%s: %s in English", words, got)
		}
	}
}
