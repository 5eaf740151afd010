package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

var hidden = regexp.MustCompile(`name="(token|key)" value="([^"]*)"`)

// form is what a browser sends of the first form of a page.
func (w *world) form(path string) url.Values {
	w.t.Helper()
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(w.get(path).text, 2) {
		form.Set(field[1], field[2])
	}
	if len(form) != 2 {
		w.t.Fatalf("%s has no form with a token and a key: %v", path, form)
	}
	return form
}

// failed is a task that has failed.
func (w *world) failed(id string) task.Ref {
	w.t.Helper()
	ref := w.submit(id, nil)
	w.run(ref, time.Second, task.Failed, "", "HTTP 503")
	return ref
}

func (w *world) task(ref task.Ref) task.Task {
	w.t.Helper()
	found, err := w.control.GetTask(w.ctx, me, ref.ID)
	testkit.Must(w.t, err)
	return found
}

func TestForm_ActsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.failed("a")
		form := w.form("/tasks/default/a")
		shown := ""
		for try := range 3 {
			got := w.send(http.MethodPost, "/tasks/default/a/retry", form)
			if got.status != http.StatusSeeOther || got.leadsTo() != "/tasks/default/a?said=retried" {
				t.Fatalf("try %d: %d to %q", try, got.status, got.header.Get("Location"))
			}
			shown = got.header.Get("Location")
			if try == 0 { // it could be retried again
				run := w.beginAttempt(ref, 2)
				testkit.Must(t, run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "HTTP 503"))
			}
		}
		if got := w.task(ref); got.State != task.Failed || got.Attempt != 2 {
			t.Errorf("the task is %s in attempt %d: it was retried twice", got.State, got.Attempt)
		}
		if said := w.get(shown).text; !strings.Contains(said, "The task was retried at ") {
			t.Error("the page does not say what was done")
		}
		form = w.form("/tasks/default/a")
		if got := w.send(http.MethodPost, "/tasks/default/a/retry", form); got.status != http.StatusSeeOther {
			t.Errorf("the form, shown again: %d", got.status)
		}
	})
}

func TestForm_ThatFailedMayBeSentAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.form("/tasks/default/" + w.failed("other").ID)
		if got := w.send(http.MethodPost, "/tasks/default/a/retry", form); got.status != http.StatusNotFound {
			t.Errorf("of a task that is not there: %d", got.status)
		}
		w.failed("a")
		if got := w.send(http.MethodPost, "/tasks/default/a/retry", form); got.status != http.StatusSeeOther {
			t.Errorf("of the task that is there now: %d", got.status)
		}
	})
}

func TestForm_IsRefused(t *testing.T) {
	const done, refused, invalid = http.StatusSeeOther, http.StatusForbidden, http.StatusBadRequest
	other := strings.Repeat("A", 26)
	for name, c := range map[string]struct {
		change  func(w *world, form url.Values)
		headers []string
		want    int
	}{
		"as it is":               {want: done},
		"from the same origin":   {headers: []string{"Sec-Fetch-Site", "same-origin"}, want: done},
		"without a token":        {change: func(_ *world, f url.Values) { f.Del("token") }, want: refused},
		"with another token":     {change: func(_ *world, f url.Values) { f.Set("token", other) }, want: refused},
		"without a cookie":       {change: func(w *world, _ url.Values) { w.cookies = nil }, want: refused},
		"without both":           {change: func(w *world, f url.Values) { w.cookies = nil; f.Del("token") }, want: refused},
		"without a key":          {change: func(_ *world, f url.Values) { f.Del("key") }, want: invalid},
		"with a key of a client": {change: func(_ *world, f url.Values) { f.Set("key", "1") }, want: invalid},
		"from another site":      {headers: []string{"Sec-Fetch-Site", "cross-site"}, want: refused},
		"from another origin":    {headers: []string{"Origin", "http://evil.example"}, want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ref := w.failed("a")
				form := w.form("/tasks/default/a")
				if c.change != nil {
					c.change(w, form)
				}
				got := w.send(http.MethodPost, "/tasks/default/a/retry", form, c.headers...)
				if got.status != c.want {
					t.Errorf("status %d, want %d", got.status, c.want)
				}
				if state := w.task(ref).State; (state == task.Failed) != (c.want != done) {
					t.Errorf("the task is %s", state)
				}
				if kind := got.header.Get("Content-Type"); c.want >= 400 && !strings.HasPrefix(kind, "text/html") {
					t.Errorf("what went wrong is told as %s", kind)
				}
			})
		})
	}
}

