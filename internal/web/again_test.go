package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// aField is a field of a form: a tag, or the text between two.
var aField = regexp.MustCompile(
	`(?s)<(?:input|textarea)[^>]* name="([^"]*)"[^>]*?(?: value="([^"]*)"[^>]*>|>\n?([^<]*)</textarea>)`)

// visible is a field or a button.
var visible = regexp.MustCompile(`<(input id=|textarea|button [^h])`)

// emptyBox is a box in a form that is not ticked.
var emptyBox = regexp.MustCompile(`<input type="checkbox"[^>]* value="[^"]*">`)

// shownAgain is what the form on a page would send, which has a key, and some fields.
func (w *world) shownAgain(page, key string, has ...string) url.Values {
	w.t.Helper()
	for _, form := range regexp.MustCompile(`(?s)<form[^>]* method="post".*?</form>`).FindAllString(page, -1) {
		fields := url.Values{}
		form = emptyBox.ReplaceAllString(form, "") // a browser does not send it
		for _, f := range aField.FindAllStringSubmatch(form, -1) {
			fields.Set(f[1], html.UnescapeString(f[2]+f[3]))
		}
		if fields.Get(keyField) == key && !slices.ContainsFunc(has, func(name string) bool { return !fields.Has(name) }) {
			return fields
		}
	}
	w.t.Fatalf("no form has the key %s:\n%s", key, page)
	return nil
}

// forms are a form of each page, in an installation with the tasks waits and failed, and the schedule a, which all have
// not been touched.
var forms = []struct {
	page   string // that has the form
	path   string // that it is sent to
	fields []string
	done   func(w *world) bool
}{
	{"/submit?type=http", "/submit", []string{
		"type", "http", "payload.url", "http://localhost/<b>", "payload.headers", "X-A: 1", "id", "new", "labels", "a=b",
		"retry.max_attempts", "3",
	}, func(w *world) bool { return w.has("new") }},
	{"/submit?type=other&as=json", "/submit", []string{
		"other", "true", "type", "http", "as", "json", "payload", `{"url": "http://localhost/"}`, "id", "new",
	}, func(w *world) bool { return w.has("new") }},
	{"/schedules/new", "/schedules/new", []string{
		"text", strings.ReplaceAll(definitionOf("every: 1h"), "id: a", "id: new"), "do", "put",
	}, func(w *world) bool { _, err := w.control.GetSchedule(w.ctx, me, "new"); return err == nil }},
	{"/schedules/new?type=http", "/schedules/new", []string{
		"id", "new", "namespace", "default", "timezone", "UTC", "every", "1h", "queue", "reports",
		"payload.url", "http://localhost/<b>", "do", "put",
	}, func(w *world) bool {
		s, err := w.control.GetSchedule(w.ctx, me, "new")
		return err == nil && s.Task.Queue == "reports"
	}},
	{"/schedules/default/a/edit", "/schedules/default/a/edit", []string{
		"text", definitionOf("every: 2h"), "do", "put",
	}, func(w *world) bool { return w.schedule("a").Revision == 2 }},
	{"/schedules/default/a/trigger", "/schedules/default/a/trigger", nil,
		func(w *world) bool { return w.schedule("a").Live == 1 }},
	{"/schedules/default/a/pause", "/schedules/default/a/pause", []string{"note", "the <disk>"},
		func(w *world) bool { return w.schedule("a").PauseNote == "the <disk>" }},
	{"/schedules/default/a/backfill?from=3h&pace=5s", "/schedules/default/a/backfill", nil,
		func(w *world) bool { return w.tasks() > 3 }},
	{"/schedules/default/a/delete", "/schedules/default/a/delete", nil,
		func(w *world) bool { _, err := w.control.GetSchedule(w.ctx, me, "a"); return err != nil }},
	{"/tasks/default/waits", "/tasks/default/waits/cancel", []string{"note", "withdrawn"},
		func(w *world) bool { return strings.HasSuffix(w.task(w.ref("waits")).Error, "withdrawn") }},
	{"/tasks/default/waits", "/tasks/default/waits/queue", []string{"queue", "mails"},
		func(w *world) bool { return w.task(w.ref("waits")).Queue == "mails" }},
	{"/tasks/default/failed", "/tasks/default/failed/retry", nil,
		func(w *world) bool { return w.task(w.ref("failed")).State != task.Failed }},
	{"/queues/reports", "/queues/reports/pause", []string{"note", "month-end"},
		func(w *world) bool { return w.queue("reports").PauseNote == "month-end" }},
	{"/queues/reports", "/queues/reports/capacity", []string{"capacity", "7", "do", "set"},
		func(w *world) bool { return w.queue("reports").Capacity == 7 }},
	{"/limits/new", "/limits/new", []string{"name", "key:new", "slots", "7"},
		func(w *world) bool { return w.hasLimit("key:new") }},
	{"/limits/key:a", "/limits/key:a/set", []string{"slots", "7"},
		func(w *world) bool { return w.limit("key:a").Rule.Slots == 7 }},
	{"/limits/key:a", "/limits/key:a/pause", []string{"for", "1h", "note", "a <429>"},
		func(w *world) bool { return w.limit("key:a").Note == "a <429>" }},
	{"/limits/key:a", "/limits/key:a/delete", nil, func(w *world) bool { return !w.hasLimit("key:a") }},
	{"/nodes", "/nodes/cordon", []string{"node", "node-a", "note", "a <new> kernel", "for", "1h"}, func(w *world) bool {
		c := w.nodes[0].Cordon
		return c != nil && c.Note == "a <new> kernel" && c.Until.Sub(c.Since) == time.Hour
	}},
	{"/bulk/new/cancel?state=scheduled", "/bulk/new/cancel?state=scheduled", []string{"note", "too many"},
		func(w *world) bool {
			all, err := w.control.ListBulks(w.ctx, control.Caller{Namespace: control.EveryNamespace})
			return err == nil && len(all) == 1 && all[0].Note == "too many"
		}},
}

