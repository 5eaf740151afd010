// Package page tests the pages of dtsd in a real browser: Chromium, driven by DevTools, against real nodes and Redis.
package page

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

var (
	programs string // where dtsd is
	browser  chromium
	missing  string // why there is no browser; "" if there is one
)

// chromium is the browser in which each test opens a tab.
type chromium struct{ ctx context.Context }

func TestMain(m *testing.M) {
	flag.Parse()
	program, err := exec.LookPath("chromium")
	if err != nil || testing.Short() {
		missing = "it needs chromium in the PATH (scripts/ensure-test-tools installs it where there is apt), and time"
		m.Run()
		return
	}
	if os.Getenv("SCREENSHOTS") == "" { // of pages that need no node
		if programs, err = process.Build("../../cmd/dtsd"); err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(programs) }()
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")) // asynqmon asks for fonts elsewhere
	if os.Geteuid() == 0 { // the sandbox of Chromium is for other users
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	first, endFirst := chromedp.NewContext(allocator)
	defer endFirst()
	if err := chromedp.Do(first); err != nil {
		panic(fmt.Sprintf("chromium does not start: %v", err))
	}
	browser = chromium{first}
	// Most tests wait for something to happen, and do not need a processor meanwhile.
	if err := flag.Set("test.parallel", strconv.Itoa(2*goruntime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	m.Run()
}

// node is a dtsd with its Redis.
type node struct {
	t     *testing.T
	redis *redistest.Server
	*process.Process
	base string // the path below which it serves everything
}

// startNode starts a node that serves pages, and runs shell tasks.
func startNode(t *testing.T) *node {
	t.Helper()
	return startNodeAt(t, "")
}

// startNodeAt starts a node that serves everything below a path, with more flags.
func startNodeAt(t *testing.T, base string, flags ...string) *node {
	t.Helper()
	if missing != "" {
		if os.Getenv("CI") == "true" && !testing.Short() {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	n := &node{t: t, redis: redistest.Start(t), base: base}
	n.serve(flags...)
	t.Cleanup(func() {
		n.Kill()
		if n.Raced() || t.Failed() {
			t.Errorf("log of the node:\n%s", n.Log())
		}
	})
	return n
}

// with is the node in a part of its test.
func (n *node) with(t *testing.T) *node {
	its := *n
	its.t = t
	return &its
}

// serve starts the process of the node.
func (n *node) serve(flags ...string) {
	n.t.Helper()
	var err error
	n.Process, err = process.Start(programs, "dtsd",
		append([]string{
			"serve", "--redis", n.redis.URL(), "--enable-shell", "--heartbeat", "500ms", "--base-path", n.base,
		}, flags...)...)
	testkit.Must(n.t, err)
}

// send sends JSON to the API, which must accept it.
func (n *node) send(method, path string, body any) {
	n.t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // text that is large does not become larger
	testkit.Must(n.t, encoder.Encode(body))
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.URL+n.base+path, &text)
	testkit.Must(n.t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	testkit.Must(n.t, err)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusBadRequest {
		var problem bytes.Buffer
		_, _ = problem.ReadFrom(answer.Body)
		n.t.Fatalf("%s %s: %s: %s", method, path, answer.Status, problem.String())
	}
}

// fields is a JSON object.
type fields map[string]any

// shell submits a task that runs a command once; more overrides its fields.
func (n *node) shell(id, command string, more fields) {
	n.t.Helper()
	task := fields{
		"id": id, "type": "shell", "payload": fields{"command": []string{"sh", "-c", command}},
		"retry": fields{"max_attempts": 1},
	}
	for name, value := range more {
		task[name] = value
	}
	n.send(http.MethodPost, "/v1/tasks", task)
}

// tab is a tab of the browser, with a profile of its own.
type tab struct {
	t    *testing.T
	node *node
	ctx  context.Context

	mu       sync.Mutex
	problems []string // what the console said
}

// openTab opens a tab.
func (n *node) openTab() *tab {
	n.t.Helper()
	b := &tab{t: n.t, node: n}
	ctx, end := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	n.t.Cleanup(end)
	b.ctx = ctx
	testkit.Must(n.t, chromedp.Do(ctx)) // the tab is open as long as the context of its first action
	b.look(1440, "light")
	return b
}

// listen notes what the console tells as an error, and dialogs, which no page opens.
func (b *tab) listen(event any) {
	problem := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			problem = e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			problem = fmt.Sprintf("console.%s", e.Type)
		}
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			problem += " " + o.Description
		}
	case *page.EventJavascriptDialogOpening:
		problem = "dialog: " + e.Message
	}
	if problem != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, problem)
	}
}

// expectNoProblem fails the test if the console has told an error since the last call.
func (b *tab) expectNoProblem(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.t.Errorf("%s: %s", where, problem)
	}
	b.problems = nil
}

// do runs actions within a limit.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("the browser: %v", err)
	}
}

// open shows a page of the node.
func (b *tab) open(path string) {
	b.t.Helper()
	b.openURL(b.node.URL + b.node.base + path)
}

func (b *tab) openURL(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// call sends a command of DevTools.
func call[P, R any](b *tab, command cdp.Command[P, R], parameters P) {
	b.t.Helper()
	b.do(chromedp.Action[chromedp.Void](func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, command, parameters)
		return chromedp.Void{}, err
	}))
}

// look makes the tab look as on a screen of that width, in a theme.
func (b *tab) look(width int64, theme string) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
}

// withoutScript makes the pages that are opened from now on run no script.
func (b *tab) withoutScript() {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// eval evaluates an expression, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// text is what a reader sees of an element; "" if there is none.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}

// await waits until an element shows a text. A page that is still being read does not count: what a test looks for next
// may be missing there.
func (b *tab) await(selector, text string) {
	b.t.Helper()
	b.awaitValue(selector, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector), text)
}

// awaitAddress waits until the address of the page has a text in its query.
func (b *tab) awaitAddress(text string) {
	b.t.Helper()
	b.awaitValue("the address", `location.search`, text)
}

// awaitValue waits until an expression has a text in its value.
func (b *tab) awaitValue(what, expression, text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Limit)
	defer cancel()
	shown := ""
	for pause := time.NewTicker(50 * time.Millisecond); ; <-pause.C {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.readyState == "loading" ? "" : `+expression))
		switch {
		case strings.Contains(found, text):
			return
		case ctx.Err() != nil:
			b.t.Fatalf("%s shows %q, not %q; the page: %.2000s", what, shown, text, b.text("body"))
		case err == nil: // else the page is being read again
			shown = found
		}
	}
}

// click clicks the middle of an element with the mouse, when it is there and stands still.
func (b *tab) click(selector string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Limit)
	defer cancel()
	middle := fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e) return [];
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, selector)
	var before []float64
	for pause := time.NewTicker(20 * time.Millisecond); ; <-pause.C {
		at, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](middle))
		switch {
		case ctx.Err() != nil:
			b.t.Fatalf("there is no %s that stands still; the page: %.2000s", selector, b.text("body"))
		case err == nil && len(at) == 2 && slices.Equal(at, before):
			b.do(chromedp.MouseClickXY(at[0], at[1]))
			return
		case err == nil: // else the page is being read again
			before = at
		}
	}
}