// A form for a path with an empty part, which no page has, is answered with a page.
func TestForm_WithAnEmptyPartIsNotFound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.failed("a")
		form := w.form("/tasks/default/a")
		for _, path := range []string{
			"/tasks//a/retry", "/tasks/default//retry", "/queues//pause", "/schedules//a/pause", "/bulk//stop",
		} {
			got := w.send(http.MethodPost, path, form)
			if got.status != http.StatusNotFound || !strings.Contains(got.text, "Nothing is here") {
				t.Errorf("%s: %d\n%.300s", path, got.status, got.text)
			}
		}
	})
}

func TestForm_SendsTheNoteOfACancel(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.submit("a", func(d *task.Definition) { d.Delay = time.Hour })
		if page := w.get("/tasks/default/a").text; !strings.Contains(page, ` name="note"`) {
			t.Error("the page has no field for the note")
		}
		got := w.send(http.MethodPost, "/tasks/default/a/cancel", w.typed("/tasks/default/a", "note", " withdrawn "))
		if a := w.task(ref); got.status != http.StatusSeeOther || a.State != task.Cancelled ||
			!strings.HasSuffix(a.Error, ": withdrawn") {
			t.Errorf("status %d, the task is %s: %q", got.status, a.State, a.Error)
		}
	})
}

func TestForm_TokenIsThatOfItsReader(t *testing.T) {
	inWorld(t, func(w *world) {
		w.failed("a")
		first := w.form("/tasks/default/a")
		again := w.form("/tasks/default/a")
		if first.Get("token") != again.Get("token") || first.Get("key") == again.Get("key") {
			t.Errorf("%v and then %v", first, again)
		}
		w.cookies = nil
		if other := w.form("/tasks/default/a"); other.Get("token") == first.Get("token") {
			t.Error("two readers have the same token")
		}
		c := w.cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
			t.Errorf("the cookie is %s", c)
		}
	})
}

func TestPreferences_AreKept(t *testing.T) {
	for path, want := range map[string]struct {
		status int
		cookie string
	}{
		"/prefer/language/zh":                  {http.StatusSeeOther, "dts-language=zh"},
		"/prefer/language/fr":                  {http.StatusNotFound, ""},
		"/prefer/theme/dark":                   {http.StatusSeeOther, "dts-theme=dark"},
		"/prefer/theme/%22%3E":                 {http.StatusNotFound, ""},
		"/prefer/zone/Europe/Berlin":           {http.StatusSeeOther, "dts-zone=Europe/Berlin"},
		"/prefer/zone/UTC":                     {http.StatusSeeOther, "dts-zone=UTC"},
		"/prefer/zone/Local":                   {http.StatusBadRequest, ""},
		"/prefer/zone/":                        {http.StatusBadRequest, ""},
		"/prefer/zone/../../etc/hosts":         {http.StatusBadRequest, ""},
		"/prefer/zone/Nowhere":                 {http.StatusBadRequest, ""},
		"/prefer/form/AAAA":                    {http.StatusNotFound, ""},
		"/prefer/zone":                         {http.StatusBadRequest, ""},
		"/prefer/zone?value=Nowhere":           {http.StatusBadRequest, ""},
		"/prefer/form?value=AAAA":              {http.StatusNotFound, ""},
		"/prefer/zone?value=+Asia%2FShanghai+": {http.StatusSeeOther, "dts-zone=Asia/Shanghai"},
	} {
		inWorld(t, func(w *world) {
			got := w.get(path)
			cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
			if got.status != want.status || cookie != want.cookie {
				t.Errorf("%s: %d, %q, want %d, %q", path, got.status, cookie, want.status, want.cookie)
			}
			if all := got.header.Get("Set-Cookie"); cookie != "" && !strings.Contains(all, "; HttpOnly") {
				t.Errorf("a script can read %s", all)
			}
		})
	}
}

