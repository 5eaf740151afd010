package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"

	"github.com/dts-sched/dts/internal/task"
)

func inEnglish(now time.Time) *visit {
	return &visit{printer: newPrinter(language.English), zone: time.UTC, now: now}
}

func TestLanguage_IsThatOfTheReader(t *testing.T) {
	for _, c := range []struct{ cookie, accepted, want string }{
		{"", "", "en"},
		{"", "zh", "zh-Hans"},
		{"", "zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"},
		{"", "zh-TW", "zh-Hans"},
		{"", "de-DE,de;q=0.9", "en"},
		{"", "de, zh;q=0.5, en;q=0.3", "zh-Hans"},
		{"", "en-GB,en;q=0.9,zh;q=0.8", "en"},
		{"zh", "en", "zh-Hans"},
		{"en", "zh", "en"},
		{"nonsense!", "zh", "zh-Hans"},
		{"", "q=;;,zh;q=x", "en"},
		{"", strings.Repeat("a", 10_000), "en"},
	} {
		if got := languageOf(c.cookie, c.accepted).String(); got != c.want {
			t.Errorf("cookie %q, %.40q: %s, want %s", c.cookie, c.accepted, got, c.want)
		}
	}
}

func TestVisit_WritesDurations(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		d          time.Duration
		span, took string
	}{
		{0, "0 s", "0 ms"},
		{12 * time.Millisecond, "0 s", "12 ms"},
		{999 * time.Millisecond, "1 s", "999 ms"},
		{2500 * time.Millisecond, "3 s", "2.5 s"},
		{4210 * time.Millisecond, "4 s", "4.2 s"},
		{9949 * time.Millisecond, "10 s", "9.9 s"},
		{9950 * time.Millisecond, "10 s", "9 s"},
		{77 * time.Second, "77 s", "77 s"},
		{99400 * time.Millisecond, "99 s", "99 s"},
		{99500 * time.Millisecond, "2 min", "99 s"},
		{633 * time.Second, "11 min", "10 min 33 s"},
		{99*time.Minute + 29*time.Second, "99 min", "1 h 39 min"},
		{99*time.Minute + 30*time.Second, "2 h", "1 h 39 min"},
		{192 * time.Minute, "3 h", "3 h 12 min"},
		{47*time.Hour + 59*time.Minute, "48 h", "47 h 59 min"},
		{48 * time.Hour, "2 d", "2 d 0 h"},
		{90*day + time.Hour, "90 d", "90 d 1 h"},
	} {
		v := inEnglish(start)
		if got := v.Span(c.d); got != c.span {
			t.Errorf("Span(%s) is %q, want %q", c.d, got, c.span)
		}
		if got := v.Took(c.d); got != c.took {
			t.Errorf("Took(%s) is %q, want %q", c.d, got, c.took)
		}
	}
}

func TestVisit_WritesTimes(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	v := inEnglish(start)
	for at, want := range map[time.Time]string{
		start:                              "now",
		start.Add(3 * time.Minute):         "in 3 min",
		start.Add(time.Second / 2):         "in 1 s",
		start.Add(499 * time.Millisecond):  "now",
		start.Add(-499 * time.Millisecond): "now",
		start.Add(-time.Second / 2):        "1 s ago",
		start.Add(-40 * time.Second):       "40 s ago",
	} {
		if got := string(v.Time(at)); !strings.Contains(got, "<span data-rel>"+want+"</span>") {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if got := string(v.Time(time.Time{})); strings.Contains(got, "<time") {
		t.Errorf("no time is %s", got)
	}
	v.zone = shanghai
	both := `datetime="2026-01-02T15:04:05Z" title="2026-01-02 23:04:05.000 CST"`
	if got := string(v.Time(start)); !strings.Contains(got, both) {
		t.Errorf("in a zone: %s", got)
	}
	if got := string(v.Clock(start)); !strings.Contains(got, ">23:04:05<") {
		t.Errorf("the time of day in a zone: %s", got)
	}
}

func TestVisit_WritesBytes(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 150 << 10: "150 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB",
	} {
		if got := inEnglish(start).Bytes(n); got != want {
			t.Errorf("%.0f: %q, want %q", n, got, want)
		}
	}
}

// hostile are names that nobody should give anything, and that pages have to show.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `a/b`, `a//b`, `//evil.example`, `\\evil.example`,
	`a?b=c&d#e`, `a%2Fb`, `100%`, "tab\tline\nend", "\u202egnp.exe", `javascript:alert(1)`, `{{.Token}}`, "😀", "\x00\xff",
	strings.Repeat("x", 200),
}

func TestVisit_PathLeadsToWhatItNames(t *testing.T) {
	v := inEnglish(start)
	for _, name := range hostile {
		link := string(v.Path("queues", name))
		u, err := url.Parse(link)
		if err != nil || u.Host != "" || u.Scheme != "" || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q: the link %q leads to %+v, %v", name, link, u, err)
			continue
		}
		if parts := strings.Split(u.EscapedPath(), "/"); len(parts) != 3 || u.Path != "/queues/"+name {
			t.Errorf("%q: the link %q has the path %q", name, link, u.Path)
		}
	}
}

