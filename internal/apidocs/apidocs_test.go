package apidocs

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	identifier = regexp.MustCompile(`\sid="([^"]*)"`)
	reached    = regexp.MustCompile(`\s(?:href|src|action)="([^"]*)"`)
	heading    = regexp.MustCompile(`<h([1-6])[ >]`)
	styles     = regexp.MustCompile(`(?s)<style>(.*)</style>`)
)

func pageOf(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, write(&b))
	return b.String()
}

func TestPage_HasAPlaceForEverything(t *testing.T) {
	t.Parallel()
	page := pageOf(t)
	places := map[string]int{}
	for _, m := range identifier.FindAllStringSubmatch(page, -1) {
		places[m[1]]++
	}
	doc, err := api.Document()
	testkit.Must(t, err)
	var want []string
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			want = append(want, op.OperationID)
		}
	}
	for name := range doc.Components.Schemas {
		want = append(want, "schema-"+name)
	}
	for _, code := range edge.Codes() {
		want = append(want, "code-"+string(code))
	}
	for _, place := range want {
		if places[place] != 1 {
			t.Errorf("%s is on the page %d times", place, places[place])
		}
	}
	for _, m := range reached.FindAllStringSubmatch(page, -1) {
		place, within := strings.CutPrefix(m[1], "#")
		if within && places[place] != 1 || !within && m[1] != "openapi.json" && !strings.HasPrefix(m[1], "data:image/svg") {
			t.Errorf("a link leads to %q", m[1])
		}
	}
}

// A screen reader offers the headings as an outline.
func TestPage_LeavesOutNoLevelOfHeadings(t *testing.T) {
	t.Parallel()
	last := "0"
	for _, m := range heading.FindAllStringSubmatch(pageOf(t), -1) {
		if m[1][0] > last[0]+1 || m[1] == "1" && last != "0" {
			t.Errorf("h%s follows h%s", m[1], last)
		}
		last = m[1]
	}
	if last == "0" {
		t.Error("the page has no headings")
	}
}

func TestPage_ShowsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	page := pageOf(t)
	for _, want := range []string{
		"<code><b>POST</b> /v1/tasks/{id}/retry</code>",
		`<a href="#schema-Submission">Submission</a> <span class="note">application/json</span>`,
		`<pre tabindex="0"><code>dtsctl task get nightly-report</code></pre>`,
		`<a href="#code-task_conflict"><code>task_conflict</code></a>`,
		`<a href="#retryTask"><code><b>POST</b> /v1/tasks/{id}/retry</code></a> <span>Run an ended task again</span>`,
		"<code>limit</code> <span class=\"type\">integer</span> <span class=\"note\">query</span>",
		"<li>value <code>1 to 500</code></li>", "<li>default <code>50</code></li>",
		`<meta name="viewport"`, `<html lang="en">`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "ZgotmplZ") {
		t.Error("the page has a script, or what a template refused")
	}
}

func ask(t *testing.T, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func TestHandler_AllowsItsOwnStyleOnly(t *testing.T) {
	t.Parallel()
	w := ask(t, http.MethodGet, "/docs")
	style := styles.FindStringSubmatch(w.Body.String())
	if w.Code != http.StatusOK || style == nil {
		t.Fatalf("%d %.200s", w.Code, w.Body)
	}
	if got, want := w.Header().Get("Content-Security-Policy"), policyOf(style[1]); got != want {
		t.Errorf("the policy is %s, that of the style on the page %s", got, want)
	}
	if policy := policyOf(""); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("the policy is %s", policy)
	}
}