func (w *world) ref(id string) task.Ref { return task.Ref{Namespace: "default", ID: id} }

// has reports whether there is a task.
func (w *world) has(id string) bool {
	_, err := w.control.GetTask(w.ctx, me, id)
	return err == nil
}

// tasks is how many tasks there are.
func (w *world) tasks() int {
	w.t.Helper()
	all, err := w.control.ListTasks(w.ctx, me, control.TaskFilter{}, 50, "")
	testkit.Must(w.t, err)
	return len(all.Tasks)
}

// withForms runs a test in a world for each of forms.
func withForms(t *testing.T, test func(w *world, path string, form url.Values, fields []string, done func() bool)) {
	t.Helper()
	for _, f := range forms {
		t.Run(f.path+" "+strings.Join(f.fields[:min(2, len(f.fields))], " "), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.put("a", func(d *schedule.Definition) { d.StartAt = start.Add(-5 * time.Hour) })
				w.failed("failed")
				w.submit("due", func(d *task.Definition) { d.Queue = "reports" })
				w.claim(0)
				w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour })
				w.limits()
				w.setLimit("key:a", control.LimitRule{Slots: 2})
				w.pass(time.Minute)
				w.pack()
				form := w.fill(f.page, f.fields...)
				if form.Get("do") == doPut {
					form = w.checked(f.path, form)
				}
				test(w, f.path, form, f.fields, func() bool { return f.done(w) })
			})
		})
	}
}

// A form that is sent while Redis is away is shown again, with what was typed and its key, and does what it is for when
// it is sent once more.
func TestForms_OutliveThatRedisIsAway(t *testing.T) {
	withForms(t, func(w *world, path string, form url.Values, fields []string, done func() bool) {
		w.away.Store(unreachable)
		got := w.send(http.MethodPost, path, form)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			w.t.Errorf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
		}
		_, main, _ := strings.Cut(got.text, `<main`)
		if !strings.Contains(main, "it is done once") {
			w.t.Errorf("the page does not say that it may be sent again:\n%s", main)
		}
		known, first := strings.Index(main, "It is not known whether this was done"), visible.FindStringIndex(main)
		if known < 0 || first == nil || known > first[0] {
			w.t.Errorf("the page does not begin with what went wrong:\n%s", main)
		}
		w.away.Store(0)
		if done() {
			w.t.Fatal("it was done while Redis was away")
		}
		again := w.shownAgain(got.text, form.Get(keyField))
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == "do" {
				if !strings.Contains(main, `name="do" value="`+fields[i+1]+`"`) {
					w.t.Errorf("the page lacks the button that was pressed:\n%s", main)
				}
				again.Set("do", fields[i+1])
			} else if typed := again.Get(fields[i]); typed != fields[i+1] {
				w.t.Errorf("%s is %q, want %q", fields[i], typed, fields[i+1])
			}
		}
		if got := w.send(http.MethodPost, path, again); got.status != http.StatusSeeOther || !done() {
			w.t.Errorf("sent again: %d\n%s", got.status, got.text)
		}
	})
}