func TestVisit_WithKeepsTheOtherParameters(t *testing.T) {
	v := inEnglish(start)
	v.query = url.Values{"state": {"failed"}, "label": {"a=b&c"}, "cursor": {"x"}, "said": {"retried"}, "mark": {"z"}}
	for _, c := range []struct{ name, value, want string }{
		{"state", "", "?label=a%3Db%26c"},
		{"state", "running", "?label=a%3Db%26c&state=running"},
		{"cursor", "y", "?cursor=y&label=a%3Db%26c&state=failed"},
	} {
		if got := v.With(c.name, c.value); got != c.want {
			t.Errorf("%s=%s: %s, want %s", c.name, c.value, got, c.want)
		}
	}
}

func TestText_EscapesItsArguments(t *testing.T) {
	for _, name := range hostile {
		got := string(inEnglish(start).T("Failed: %s", name))
		if strings.ContainsAny(strings.TrimPrefix(got, "Failed: "), `<>"`) {
			t.Errorf("%q is written as %q", name, got)
		}
	}
}

func TestShortID_KeepsAllOfIt(t *testing.T) {
	for id, want := range map[string]string{
		"":                         "<span></span><span></span>",
		"order-1":                  "<span>order-1</span><span></span>",
		"a-rather-long-id-4711":    "<span>a-rather-long</span><span>-id-4711</span>",
		"nightly@20260102T150405Z": "<span>nightly</span><span>@20260102T150405Z</span>",
		"<b>":                      "<span>&lt;b&gt;</span><span></span>",
	} {
		if got := string(shortID(id)); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
}

// harmed reports whether a page has an element that only a hostile name has.
func harmed(page string) bool {
	return strings.Contains(page, "<script>alert") || strings.Contains(page, "<img")
}

// Paths and parameters may have anything: what nobody knows is not found, and none of it becomes part of the page.
func TestSite_AnswersHostilePaths(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		for _, name := range hostile {
			for _, form := range []string{"/tasks/default/%s", "/tasks/%s/a", "/%s", "/prefer/%s/zh", "/assets/%s"} {
				path := fmt.Sprintf(form, url.PathEscape(name))
				got := w.get(path)
				if got.status != http.StatusNotFound && got.status != http.StatusBadRequest || harmed(got.text) {
					t.Errorf("%s: status %d, %.2000s", path, got.status, got.text)
				}
			}
			for _, field := range inEnglish(start).filterFields() {
				got := w.get("/tasks?" + url.Values{field.Name: {name}}.Encode())
				if got.status != http.StatusOK || harmed(got.text) {
					t.Errorf("the filter %s=%q: status %d", field.Name, name, got.status)
				}
			}
			got := w.get("/tasks?" + url.Values{"namespace": {name}}.Encode())
			if got.status != http.StatusOK && got.status != http.StatusBadRequest || harmed(got.text) {
				t.Errorf("the namespace %q: status %d", name, got.status)
			}
		}
	})
}

func TestSite_NamesItsRequestAndPolicy(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, path := range []string{"/", "/nowhere"} {
			got := w.get(path).header
			for name, want := range map[string]string{
				"Content-Security-Policy": contentPolicy, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
				"Referrer-Policy": "same-origin", "Vary": "Accept-Language, Cookie",
			} {
				if got.Get(name) != want {
					t.Errorf("%s: %s is %q, want %q", path, name, got.Get(name), want)
				}
			}
		}
		kind := w.get("/nowhere", "Accept", "application/json").header.Get("Content-Type")
		if kind != "application/problem+json" {
			t.Errorf("a program is told of an error as %s", kind)
		}
	})
}

func TestSite_ServesItsAssets(t *testing.T) {
	inWorld(t, func(w *world) {
		page := w.get("/").text
		for kind, link := range map[string]*regexp.Regexp{
			"text/css":        regexp.MustCompile(`<link rel="stylesheet" href="(/assets/page-[0-9a-f]+\.css)">`),
			"text/javascript": regexp.MustCompile(`<script src="(/assets/page-[0-9a-f]+\.js)"></script>`),
		} {
			found := link.FindStringSubmatch(page)
			if found == nil {
				t.Errorf("the page does not have %s", link)
				continue
			}
			got := w.get(found[1])
			if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), kind) ||
				!strings.Contains(got.header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d, %v", found[1], got.status, got.header)
			}
			if most := map[string]int{"text/css": 25 << 10, "text/javascript": 6 << 10}[kind]; len(got.text) > most {
				t.Errorf("%s has %d bytes, more than %d", found[1], len(got.text), most)
			}
		}
		if got := w.get("/assets/page.css"); got.status != http.StatusNotFound {
			t.Errorf("without its hash: %d", got.status)
		}
	})
}

func TestTaskFilter_SaysWhatIsWrong(t *testing.T) {
	for query, field := range map[string]string{
		"state=done": "state", "label=order": "label", "since=yesterday": "since", "until=-1h": "until",
		"since=2026-13-40": "since",
	} {
		v := inEnglish(start)
		v.query, _ = url.ParseQuery(query)
		if _, err := v.taskFilter(); task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error about %s", query, err, field)
		}
	}
	v := inEnglish(start)
	v.query, _ = url.ParseQuery("since=2h&until=2026-01-02+15:00&state=failed&label=a%3Db%3Dc")
	f, err := v.taskFilter()
	if err != nil || f.Labels["a"] != "b=c" || len(f.States) != 1 {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestSlim_LeavesOutCommentsAndIndentation(t *testing.T) {
	const text = "/* a sheet */\n\n  a { /* b */ color: red }\n  // no\n/* x */ b {} /* y */\n\tc // d\n"
	const want = "a { /* b */ color: red }\n/* x */ b {} /* y */\nc // d\n"
	if got := string(slim([]byte(text))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
