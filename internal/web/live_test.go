package web

import (
	"bufio"
	"context"
	"encoding/json"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// busy has something for the examples of all pages.
func (w *world) busy() {
	w.t.Helper()
	w.put("hourly", nil)
	w.run(w.submit("ended", nil), time.Second, task.Failed, "", "HTTP 503")
	w.begin(w.submit("runs", nil))
	w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour })
	w.bulk("moving", bulks.Running, 3)
	w.flows()
	w.limits()
	w.pass(70 * time.Second)
}

// bulk has a bulk action that came by some of ten tasks.
func (w *world) bulk(id string, state bulks.State, changed int) {
	w.t.Helper()
	b := bulks.Bulk{
		ID: id, Action: string(control.BulkRequeue), ToQueue: "low", Note: "the reports are late", Name: "ann",
		Filter: tasks.Filter{Namespace: control.EveryNamespace}, State: state, Total: 10,
		AsOf: start, StartedAt: start, Progress: bulks.Progress{Changed: changed, Skipped: 2},
	}
	_, err := w.store.Bulks.Create(w.ctx, b)
	testkit.Must(w.t, err)
}

// streamed is an event of a stream.
type streamed struct{ name, data string }

// viewer is who watches a page.
type viewer struct {
	events chan streamed
	leave  func() // ends the stream, and waits for its end
}

// flushing is an answer that is read while it is written.
type flushing struct {
	*httptest.ResponseRecorder
	out *io.PipeWriter
}

func (f flushing) Write(b []byte) (int, error) { return f.out.Write(b) }
func (f flushing) Flush()                      {}

// watch watches a page until the test ends, or leaves.
func (w *world) watch(path string) *viewer {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, w.base+path, nil)
	r.Header.Set("Accept", "text/event-stream")
	in, out := io.Pipe()
	v := &viewer{events: make(chan streamed, 1000)}
	ended := make(chan struct{}, 2)
	go func() {
		w.server.Echo().ServeHTTP(flushing{httptest.NewRecorder(), out}, r)
		_ = out.Close()
		ended <- struct{}{}
	}()
	go func() {
		var e streamed
		for lines := bufio.NewScanner(in); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "event":
				e.name = value
			case name == "data" && json.Unmarshal([]byte(value), &e.data) == nil:
				v.events <- e
			}
		}
		ended <- struct{}{}
	}()
	v.leave = func() { cancel(); <-ended; <-ended }
	return v
}

// seen are the events that have come since the last call.
func (v *viewer) seen() (all []streamed) {
	synctest.Wait()
	for len(v.events) > 0 {
		all = append(all, <-v.events)
	}
	return all
}

var relative = regexp.MustCompile(`<span data-rel>[^<]*</span>`)

// still is a page without its relative times, as the parts of a stream are.
func still(html string) string {
	return relative.ReplaceAllString(plain(html), "<span data-rel></span>")
}

// hiddenNote is the note that a stream fills in, and that the page itself has without its text.
var hiddenNote = regexp.MustCompile(`(?s)( id="can"[^>]*>).*</div>`)

// What a stream sends first is what the page shows, for each part that the page has.
func TestLive_PartsEqualThePage(t *testing.T) {
	for _, p := range pages {
		path := p.address()
		inWorld(t, func(w *world) {
			w.busy()
			page := still(w.get(path).text)
			if streams := strings.Contains(page, `data-stream="`+path+`"`); streams != (len(p.live) > 0) {
				t.Errorf("%s says where its stream is: %v", path, streams)
			}
			if len(p.live) == 0 {
				return
			}
			v := w.watch(path)
			defer v.leave()
			seen := v.seen()
			parts := len(p.parts())
			if len(seen) != parts+1 || seen[parts] != (streamed{"state", "live"}) {
				t.Fatalf("%s sends %d events, want %d parts and a state", path, len(seen), parts)
			}
			for _, e := range seen[:parts] {
				if !strings.Contains(page, strings.TrimSpace(hiddenNote.ReplaceAllString(plain(e.data), "$1</div>"))) {
					t.Errorf("%s does not show this part of its stream:\n%s", path, e.data)
				}
				if strings.Contains(e.data, `name="token"`) {
					t.Errorf("a part of %s, which all of its viewers get, has a form of one of them:\n%s", path, e.data)
				}
				if !strings.Contains(e.data, ` id="`) || !strings.Contains(e.data, " data-live") {
					t.Errorf("a part of %s has no id, or moves under a pointer:\n%s", path, e.data)
				}
			}
		})
	}
}