// A new form needs nothing of Redis; one that begins with what is there does.
func TestForms_AreShownThoughRedisIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.failed("failed")
		w.away.Store(unreachable)
		for path, want := range map[string]struct {
			status int
			text   string
		}{
			"/submit":                     {http.StatusOK, `name="payload.url"`},
			"/submit?type=shell":          {http.StatusOK, `name="payload.command"`},
			"/schedules/new":              {http.StatusOK, `name="every"`},
			"/schedules/new?as=yaml":      {http.StatusOK, "schedules:\n  - id: "},
			"/submit?from=default/failed": {http.StatusServiceUnavailable, "The data cannot be read now"},
			"/schedules/default/a/edit":   {http.StatusServiceUnavailable, "The data cannot be read now"},
		} {
			got := w.get(path)
			if got.status != want.status || !strings.Contains(got.text, want.text) || !strings.Contains(got.text, "Redis") {
				t.Errorf("%s: %d\n%s", path, got.status, got.text)
			}
		}
	})
}

// What was done though no reply came is not done twice.
func TestForms_ActOnceThoughNoReplyCame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", func(d *schedule.Definition) { d.StartAt = start.Add(-5 * time.Hour) })
		w.submit("first", nil) // so that Redis knows the script
		w.pass(time.Minute)
		for path, form := range map[string]url.Values{
			"/submit":                       w.typed("/submit", "type", "http", "payload.url", "http://localhost/a"),
			"/schedules/default/a/trigger":  w.fill("/schedules/default/a/trigger"),
			"/schedules/default/a/backfill": w.fill("/schedules/default/a/backfill?from=3h"),
		} {
			w.away.Store(unheard)
			if got := w.send(http.MethodPost, path, form); got.status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d", path, got.status)
			}
			w.away.Store(0)
			before := w.tasks()
			if got := w.send(http.MethodPost, path, form); got.status != http.StatusSeeOther {
				t.Errorf("%s: sent again: %d\n%s", path, got.status, got.text)
			}
			if after := w.tasks(); after == 0 || before != after {
				t.Errorf("%s: %d tasks, and %d when it was sent again", path, before, after)
			}
		}
	})
}

// A task that was retried though no reply came is not run twice.
func TestRetry_RunsOnceThoughNoReplyCame(t *testing.T) {
	inWorld(t, func(w *world) {
		retry := func(id string) (form func() answer) {
			fields := w.fill("/tasks/default/" + id)
			return func() answer { return w.send(http.MethodPost, "/tasks/default/"+id+"/retry", fields) }
		}
		w.failed("first")
		retry("first")() // so that Redis knows the script
		ref := w.failed("a")
		send := retry("a")
		w.away.Store(unheard)
		if got := send(); got.status != http.StatusServiceUnavailable {
			t.Errorf("without a reply: %d", got.status)
		}
		w.away.Store(0)
		if got := send(); got.leadsTo() != "/tasks/default/a?said=retried" {
			t.Errorf("sent again before it runs: %d to %q", got.status, got.leadsTo())
		}
		run := w.beginAttempt(ref, 2)
		testkit.Must(t, clock.Sleep(w.ctx, time.Second)) // a task ends once a millisecond at most
		testkit.Must(t, run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "HTTP 503"))
		w.serve() // another node, which does not know the form
		got := send()
		if got.status != http.StatusConflict || !strings.Contains(got.text, "It was retried after this page was read") {
			t.Errorf("sent again after it has run: %d\n%s", got.status, got.text)
		}
		if now := w.task(ref); now.State != task.Failed || now.Attempt != 2 {
			t.Errorf("it is %s in attempt %d: it was run twice", now.State, now.Attempt)
		}
		if got := retry("a")(); got.status != http.StatusSeeOther || w.task(ref).State != task.Scheduled {
			t.Errorf("from a page that was read again: %d", got.status)
		}
	})
}