// Each page offers what a reader can choose, and a choice that is wrong is told on a page.
func TestPreferences_AreOffered(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, offer := range []string{
			` action="/prefer/zone"`, ` href="/prefer/theme/light"`, ` href="/prefer/theme/dark"`,
			` href="/prefer/theme/system"`, ` href="/prefer/language/zh"`,
		} {
			if !strings.Contains(w.get("/").text, offer) {
				t.Errorf("a page does not have %s", offer)
			}
		}
		w.get("/prefer/zone?value=Europe/Berlin")
		if page := w.get("/").text; !strings.Contains(page, ` href="/prefer/zone/UTC"`) {
			t.Error("no link leads back to UTC")
		}
		if got := w.get("/prefer/zone?value=Nowhere").text; !strings.Contains(got, "must be the name of a time zone") {
			t.Errorf("a wrong zone is told as %.2000s", got)
		}
	})
}

// A preference leads back to the page it came from, and to no other server.
func TestPreferences_LeadBack(t *testing.T) {
	inWorld(t, func(w *world) {
		for referer, want := range map[string]string{
			"":                                       "/",
			"http://example.com/tasks?state=failed":  "/tasks?state=failed",
			"http://evil.example/tasks":              "/",
			"http://example.com//evil.example/":      "/",
			"http://example.com//tasks":              "/",
			`http://example.com/\evil.example/`:      "/",
			"http://example.com@evil.example/tasks":  "/",
			"http://example.com:80/tasks":            "/",
			"javascript:alert(1)":                    "/",
			"http://example.com/%2F/evil.example/a":  "/",
			"http://example.com/tasks\r\nSet-Cookie": "/",
			"http://example.com/tasks/a/b%2Fretry":   "/tasks/a/b%2Fretry",
			"http://example.com/tasks/":              "/tasks",
			"http://example.com/nowhere":             "/",
			"tasks":                                  "/",
			// answers to forms
			"http://example.com/queues/x/capacity":           "/queues/x",
			"http://example.com/tasks/default/a/retry?n=1":   "/tasks/default/a?n=1",
			"http://example.com/bulk/new/retry?state=failed": "/bulk/new/retry?state=failed",
			"http://example.com/schedules/default/a/edit":    "/schedules/default/a/edit",
			"http://example.com/submit":                      "/submit",
		} {
			got := w.get("/prefer/language/zh", "Referer", referer).header.Get("Location")
			if got != want {
				t.Errorf("from %q to %q, want %q", referer, got, want)
			}
		}
	})
}

func TestPreferences_Hold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		for _, path := range []string{"/prefer/zone/Asia/Shanghai", "/prefer/theme/dark", "/prefer/language/zh"} {
			w.get(path)
		}
		page := w.get("/tasks/default/a").text
		for _, want := range []string{`<html lang="zh`, `data-theme="dark"`, `title="2026-01-02 23:04:05.000 CST"`} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not have %s", want)
			}
		}
		w.cookies = []*http.Cookie{
			{Name: "dts-zone", Value: "../../etc/passwd"}, {Name: "dts-theme", Value: `'><script>`},
			{Name: "dts-language", Value: "xx"},
		}
		page = w.get("/tasks/default/a").text
		for _, want := range []string{`<html lang="en"`, `title="2026-01-02 15:04:05.000 UTC"`} {
			if !strings.Contains(page, want) {
				t.Errorf("with cookies that say nothing, the page does not have %s", want)
			}
		}
		if strings.Contains(page, "data-theme=") {
			t.Error("a theme that there is not is shown")
		}
	})
}

func TestSentForms_WaitForTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		s := sentForms{forms: map[string]*sentForm{}}
		answers := make(chan string, 2)
		n := 0
		for range 2 {
			go func() {
				done, _ := s.once("key", func() (result, error) {
					n++
					return result{said: "done"}, clock.Sleep(w.ctx, time.Second)
				})
				answers <- done.said
			}()
		}
		if a, b := <-answers, <-answers; a != "done" || b != "done" || n != 1 {
			t.Errorf("did it %d times: %q, %q", n, a, b)
		}
		for i := range 2 * sentLimit {
			_, _ = s.once(itoa(i), func() (result, error) { return result{said: "done"}, nil })
		}
		if len(s.forms) != sentLimit || len(s.keys) != sentLimit {
			t.Errorf("it remembers %d forms", len(s.forms))
		}
	})
}

func TestSentForms_KeepWhatRuns(t *testing.T) {
	s := sentForms{forms: map[string]*sentForm{}}
	_, _ = s.once("runs", func() (result, error) {
		for i := range 2 * sentLimit {
			_, _ = s.once(itoa(i), func() (result, error) { return result{said: "done"}, nil })
		}
		if s.forms["runs"] == nil || len(s.forms) != sentLimit || len(s.keys) != sentLimit {
			t.Errorf("of %d forms, it keeps the one that runs: %t", len(s.forms), s.forms["runs"] != nil)
		}
		return result{said: "done"}, nil
	})
}

