package web

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

// base is the path below which the pages of a test are.
const base = "/tools/dts"

// address is an attribute that leads somewhere.
var address = regexp.MustCompile(` (?:href|src|action|formaction|data-stream|data-href)="([^"]*)"`)

// expectBased demands that all addresses of a text are below the base.
func expectBased(t *testing.T, where, text string) {
	t.Helper()
	for _, found := range address.FindAllStringSubmatch(text, -1) {
		to := found[1]
		elsewhere := slices.ContainsFunc([]string{"#", "?", "data:", "https://"}, func(begin string) bool {
			return strings.HasPrefix(to, begin)
		})
		if !elsewhere && !strings.HasPrefix(to, base+"/") {
			t.Errorf("%s leads to %s", where, found[0])
		}
	}
}

func TestBasePath_IsInAllAddresses(t *testing.T) {
	inWorldAt(t, base, func(w *world) {
		w.busy()
		for _, p := range pages {
			path := p.address()
			page := w.get(path)
			if page.status != http.StatusOK || !strings.Contains(page.text, `href="`+base+`/tasks"`) {
				t.Errorf("%s: status %d, or no link to the tasks", path, page.status)
			}
			expectBased(t, path, page.text)
			if len(p.live) == 0 {
				continue
			}
			if !strings.Contains(page.text, ` data-stream="`+base+path+`"`) {
				t.Errorf("%s does not say where its stream is", path)
			}
			v := w.watch(path)
			for _, e := range v.seen() {
				expectBased(t, "the stream of "+path, e.data)
			}
			v.leave()
		}
		expectBased(t, "an error", w.get("/nowhere").text)
		link := regexp.MustCompile(`<script src="` + base + `(/assets/[^"]+)"`).FindStringSubmatch(w.get("/").text)
		if link == nil || w.get(link[1]).status != http.StatusOK {
			t.Errorf("the script is not at %v", link)
		}
	})
}

func TestBasePath_IsInFormsAndCookies(t *testing.T) {
	inWorldAt(t, base, func(w *world) {
		ref := w.failed("a")
		got := w.send(http.MethodPost, "/tasks/default/a/retry", w.form("/tasks/default/a"))
		if to := got.leadsTo(); got.status != http.StatusSeeOther || to != base+"/tasks/default/a?said=retried" {
			t.Errorf("a form leads to %d, %q", got.status, to)
		}
		if state := w.task(ref).State; state != task.Scheduled {
			t.Errorf("the task is %s", state)
		}
		got = w.get("/prefer/language/zh", "Referer", "http://example.com"+base+"/tasks?state=failed")
		if to := got.header.Get("Location"); to != base+"/tasks?state=failed" {
			t.Errorf("a preference leads to %q", to)
		}
		got = w.get("/prefer/language/zh", "Referer", "http://example.com"+base+"x/tasks")
		if to := got.header.Get("Location"); to != base+"/" {
			t.Errorf("a preference of another program leads to %q", to)
		}
		if to := w.get("/prefer/language/zh").header.Get("Location"); to != base+"/" {
			t.Errorf("a preference without a page leads to %q", to)
		}
		for _, cookie := range w.cookies {
			if cookie.Path != base {
				t.Errorf("the cookie %s is for %s", cookie.Name, cookie.Path)
			}
		}
	})
}

// Text from outside that looks like an address stays as it is.
func TestBasePath_LeavesTextAlone(t *testing.T) {
	const text = `<a href="/x" action="/y" src="/z">`
	inWorldAt(t, base, func(w *world) {
		w.submit("a", func(d *task.Definition) { d.Owner = text })
		page := w.get("/tasks/default/a").text
		if !strings.Contains(page, `&lt;a href=&#34;/x&#34; action=&#34;/y&#34; src=&#34;/z&#34;&gt;`) {
			t.Errorf("the page has changed the text %s", text)
		}
	})
}