// A submission that was edited after no reply came is refused once, with the way to what was submitted first.
func TestSubmit_EditedAfterNoReplyCame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("first", nil) // so that Redis knows the script
		form := w.typed("/submit", "type", "http", "payload.url", "http://localhost/a")
		w.away.Store(unheard)
		if got := w.send(http.MethodPost, "/submit", form); got.status != http.StatusServiceUnavailable {
			t.Errorf("without a reply: %d", got.status)
		}
		w.away.Store(0)
		before, key := w.tasks(), form.Get(keyField)
		form.Set("payload.url", "http://localhost/b")
		got := w.send(http.MethodPost, "/submit", form)
		want := `was submitted as <a href="/tasks/default/` + key + `"><code dir="auto">` + key + `</code></a>. Send again`
		if got.status != http.StatusConflict || !strings.Contains(got.text, want) || strings.Contains(got.text, "is taken") {
			t.Fatalf("edited: %d\n%s", got.status, got.text)
		}
		again := w.shownAgain(got.text, keyOf(got.text))
		if url := again.Get("payload.url"); again.Get(keyField) == key || url != "http://localhost/b" {
			t.Errorf("shown again, its key is %s, and its URL %s", again.Get(keyField), url)
		}
		got = w.send(http.MethodPost, "/submit", again)
		if after := w.tasks(); got.status != http.StatusSeeOther || after != before+1 {
			t.Errorf("sent again: %d, %d tasks, and %d before\n%s", got.status, after, before, got.text)
		}
		w.submit("taken", nil) // by somebody
		form = w.typed("/submit", "type", "http", "payload.url", "http://localhost/b", "id", "taken")
		got = w.send(http.MethodPost, "/submit", form)
		if got.status != http.StatusConflict || strings.Contains(got.text, "What you sent first") {
			t.Errorf("with the id of another task: %d\n%s", got.status, got.text)
		}
	})
}

// keyOf is the key of the last form of a page.
func keyOf(page string) (key string) {
	for _, field := range hidden.FindAllStringSubmatch(page, -1) {
		if field[1] == keyField {
			key = field[2]
		}
	}
	return key
}

// Whatever field is wrong, the form keeps all that was typed, names the field, and works once it is corrected.
func TestForms_KeepWhatWasTyped(t *testing.T) {
	long := strings.Repeat("x", 501)
	wrong := map[string]string{
		"/submit": "retry.max_attempts", "/schedules/default/a/pause": "note", "/tasks/default/waits/cancel": "note",
		"/tasks/default/waits/queue": "queue", "/queues/reports/pause": "note", "/queues/reports/capacity": "capacity",
		"/nodes/cordon":                    "note",
		"/bulk/new/cancel?state=scheduled": "note", "/schedules/default/a/backfill": "pace",
	}
	withForms(t, func(w *world, path string, form url.Values, fields []string, done func() bool) {
		field := wrong[path]
		if field == "" || form.Get("as") == "json" {
			return
		}
		good := form.Get(field)
		form.Set(field, long)
		got := w.send(http.MethodPost, path, form)
		if got.status != http.StatusBadRequest || !strings.Contains(got.text, `role="alert"`) ||
			!strings.Contains(got.text, `aria-invalid="true" aria-describedby="w-`+field+`"`) ||
			!strings.Contains(got.text, ` id="w-`+field+`"`) || !strings.Contains(got.text, long) {
			w.t.Errorf("%d: the page does not name %s, or not what it had:\n%s", got.status, field, got.text)
		}
		if path == "/schedules/default/a/backfill" { // whose fields are those of its preview
			return
		}
		again := w.shownAgain(got.text, form.Get(keyField))
		for i := 0; i < len(fields); i += 2 {
			switch typed := again.Get(fields[i]); {
			case fields[i] == "do":
				again.Set("do", fields[i+1])
			case fields[i] != field && typed != fields[i+1]:
				w.t.Errorf("%s is %q, want %q", fields[i], typed, fields[i+1])
			}
		}
		again.Set(field, good)
		if got := w.send(http.MethodPost, path, again); got.status != http.StatusSeeOther || !done() {
			w.t.Errorf("corrected: %d\n%s", got.status, got.text)
		}
	})
}