func TestSentForms_ForgetAPanic(t *testing.T) {
	s := sentForms{forms: map[string]*sentForm{}}
	func() {
		defer func() { _ = recover() }()
		_, _ = s.once("key", func() (result, error) { panic("on purpose") })
	}()
	done, err := s.once("key", func() (result, error) { return result{said: "done"}, nil })
	if err != nil || done.said != "done" {
		t.Errorf("sent again: %+v, %v", done, err)
	}
}

// The key of a sentence says which one, whatever the page that shows it.
func TestActions_ShareNoKeys(t *testing.T) {
	said := sentencesByKey{}
	for _, a := range actions {
		for key, text := range a.says {
			if other, has := said[key]; has && other != text {
				t.Errorf("%s says %q, and %q elsewhere", key, text, other)
			}
			said[key] = text
		}
	}
}

// What a page says of an action stays true whatever happens next: it says in the past tense what was done, and when.
func TestActions_SayWhatWasDoneAndWhen(t *testing.T) {
	present := regexp.MustCompile(`\b(is|are|has|have|may|goes|stops|waits|takes?|knows?|now)\b`)
	for _, a := range actions {
		for _, text := range a.says {
			if strings.Count(text, "%s") != 1 || present.MatchString(text) {
				t.Errorf("%s says %q", a.path, text)
			}
		}
	}
}

// A form that is sent again after somebody else has undone what it did says when that was done, and that it was sent
// twice.
func TestForms_SentTwiceSayWhenTheyActed(t *testing.T) {
	inWorld(t, func(w *world) {
		const path = "/schedules/default/a/pause"
		w.put("a", nil)
		form := w.fill(path, "note", "holidays")
		first := w.send(http.MethodPost, path, form).header.Get("Location")
		at := w.control.Now(w.ctx)
		_, err := w.control.ResumeSchedule(w.ctx, me, "a")
		testkit.Must(t, err)
		w.pass(answeredFor / 2)
		again := w.send(http.MethodPost, path, form).header.Get("Location")
		said := func(address string) string {
			_, note, _ := strings.Cut(w.get(address).text, `<div class="note ok" role="status">`)
			note, _, _ = strings.Cut(note, "</div></div>")
			return note
		}
		zone := http.Cookie{Name: "dts-zone", Value: "Asia/Shanghai"}
		w.cookies = append(w.cookies, &zone)
		shown := ">" + at.Add(8*time.Hour).UTC().Format("15:04:05") + "</time>."
		const twice = "You sent this form twice; it was done once."
		if note := said(first); !strings.Contains(note, shown) || strings.Contains(note, twice) {
			t.Errorf("the page says %q, and not %q", note, shown)
		}
		if note := said(again); !strings.Contains(note, shown) || !strings.Contains(note, twice) {
			t.Errorf("sent again, the page says %q, and not %q", note, shown)
		}
		if note := said(strings.Replace(first, "at=", "at=1", 1)); note != "" {
			t.Errorf("with a time that somebody made up, the page says %q", note)
		}
	})
}

// What was done is said to who has done it: a link that somebody else made up says nothing.
func TestSaid_IsOnlyForWhoActed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.failed("a")
		w.failed("b")
		const said = "The task was retried at "
		shown := w.send(http.MethodPost, "/tasks/default/a/retry", w.form("/tasks/default/a")).header.Get("Location")
		for range 2 { // also if the page is loaded again
			if page := w.get(shown).text; !strings.Contains(page, said) {
				t.Fatalf("the page does not say what was done:\n%s", page)
			}
		}
		cookies := w.cookies
		for _, c := range []struct {
			what, address string
			cookies       []*http.Cookie
		}{
			{"no mark", "/tasks/default/a?said=retried", cookies}, {"no cookie", shown, nil},
			{"another task", strings.Replace(shown, "/a?", "/b?", 1), cookies},
			{"another sentence", strings.Replace(shown, "retried", "due", 1), cookies},
			{"a number", shown + "&n=-5", cookies},
		} {
			w.cookies = c.cookies
			if page := w.get(c.address).text; strings.Contains(page, `<div class="note ok" role="status">`) {
				t.Errorf("%s: the page says what nobody has done", c.what)
			}
		}
	})
}