func TestLive_SendsWhatHasChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.submit("a", nil)
		v := w.watch("/tasks")
		defer v.leave()
		v.seen()
		testkit.Must(t, clock.Sleep(w.ctx, 10*time.Second))
		if seen := v.seen(); len(seen) > 0 {
			t.Errorf("nothing has happened, and it sends %+v", seen)
		}
		w.run(ref, time.Second, task.Succeeded, "", "")
		testkit.Must(t, clock.Sleep(w.ctx, 2*time.Second))
		parts := map[string]int{}
		for _, e := range v.seen() {
			switch {
			case strings.Contains(e.data, `id="rows"`) && strings.Contains(e.data, "succeeded"):
				parts["rows"]++
			case strings.Contains(e.data, `id="states"`):
				parts["states"]++
			}
		}
		if parts["rows"] == 0 || parts["states"] == 0 {
			t.Errorf("the task has succeeded, and it sends %v", parts)
		}
	})
}

// However many watch a page, it is read once each second, and no longer if nobody watches.
func TestLive_ReadsOnceForAllViewers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy()
		cost := func(n int) int64 {
			var viewers []*viewer
			for range n {
				viewers = append(viewers, w.watch("/"))
			}
			testkit.Must(t, clock.Sleep(w.ctx, time.Second/2))
			before := w.calls.Load()
			testkit.Must(t, clock.Sleep(w.ctx, 10*time.Second))
			calls := w.calls.Load() - before
			for _, v := range viewers {
				if len(v.seen()) == 0 {
					t.Error("a viewer sees nothing")
				}
				v.leave()
			}
			return calls
		}
		one := cost(1)
		if hundred := cost(100); one == 0 || hundred > one+one/10 {
			t.Errorf("10 s cost %d calls of Redis for one viewer, %d for a hundred", one, hundred)
		}
		testkit.Must(t, clock.Sleep(w.ctx, 10*time.Second)) // what is under way ends
		if none := cost(0); none > one/10 {
			t.Errorf("10 s cost %d calls of Redis for nobody", none)
		}
	})
}

// last is what a stream has sent last of the part with an id; "" for nothing.
func last(events []streamed, id string) (part string) {
	for _, e := range events {
		if strings.Contains(e.data, ` id="`+id+`"`) {
			part = e.data
		}
	}
	return part
}

// Each page counts what needs somebody, in its title and in the bar, as it comes and goes.
func TestLive_CountsWhatNeedsSomebody(t *testing.T) {
	inWorld(t, func(w *world) {
		v := w.watch("/bulk")
		defer v.leave()
		if title := last(v.seen(), "title"); !strings.Contains(title, ">Bulk actions · DTS<") {
			t.Errorf("while all is well, the title is %s", title)
		}
		w.submit("report", func(d *task.Definition) { d.Queue = "reports" })
		w.claim(0)
		w.pass(time.Minute)
		w.pass(2 * time.Second)
		seen := v.seen()
		title, bar := last(seen, "title"), last(seen, "pages")
		if !strings.Contains(title, ">(1) Bulk actions · DTS<") {
			t.Errorf("with a queue that nobody serves, the title is %s", title)
		}
		if !regexp.MustCompile(`Queues<span class="cnt bad">1<span class="vh"> need somebody`).MatchString(bar) {
			t.Errorf("with a queue that nobody serves, the bar is %s", bar)
		}
	})
}

// What can be done is sent without forms: the script fetches those when it has changed.
func TestLive_SaysWhatCanBeDone(t *testing.T) {
	offers := func(events []streamed) string {
		found := regexp.MustCompile(`data-can="([^"]*)"`).FindStringSubmatch(last(events, "can"))
		if found == nil {
			return "nothing is sent"
		}
		return found[1]
	}
	inWorld(t, func(w *world) {
		ref := w.submit("a", func(d *task.Definition) { d.Delay = time.Hour })
		w.submit("other", nil)
		w.claim(0)
		w.bulk("moving", bulks.Running, 3)
		one, queue, bulk := w.watch("/tasks/default/a"), w.watch("/queues/default"), w.watch("/bulk/moving")
		for v, want := range map[*viewer]string{one: "cancel now move", queue: "pause", bulk: "stop"} {
			defer v.leave()
			if got := offers(v.seen()); got != want {
				t.Errorf("it offers %q, want %q", got, want)
			}
		}
		const changed = "What can be done here has changed" // a browser without styles would show it before it is so
		if strings.Contains(w.get("/tasks/default/a").text, changed) {
			t.Errorf("the page says: %s", changed)
		}
		_, err := w.control.CancelTask(w.ctx, me, ref.ID, "")
		testkit.Must(t, err)
		testkit.Must(t, w.control.PauseQueue(w.ctx, me, "default", ""))
		w.pass(3 * time.Second)
		seen := one.seen()
		if got, _, _ := strings.Cut(offers(seen), " "); got != "retry" || !strings.Contains(last(seen, "can"), changed) {
			t.Errorf("of a task that was cancelled, it offers %q: %s", got, last(seen, "can"))
		}
		if got := offers(queue.seen()); got != "resume" {
			t.Errorf("of a queue that was paused, it offers %q", got)
		}
		w.pass(3 * time.Second)
		if got := offers(bulk.seen()); got != "nothing is sent" {
			t.Errorf("of a bulk action that goes on, it offers anew %q", got)
		}
	})
}