// A preview with a wrong field keeps the others, and names it.
func TestPreviews_KeepWhatWasTyped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.failed("failed")
		for address, wants := range map[string][]string{
			"/schedules/default/a/backfill?from=3h&to=soon&pace=5s": {
				`value="3h"`, `value="soon"`, `value="5s"`, `id="w-to"`,
			},
			"/bulk/new/retry?state=failed&spread=long":    {`name="state" value="failed"`, `value="long"`, `id="w-spread"`},
			"/bulk/new/requeue?state=failed&to_queue=a+b": {`value="a b"`, `role="alert"`},
		} {
			got := w.get(address)
			for _, want := range wants {
				if !strings.Contains(got.text, want) {
					t.Errorf("%s lacks %s:\n%s", address, want, got.text)
				}
			}
		}
	})
}

// A wrong time zone, and a wrong namespace, are told beside the field, with what was typed and a way back.
func TestPreferences_KeepWhatWasTyped(t *testing.T) {
	inWorld(t, func(w *world) {
		got := w.get("/prefer/zone?value=Nowhere%3C", "Referer", "http://example.com/tasks?state=failed")
		for _, want := range []string{
			`action="/prefer/zone"`, `name="value" value="Nowhere&lt;"`, `id="w-value"`, "must be the name of a time zone",
			`href="/tasks?state=failed"`, `name="from" value="/tasks?state=failed"`,
		} {
			if !strings.Contains(got.text, want) {
				t.Errorf("the page lacks %s:\n%s", want, got.text)
			}
		}
		to := w.get("/prefer/zone?value=UTC&from=" + url.QueryEscape("/tasks?state=failed")).header.Get("Location")
		if to != "/tasks?state=failed" {
			t.Errorf("corrected, it leads to %q", to)
		}
		for from, want := range map[string]string{
			"//evil.example/tasks": "/tasks", "http://evil.example/": "/", `/\evil`: "/",
		} {
			if to := w.get("/prefer/zone?value=UTC&from=" + url.QueryEscape(from)).header.Get("Location"); to != want {
				t.Errorf("from %s it leads to %q", from, to)
			}
		}
		got = w.get("/tasks?namespace=a+b&state=failed&label=a%3D1&label=b%3D2")
		for _, want := range []string{
			`name="state" value="failed"`, `name="namespace" value="a b"`, `id="w-namespace"`, `action="/tasks"`,
			`name="label" value="a=1"`, `name="label" value="b=2"`,
		} {
			if got.status != http.StatusBadRequest || !strings.Contains(got.text, want) {
				t.Errorf("%d: the page lacks %s:\n%s", got.status, want, got.text)
			}
		}
	})
}

// A form whose fields were changed is another one, though it has the same key, as after going back.
func TestForm_WithOtherFieldsActsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		const edit = "/schedules/default/a/edit"
		form := w.checked(edit, w.fill(edit, "text", definitionOf("every: 2h"), "do", "put"))
		w.expectDone("/schedules/default/a/edit", form, "/schedules/default/a?n=2&said=put")
		form.Set("text", definitionOf("every: 3h"))
		got := w.send(http.MethodPost, "/schedules/default/a/edit", form)
		if got.status != http.StatusOK || !strings.Contains(got.text, "Somebody has put revision 2 meanwhile.") {
			t.Errorf("%d: %s", got.status, got.text)
		}
	})
}

// The text of a schedule that was deleted meanwhile is not lost.
func TestScheduleEdit_OutlivesItsSchedule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		form := w.fill("/schedules/default/a/edit", "text", definitionOf("every: 2h"), "do", "put")
		_, err := w.control.DeleteSchedule(w.ctx, me, "a", control.DeleteNone)
		testkit.Must(t, err)
		got := w.send(http.MethodPost, "/schedules/default/a/edit", form)
		if got.status != http.StatusOK || !strings.Contains(got.text, "Somebody has deleted the schedule meanwhile.") {
			t.Fatalf("%d: %s", got.status, got.text)
		}
		again := w.shownAgain(got.text, form.Get(keyField))
		again.Set("do", "put")
		w.expectDone("/schedules/default/a/edit", again, "/schedules/default/a?n=1&said=put")
	})
}

