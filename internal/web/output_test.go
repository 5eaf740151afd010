package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestFinished_NamesWhatNobodySees(t *testing.T) {
	const ctl = `<span class="ctl">`
	for text, want := range map[string]string{
		"a\u202eb":             "a" + ctl + "U+202E</span>b",
		"\u200b<b>\ufeff</b>":  ctl + "U+200B</span><b>" + ctl + "U+FEFF</span></b>",
		"\x1b[31m\x00\x7f":     ctl + "␛</span>[31m" + ctl + "␀</span>" + ctl + "U+007F</span>",
		"a\u200db\u3164\u2028": "a" + ctl + "U+200D</span>b" + ctl + "U+3164</span>" + ctl + "U+2028</span>",
		"tab\tline\r\nend":     "tab\tline\r\nend",
		"👩\u200d🚀 می\u200cشود 😀 日本":                  "👩\u200d🚀 می\u200cشود 😀 日本",
		`<a title="` + "\u202e" + `">x`:              `<a title="` + "\u202e" + `">x`,
		"<title>\u202e</title>":                      "<title>U+202E</title>",
		"<textarea rows=2>\n\u200b</textarea>\u200b": "<textarea rows=2>\n\u200b</textarea>" + ctl + "U+200B</span>",
		"\xff\u202e":    "\ufffd" + ctl + "U+202E</span>",
		"\u202e<b>x<br": ctl + "U+202E</span><b>x<br",
	} {
		if got := string(inEnglish(start).finished([]byte(text), "")); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// deceptive is text that is not what it seems. It is in all fields of the world of the test below.
const deceptive = "invoice\u202egnp.exe \u200b\u2066x\u2069"

// typed are tags and elements in which what somebody edits stays as it is.
var typed = regexp.MustCompile(`(?s)<textarea.*?</textarea>|<[^>]*>`)

// No page shows a character that nobody sees, and none becomes too large by showing its name.
func TestPages_ShowWhatNobodySees(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", func(d *schedule.Definition) {
			d.Description, d.Owner, d.Labels = deceptive, deceptive, map[string]string{"order": deceptive}
		})
		_, err := w.control.PauseSchedule(w.ctx, me, "hourly", deceptive)
		testkit.Must(t, err)
		hostile := func(d *task.Definition) {
			d.Owner, d.Labels = deceptive, map[string]string{"order": deceptive}
			d.Payload = []byte(`{"url":"http://localhost/a","body":"` + strings.Repeat("\u202e\u200b", 30<<10) + `"}`)
		}
		w.run(w.submit("ended", hostile), time.Second, task.Failed, deceptive, strings.Repeat("\u202e\u200b", 400)+"\x1b[31m")
		run := w.begin(w.submit("runs", hostile))
		testkit.Must(t, run.Log(w.ctx, 1, []tasks.Line{{Stream: "stdout", Text: strings.Repeat(deceptive+"\x1b[31m", 200)}}))
		testkit.Must(t, run.Progress(w.ctx, 40, deceptive))
		w.submit("waits", hostile)
		w.claim(0)
		somebody := control.Caller{Namespace: "default", Name: deceptive}
		testkit.Must(t, w.control.PauseQueue(w.ctx, somebody, "default", deceptive))
		w.limits()
		testkit.Must(t, w.control.PauseLimit(w.ctx, somebody, "key:*", control.LimitPause{Note: deceptive}))
		w.nodes[0].Version = deceptive
		w.pass(70 * time.Second)
		shown := 0
		for _, p := range append(pages, &page{path: "/tasks/default/ended"}) {
			got := w.get(p.address())
			if got.status != http.StatusOK && got.status != http.StatusNotFound {
				t.Errorf("%s: status %d", p.address(), got.status)
			}
			text := typed.ReplaceAllString(got.text, "")
			if at := strings.IndexFunc(text, unseen); at >= 0 {
				t.Errorf("%s has a character that nobody sees: %q", p.address(), text[max(0, at-80):at+10])
			}
			if len(got.text) > sizeLimit {
				t.Errorf("%s has %d bytes", p.address(), len(got.text))
			}
			if strings.Contains(got.text, `<span class="ctl">U+202E</span>`) {
				shown++
			}
		}
		if shown < 7 {
			t.Errorf("%d pages show it", shown)
		}
	})
}