// The actions of a schedule are links, which all of its viewers may have.
func TestLive_SendsTheActionsOfASchedule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("hourly", nil)
		v := w.watch("/schedules/default/hourly")
		defer v.leave()
		if acts := last(v.seen(), "acts"); !strings.Contains(acts, "/hourly/pause") {
			t.Errorf("it offers %s", acts)
		}
		_, err := w.control.PauseSchedule(w.ctx, me, "hourly", "")
		testkit.Must(t, err)
		w.pass(2 * time.Second)
		if acts := last(v.seen(), "acts"); !strings.Contains(acts, "/hourly/resume") || strings.Contains(acts, "/pause") {
			t.Errorf("once it is paused, it offers %s", acts)
		}
	})
}

func TestLive_HasAReaderForEachView(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		all, failed := w.watch("/tasks"), w.watch("/tasks?state=failed")
		defer all.leave()
		defer failed.leave()
		for viewer, want := range map[*viewer]bool{all: true, failed: false} {
			rows := ""
			for _, e := range viewer.seen() {
				if strings.Contains(e.data, `id="rows"`) {
					rows = e.data
				}
			}
			if strings.Contains(rows, "/tasks/default/a") != want {
				t.Errorf("it sees the task: %v, want %v: %s", !want, want, rows)
			}
		}
	})
}

// A page goes on for the others when its first viewer leaves, whatever else is asked for meanwhile.
func TestLive_GoesOnWithoutItsFirstViewer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy()
		first, second := w.watch("/tasks/default/runs"), w.watch("/tasks/default/runs")
		defer second.leave()
		second.seen()
		first.leave()
		for range 10 {
			w.get("/tasks/default/ended")
		}
		w.pass(3 * time.Second)
		for _, e := range second.seen() {
			if strings.Contains(e.data, "HTTP 503") || e.data == "gone" {
				t.Errorf("it shows another task: %s", e.data)
			}
		}
	})
}

// A page that panics ends no program, is made again after a pause, and keeps no turn. Its viewers do not read it again.
func TestLive_SurvivesAPanic(t *testing.T) {
	p := &page{name: "tasks", path: "/broken", live: []string{"rows"}}
	var reads atomic.Int64
	var panics atomic.Bool
	panics.Store(true)
	p.read = func(context.Context, *visit) (any, string, error) {
		if reads.Add(1); panics.Load() {
			calls.Do(func() { panic("on purpose") })
		}
		return taskList{}, "", nil
	}
	inWorld(t, func(w *world) {
		w.server.Echo().GET(p.path, func(c echo.Context) error { return w.site.serve(c, p) })
		v := w.watch("/broken")
		defer v.leave()
		if seen := v.seen(); len(seen) != 1 || seen[0] != (streamed{"state", "failed"}) {
			t.Errorf("it says %v", seen)
		}
		w.pass(59 * time.Second)
		if seen := v.seen(); len(seen) > 0 || reads.Load() != control.PagesLimit+2 {
			t.Errorf("in a minute, it was read %d times, and says %v", reads.Load(), seen)
		}
		panics.Store(false)
		w.pass(10 * time.Second)
		if seen := v.seen(); len(seen) == 0 || seen[len(seen)-1] != (streamed{"state", "live"}) {
			t.Errorf("when it can be made, it says %v", seen)
		}
		if got := w.get("/tasks"); got.status != http.StatusOK {
			t.Errorf("after %d turns, another page: status %d", control.PagesLimit, got.status)
		}
	})
}