// A form of an old page does not undo what somebody has done since.
func TestForms_ActOnWhatTheirReaderHasSeen(t *testing.T) {
	inWorld(t, func(w *world) {
		const refused = "It has changed since this page was read."
		delayed := func() { w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour }) }
		pauseQueue := func() { testkit.Must(t, w.control.PauseQueue(w.ctx, me, "reports", "")) }
		cordon := func() {
			_, err := w.control.CordonNode(w.ctx, me, "node-a", control.Cordoning{})
			testkit.Must(t, err)
		}
		pause := func() { _, err := w.control.PauseSchedule(w.ctx, me, "a", "for the holidays"); testkit.Must(t, err) }
		resume := func() { _, err := w.control.ResumeSchedule(w.ctx, me, "a"); testkit.Must(t, err) }
		w.put("a", nil)
		w.submit("due", func(d *task.Definition) { d.Queue = "reports" })
		w.claim(0)
		pause()
		pauseQueue()
		delayed()
		cordon()
		for _, c := range []struct {
			page, path, not string
			undoAndRedo     func()
			acted           func() bool
		}{
			{"/tasks/default/waits", "/tasks/default/waits/cancel", "cancelled", func() {
				_, err := w.control.CancelTask(w.ctx, me, "waits", "")
				testkit.Must(t, err)
				_, err = w.control.RetryTask(w.ctx, me, "waits", time.Time{})
				testkit.Must(t, err)
			}, func() bool { return w.task(w.ref("waits")).State == task.Cancelled }},
			{"/queues/reports", "/queues/reports/resume", "resumed", func() {
				testkit.Must(t, w.control.ResumeQueue(w.ctx, me, "reports"))
				w.pass(time.Minute)
				pauseQueue()
			}, func() bool { return !w.queue("reports").Paused }},
			{"/nodes", "/nodes/uncordon", "uncordoned", func() {
				w.pass(time.Minute)
				cordon()
			}, func() bool { return w.nodes[0].Cordon == nil }},
			{"/schedules/default/a/resume", "/schedules/default/a/resume", "resumed", func() {
				resume()
				w.pass(time.Minute)
				pause()
			}, func() bool { return w.schedule("a").PausedAt.IsZero() }},
			{"/schedules/default/a/delete", "/schedules/default/a/delete", "deleted", func() { w.edit("a") },
				func() bool { _, err := w.control.GetSchedule(w.ctx, me, "a"); return err != nil }},
		} {
			old := w.fill(c.page)
			c.undoAndRedo()
			got := w.send(http.MethodPost, c.path, old)
			if got.status < 400 || !strings.Contains(got.text, "<b>Not "+c.not+".</b> "+refused) || c.acted() {
				t.Fatalf("%s: an old form: %d, acted: %t\n%s", c.path, got.status, c.acted(), got.text)
			}
			again := w.shownAgain(got.text, old.Get(keyField))
			for range 2 { // the second one finds that it is done
				w.serve()
				if got := w.send(http.MethodPost, c.path, again); got.status != http.StatusSeeOther || !c.acted() {
					t.Errorf("%s: shown again: %d, acted: %t\n%s", c.path, got.status, c.acted(), got.text)
				}
			}
		}
	})
}

// Whoever has paused a schedule first is named: another form says so, and leaves the name and the note.
func TestForms_LeaveThePauseOfOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		const path = "/schedules/default/a/pause"
		w.put("a", nil)
		form := w.fill(path, "note", "mine")
		ann := me
		ann.Name = "ann"
		_, err := w.control.PauseSchedule(w.ctx, ann, "a", "hers")
		testkit.Must(t, err)
		got := w.send(http.MethodPost, path, form)
		if got.status != http.StatusPreconditionFailed || !regexp.MustCompile(`Paused already.</b> <bdi>ann.* paused it at `+
			`<.*>15:04:05</time>. The note is: <bdi>hers</bdi>.*Your note is not kept: <bdi>mine</bdi> `+
			`See <a href="/schedules/default/a">`).MatchString(got.text) {
			t.Errorf("paused by another: %d: %s", got.status, got.text)
		}
		w.get("/prefer/language/zh")
		w.put("c", nil)
		form = w.fill("/schedules/default/c/pause", "note", "mine")
		_, err = w.control.PauseSchedule(w.ctx, control.Caller{Namespace: "default", Address: "10.0.0.7"}, "c", "")
		testkit.Must(t, err)
		got = w.send(http.MethodPost, "/schedules/default/c/pause", form)
		if !strings.Contains(got.text, "<b>已被暂停。</b> <bdi>10.0.0.7 的某人</bdi>") {
			t.Errorf("in Chinese: %s", got.text)
		}
		w.get("/prefer/language/en")
		if s := w.schedule("a"); s.PauseNote != "hers" || !strings.Contains(s.PausedBy, "ann") {
			t.Errorf("it is paused by %q: %q", s.PausedBy, s.PauseNote)
		}
		w.put("b", nil)
		form = w.fill("/schedules/default/b/pause", "note", "mine")
		for range 2 { // the second time at another node
			w.expectDone("/schedules/default/b/pause", form, "/schedules/default/b?said=paused")
			w.serve()
		}
	})
}