func TestHandler_CompressesForThoseWhoAskForIt(t *testing.T) {
	t.Parallel()
	plain, packed := ask(t, http.MethodGet, "/docs"), ask(t, http.MethodGet, "/docs", "Accept-Encoding", "br, gzip")
	if got := packed.Header().Get("Content-Encoding"); got != "gzip" || plain.Header().Get("Content-Encoding") != "" {
		t.Fatalf("encodings %q and %q", plain.Header().Get("Content-Encoding"), got)
	}
	r, err := gzip.NewReader(packed.Body)
	testkit.Must(t, err)
	text, err := io.ReadAll(r)
	testkit.Must(t, err)
	if string(text) != plain.Body.String() {
		t.Errorf("the compressed page has %d bytes, the other %d", len(text), plain.Body.Len())
	}
}

func TestHandler_ServesOnePage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		status       int
		location     string
	}{
		{http.MethodHead, "/docs", http.StatusOK, ""},
		{http.MethodGet, "/docs/", http.StatusPermanentRedirect, "../docs"}, // links of the page are relative
		{http.MethodGet, "/docs/more", http.StatusNotFound, ""},
		{http.MethodPost, "/docs", http.StatusMethodNotAllowed, ""},
	} {
		w := ask(t, c.method, c.path)
		if w.Code != c.status || w.Header().Get("Location") != c.location {
			t.Errorf("%s %s: %d, location %q", c.method, c.path, w.Code, w.Header().Get("Location"))
		}
	}
}

func TestRender_UnderstandsTheMarkdownOfDescriptions(t *testing.T) {
	t.Parallel()
	links := map[string]string{"x_y": "#code-x_y"}
	for markdown, want := range map[string]string{
		"a <b> & c":                      "<p>a &lt;b&gt; &amp; c</p>\n",
		"a\nb\n\nc":                      "<p>a\nb</p>\n<p>c</p>\n",
		"**Names.** an *old* `a<b` word": "<p><strong>Names.</strong> an <em>old</em> <code>a&lt;b</code> word</p>\n",
		"see `x_y`":                      "<p>see <a href=\"#code-x_y\"><code>x_y</code></a></p>\n",
		"`*` and 2 * 3 * 4 ` end":        "<p><code>*</code> and 2 * 3 * 4 ` end</p>\n",
		"| a | b |\n|---|---|\n| `1` | 2 |": "<div class=\"wide\"><table>\n" +
			"<thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead>\n" +
			"<tbody>\n<tr><td><code>1</code></td><td>2</td></tr>\n</tbody></table></div>\n",
	} {
		if got := renderBlocks(markdown, links); got != want {
			t.Errorf("%q becomes %q, want %q", markdown, got, want)
		}
	}
}

func TestCurl_SendsWhatIsRequired(t *testing.T) {
	t.Parallel()
	doc, err := api.Document()
	testkit.Must(t, err)
	commands := map[string]string{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			all := parametersOf(item, op)
			commands[op.OperationID], err = curl(method, path, op, all)
			testkit.Must(t, err)
			named := map[string]bool{}
			for _, p := range all {
				if named[p.Value.Name] {
					t.Errorf("%s has the parameter %s twice", op.OperationID, p.Value.Name)
				}
				named[p.Value.Name] = true
			}
		}
	}
	for id, want := range map[string]string{
		"getTask":      `curl "$DTS/v1/tasks/nightly-report"`,
		"retryTask":    `curl -X POST "$DTS/v1/tasks/nightly-report/retry"`,
		"followEvents": `curl -N "$DTS/v1/events"`,
		"changeTask": `curl -X PATCH "$DTS/v1/tasks/nightly-report" \` + "\n" +
			`  -H 'Content-Type: application/json' \` + "\n" +
			`  -d '{"queue":"low"}'`,
		"submitTask": `curl "$DTS/v1/tasks" \` + "\n" + `  -H 'Content-Type: application/json' \` + "\n" +
			`  -d '{"payload":{"url":"http://127.0.0.1:9000/"},"type":"http"}'`,
	} {
		if commands[id] != want {
			t.Errorf("%s: %s\nwant %s", id, commands[id], want)
		}
	}
	if got := quoted("it's"); got != `'it'\''s'` {
		t.Errorf("quoted: %s", got)
	}
}
