package web

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// leading are attributes that lead to a page on this server.
var leading = regexp.MustCompile(` (href|action)="(/[^"]*)"`)

// aForm is a form, with what is in it.
var aForm = regexp.MustCompile(`(?s)(<form[^>]*>)(.*?)</form>`)

func TestVisit_KeepsTheNamespace(t *testing.T) {
	v := inEnglish(start)
	v.Namespace = "a&b"
	for address, want := range map[string]string{
		"/": "/?namespace=a%26b", "/tasks?label=a%2Bb#rows": "/tasks?label=a%2Bb&namespace=a%26b#rows",
		"/tasks?namespace=c": "/tasks?namespace=c", "/tasks?x=1&namespace=c": "/tasks?x=1&namespace=c",
		"/tasks?my-namespace=c": "/tasks?my-namespace=c&namespace=a%26b",
		"/queues/a#pause":       "/queues/a?namespace=a%26b#pause",
		"/prefer/zone/UTC":      "/prefer/zone/UTC", "/assets/page.css": "/assets/page.css",
	} {
		if got := v.inNamespace(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	const text = `<a href="/tasks?a=1&amp;b=2&#43;3">x</a><a href="#main">/y</a>` + "\n" +
		`<form method="get">"/z"</form><form method="post" action="/a">b</form><form action="/prefer/zone"></form>` +
		`<form><input name="namespace"></form>`
	const want = `<a href="/tasks?a=1&amp;b=2+3&amp;namespace=a%26b">x</a><a href="#main">/y</a>` + "\n" +
		`<form method="get"><input type="hidden" name="namespace" value="a&amp;b">"/z"</form>` +
		`<form method="post" action="/a?namespace=a%26b">b</form><form action="/prefer/zone"></form>` +
		`<form><input name="namespace"></form>`
	if got := string(v.finished([]byte(text), "")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	v.Namespace = "*"
	if got := string(v.finished([]byte(text), "")); got != text {
		t.Errorf("of all namespaces: %s", got)
	}
}

// A reader who has chosen a namespace stays in it, wherever the links and forms of a page, or of its stream, lead.
func TestNamespace_IsKeptByAllLinks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy()
		expect := func(where, text string) {
			for _, found := range leading.FindAllStringSubmatch(text, -1) {
				to := html.UnescapeString(found[2])
				knows := func(begin string) bool { return strings.HasPrefix(to, begin) }
				if !strings.Contains(to, "namespace=") && !slices.ContainsFunc(withoutNamespace, knows) {
					t.Errorf("%s leads to %s", where, to)
				}
			}
			for _, form := range aForm.FindAllString(text, -1) {
				begin, fields, _ := strings.Cut(form, ">")
				gets := !strings.Contains(begin, ` method="post"`) && !strings.Contains(begin, ` action="/prefer/`)
				if gets && strings.Count(fields, `<input type="hidden" name="namespace" value="default">`) != 1 {
					t.Errorf("%s has a form that does not keep the namespace: %s", where, form)
				}
			}
		}
		expect("a backfill", w.get("/schedules/default/hourly/backfill?namespace=default").text)
		expect("a move", w.get("/bulk/new/requeue?namespace=default").text)
		for _, p := range pages {
			path := p.address()
			if strings.Contains(path, "?") {
				path += "&namespace=default"
			} else {
				path += "?namespace=default"
			}
			page := w.get(path)
			if page.status != http.StatusOK || !strings.Contains(page.text, `href="/queues?namespace=default"`) {
				t.Errorf("%s: status %d, or no link to the queues", path, page.status)
			}
			expect(path, page.text)
			if len(p.live) == 0 {
				continue
			}
			v := w.watch(path)
			for _, e := range v.seen() {
				expect("the stream of "+path, e.data)
			}
			v.leave()
		}
		expect("an error", w.get("/nowhere?namespace=default").text)
	})
}

func TestNamespace_IsKeptByForms(t *testing.T) {
	inWorld(t, func(w *world) {
		w.failed("a")
		const page = "/tasks/default/a?namespace=default"
		got := w.send(http.MethodPost, "/tasks/default/a/retry?namespace=default", w.form(page))
		if to := got.leadsTo(); to != "/tasks/default/a?said=retried&namespace=default" {
			t.Errorf("the form leads to %d, %q", got.status, to)
		}
	})
}

// The field for another namespace keeps all else that the reader has chosen.
func TestNamespace_IsTypedBesidesOtherChoices(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 31 {
			there := control.Caller{Namespace: "n" + itoa(i)}
			_, err := w.control.Submit(w.ctx, there, task.Definition{Type: "http", Payload: []byte(`{"url":"http://x/"}`)})
			testkit.Must(t, err)
		}
		w.pass(2 * time.Second)
		page := w.get("/tasks?state=failed&label=a%3Db&cursor=x&namespace=n3").text
		const want = `<form method="get"><input type="hidden" name="label" value="a=b">` +
			`<input type="hidden" name="state" value="failed"><div class="fld"><label for="f-namespace">`
		if !strings.Contains(page, want) {
			t.Errorf("the form drops something: %s", aForm.FindString(page))
		}
	})
}

// Pages that show what is of a namespace offer those that there are, and show what is of the chosen one.
func TestNamespace_IsChosenOnThePage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("before", nil)
		if page := w.get("/tasks").text; strings.Contains(page, `class="pick"`) {
			t.Error("there is but one namespace, and it offers a choice")
		}
		w.furnish()
		w.pass(10 * time.Second) // for so long, names are kept
		option := regexp.MustCompile(`<li><a href="\?([^"]*)"( aria-current="true")?>([^<]*)</a></li>`)
		for _, p := range pages {
			if !p.chooses {
				continue
			}
			var names []string
			for _, found := range option.FindAllStringSubmatch(w.get(p.path+"?x=1&namespace=billing").text, -1) {
				names = append(names, found[1]+found[2]+" "+found[3])
			}
			want := []string{
				"x=1 All namespaces", `namespace=billing&amp;x=1 aria-current="true" billing`,
				"namespace=default&amp;x=1 default",
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s offers %q, want %q", p.path, names, want)
			}
		}
		for _, path := range []string{"/tasks", "/schedules"} {
			page := w.get(path + "?namespace=billing").text
			if !strings.Contains(page, path+"/billing/") || strings.Contains(page, path+"/default/") {
				t.Errorf("%s shows what is of other namespaces:\n%s", path, page)
			}
		}
		w.page("overview-namespace", "/?namespace=billing", http.StatusOK)
	})
}

func TestNamespace_IsCheckedAndKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		for _, path := range []string{"/", "/tasks", "/queues", "/schedules"} {
			got := w.get(path + "?namespace=bad+name!")
			if got.status != http.StatusBadRequest || !strings.Contains(got.text, "&#34;bad name!&#34; must be") {
				t.Errorf("%s: an invalid name gets %d:\n%s", path, got.status, got.text)
			}
			if strings.Contains(got.text, "namespace=bad") {
				t.Errorf("%s: links keep the invalid name", path)
			}
		}
		const unknown = "Nothing is known of the namespace"
		if got := w.get("/?namespace=unheard-of"); !strings.Contains(got.text, unknown+" unheard-of.") {
			t.Errorf("an unknown one gets %d:\n%s", got.status, got.text)
		}
		if strings.Contains(w.get("/?namespace=default").text, unknown) {
			t.Error("a known one is called unknown")
		}
	})
}