// sentBeforeTo is what is said of a form that was sent before, whose result is a page: when that was, and a link.
func sentBeforeTo(page string) *regexp.Regexp {
	return regexp.MustCompile(`This form was sent before\. [^.]*>15:04:05</time> UTC[^:]* ` +
		`Its result: <a href="` + page + `">`)
}

// A submission, or a definition, that was sent before says what came of it, when, and where that is. Each asks to be
// sent again only if that does something.
func TestForms_SentBeforeLeadToTheirResult(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		const submit, edit, create = "/submit", "/schedules/default/a/edit", "/schedules/new"
		anyID := w.typed(submit, "type", "http", "payload.url", "http://localhost/a")
		ownID := w.typed(submit, "type", "http", "payload.url", "http://localhost/a", "id", "mine")
		put := w.checked(edit, w.fill(edit, "text", definitionOf("every: 2h"), "do", "put"))
		created := w.checked(create, w.fill(create, "text", strings.ReplaceAll(definitionOf("every: 1h"), "id: a", "id: b"),
			"do", "put"))
		rows := []struct {
			path, page, offer string
			form              url.Values
		}{
			{submit, "/tasks/default/" + anyID.Get(keyField), "Send it again to submit another one.", anyID},
			{submit, "/tasks/default/mine", "", ownID},
			{edit, "/schedules/default/a", "", put},
			{create, "/schedules/default/b", "", created},
		}
		for _, r := range rows {
			if got := w.send(http.MethodPost, r.path, r.form); got.status != http.StatusSeeOther {
				t.Fatalf("%s: %d: %s", r.path, got.status, got.text)
			}
		}
		w.pass(time.Minute)
		for _, r := range rows {
			got := w.send(http.MethodPost, r.path, r.form)
			if got.status != http.StatusConflict || !sentBeforeTo(r.page).MatchString(got.text) ||
				!strings.Contains(got.text, r.offer) || strings.Contains(got.text, "Send it again") != (r.offer != "") ||
				strings.Contains(got.text, `class="note bad" role="alert"`) || strings.Contains(got.text, "not submitted") {
				t.Errorf("%s: %d: %s", r.page, got.status, got.text)
			}
		}
	})
}

// A form without the token of its reader does nothing. It is shown again with what was typed, and with the token.
func TestForms_WithoutATokenKeepWhatWasTyped(t *testing.T) {
	withForms(t, func(w *world, path string, form url.Values, fields []string, done func() bool) {
		form.Set(tokenField, strings.Repeat("A", 26))
		w.cookies = nil
		got := w.send(http.MethodPost, path, form)
		if got.status != http.StatusForbidden || !strings.Contains(got.text, "The form is too old, or of another page.") ||
			strings.Contains(got.text, "token:") || done() {
			w.t.Fatalf("%d, done: %t: %s", got.status, done(), got.text)
		}
		if strings.HasSuffix(path, "/backfill") { // whose fields are those of its preview
			return
		}
		var has []string
		if len(fields) > 0 && fields[0] != "do" {
			has = fields[:1]
		}
		again := w.shownAgain(got.text, form.Get(keyField), has...)
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == "do" {
				again.Set("do", fields[i+1])
			} else if typed := again.Get(fields[i]); typed != fields[i+1] {
				w.t.Errorf("%s is %q, want %q", fields[i], typed, fields[i+1])
			}
		}
		if got := w.send(http.MethodPost, path, again); got.status != http.StatusSeeOther || !done() {
			w.t.Errorf("sent again: %d\n%s", got.status, got.text)
		}
	})
}