// Pages that take seconds, and all others, do not wait for each other.
func TestPages_DoNotWaitForCostlyOnes(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, c := range []struct {
			take  func(context.Context) (func(), error)
			limit int
			path  string
		}{
			{w.control.TakeCostlyPage, control.CostlyLimit, "/tasks"},
			{w.control.TakePage, control.PagesLimit, "/forecast"},
		} {
			var ends []func()
			for range c.limit {
				end, err := c.take(w.ctx)
				testkit.Must(t, err)
				ends = append(ends, end)
			}
			if got := w.get(c.path); got.status != http.StatusOK {
				t.Errorf("%s: status %d", c.path, got.status)
			}
			for _, end := range ends {
				end()
			}
		}
	})
}

func TestLive_BoundsThePagesThatAreLive(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range showsLimit {
			defer w.watch("/queues?name=" + itoa(i)).leave()
		}
		synctest.Wait()
		again := w.watch("/queues?name=1")
		defer again.leave()
		if len(again.seen()) == 0 {
			t.Error("a page that is live has no room for a second viewer")
		}
		got := w.send(http.MethodGet, "/queues?name=more", nil, "Accept", "text/event-stream")
		if got.status != http.StatusServiceUnavailable {
			t.Errorf("a further page: status %d", got.status)
		}
	})
}

// An address with what no page asks for is no page of its own.
func TestLive_KnowsTheParametersOfItsPages(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy()
		first, second := w.watch("/tasks?state=failed&x=1"), w.watch("/tasks?x=2&state=failed&said=retried")
		defer first.leave()
		defer second.leave()
		first.seen()
		if n := len(w.site.shows.all); n != 1 || len(second.seen()) == 0 {
			t.Errorf("two viewers of the same tasks have %d pages", n)
		}
		field := regexp.MustCompile(`<input [^>]*name="(\w+)"`)
		link := regexp.MustCompile(`href="\?([^"#]*)`)
		for _, p := range pages {
			if len(p.live) == 0 {
				continue
			}
			page := w.get(Examples()[p.path]).text
			asked := []string{}
			for _, form := range aForm.FindAllString(page, -1) {
				if strings.Contains(form, `action="`+p.path+`"`) {
					for _, found := range field.FindAllStringSubmatch(form, -1) {
						asked = append(asked, found[1])
					}
				}
			}
			for _, found := range link.FindAllStringSubmatch(page, -1) {
				query, err := url.ParseQuery(html.UnescapeString(found[1]))
				testkit.Must(t, err)
				asked = slices.AppendSeq(asked, maps.Keys(query))
			}
			for _, name := range asked {
				if name != "namespace" && !slices.Contains(p.asks, name) {
					t.Errorf("the page %s asks for %s, and its stream does not", p.path, name)
				}
			}
		}
	})
}

// Who does not read in time is told to read the page again.
func TestLive_DropsWhoDoesNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		s := newShows(&Site{server: w.server})
		slow := make(chan patch, 1)
		one := &show{key: "key", viewers: map[chan patch]bool{slow: true}, shown: map[string][]byte{}}
		s.send(one, []patch{{"a", []byte("1")}, {"b", []byte("1")}})
		if first := <-slow; first.part != "a" {
			t.Errorf("got %q", first.part)
		}
		if _, more := <-slow; more || len(one.viewers) > 0 {
			t.Error("it still watches")
		}
	})
}

func TestLive_SaysThatRedisIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		v := w.watch("/tasks/default/a")
		defer v.leave()
		v.seen()
		testkit.Must(t, clock.Sleep(w.ctx, 7*time.Second))
		v.seen()
		w.redis.Close()
		testkit.Must(t, clock.Sleep(w.ctx, time.Minute))
		if seen := v.seen(); len(seen) != 1 || seen[0] != (streamed{"state", "away 2026-01-02T15:04:12Z"}) {
			t.Errorf("while Redis is away, it sends %+v", seen)
		}
		page := w.get("/tasks/default/a").text
		if !strings.Contains(page, ` data-stream="/tasks/default/a" data-away>`) {
			t.Errorf("the page of the error has no stream that tells when Redis is back: %.300s", page)
		}
	})
}

func TestLive_SaysThatAPageIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		v := w.watch("/tasks/default/nobody")
		defer v.leave()
		if seen := v.seen(); len(seen) != 1 || seen[0] != (streamed{"state", "gone"}) {
			t.Errorf("of a task that is not there, it sends %+v", seen)
		}
		if page := w.get("/tasks/default/nobody").text; strings.Contains(page, "data-stream") {
			t.Error("the page of the error has a stream, and is read again for ever")
		}
	})
}