// A form that was done before says so. It asks to be sent again only if its page still has it.
func TestForms_OfferNothingThatIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.submit("later", func(d *task.Definition) { d.Delay = time.Hour })
		w.submit("moves", func(d *task.Definition) { d.Delay = time.Hour })
		w.submit("due", func(d *task.Definition) { d.Queue = "reports" })
		w.claim(0)
		w.bulk("moving", bulks.Running, 3)
		const later, moves, reports = "/tasks/default/later", "/tasks/default/moves", "/queues/reports"
		rows := []struct {
			path, page, said string
			form             url.Values
			offered          bool
		}{
			{"/schedules/default/a/delete", "/schedules", "deleted", w.fill("/schedules/default/a/delete"), false},
			{"/tasks/default/later/now", later, "due", w.form(later), false},
			{"/tasks/default/moves/queue", moves, "moved", w.fill(moves, "queue", "low"), true},
			{"/queues/reports/capacity", reports, "queue-capacity", w.fill(reports, "capacity", "7"), true},
			{"/queues/reports/pause", reports, "queue-paused", w.form(reports), false},
			{"/bulk/moving/stop", "/bulk/moving", "bulk-stopped", w.form("/bulk/moving"), false},
		}
		for _, r := range rows {
			w.expectDone(r.path, r.form, r.page+"?said="+r.said)
		}
		_, err := w.control.CancelTask(w.ctx, me, "later", "")
		testkit.Must(t, err)
		moving, err := w.store.Bulks.Get(w.ctx, "moving")
		testkit.Must(t, err)
		moving.State = bulks.Stopped
		_, err = w.store.Bulks.Update(w.ctx, moving)
		testkit.Must(t, err)
		w.pass(time.Minute)
		for _, r := range rows {
			got := w.send(http.MethodPost, r.path, r.form)
			if got.status != http.StatusConflict || !sentBeforeTo(r.page).MatchString(got.text) ||
				strings.Contains(got.text, "to do it once more") != r.offered || strings.Contains(got.text, "The task changed") ||
				strings.Contains(got.text, "&amp;#") || strings.Contains(got.text, `class="note bad" role="alert"`) {
				t.Errorf("%s: %d: %s", r.path, got.status, got.text)
			}
		}
	})
}

// After the refusal of a form, its address is that of the browser: opened again, it leads to the page of the form.
func TestForms_AddressesLeadToTheirPages(t *testing.T) {
	inWorld(t, func(w *world) {
		for path, page := range map[string]string{
			"/tasks/default/x/retry": "/tasks/default/x", "/queues/low/pause": "/queues/low", "/bulk/7/stop": "/bulk/7",
			"/tasks/shop/a%2Fb/queue?namespace=shop": "/tasks/shop/a%2Fb?namespace=shop",
		} {
			if got := w.get(path); got.status != http.StatusSeeOther || got.leadsTo() != page {
				t.Errorf("%s: %d to %q", path, got.status, got.leadsTo())
			}
		}
	})
}

// A form that is sent again after a while, as by Back, says that it was done, and acts when it is sent once more: what
// it did may have been undone since.
func TestForms_AskBeforeTheyActAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		const path = "/schedules/default/a/pause"
		w.put("a", nil)
		form := w.fill(path, "note", "holidays")
		w.expectDone(path, form, "/schedules/default/a?said=paused")
		_, err := w.control.ResumeSchedule(w.ctx, me, "a")
		testkit.Must(t, err)
		w.pass(time.Minute)
		w.away.Store(unreachable)
		got := w.send(http.MethodPost, path, form)
		if got.status < 400 || !sentBeforeTo("/schedules/default/a").MatchString(got.text) ||
			!strings.Contains(got.text, "Its page cannot be shown: ") {
			t.Errorf("sent again while Redis is away: %d: %s", got.status, got.text)
		}
		w.away.Store(0)
		w.pass(time.Minute)
		got = w.send(http.MethodPost, path, form)
		if got.status < 400 || !strings.Contains(got.text, "Send it again to do it once more.") {
			t.Fatalf("sent again: %d: %s", got.status, got.text)
		}
		if !w.schedule("a").PausedAt.IsZero() {
			t.Fatal("it is paused")
		}
		var again url.Values
		for _, key := range regexp.MustCompile(`name="key" value="([A-Z2-7]+)"`).FindAllStringSubmatch(got.text, -1) {
			if shown := w.shownAgain(got.text, key[1]); shown.Has("note") {
				again = shown
			}
		}
		if again.Get(keyField) == form.Get(keyField) || again.Get("note") != "holidays" {
			t.Errorf("the form that is shown again is %v", again)
		}
		w.expectDone(path, again, "/schedules/default/a?said=paused")
		if w.schedule("a").PausedAt.IsZero() {
			t.Error("it is not paused")
		}
	})
}
