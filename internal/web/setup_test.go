package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	fence    = "1:tester"    // the lease on all partitions of a world
	runToken = "node-a#run1" // of all attempts
)

// start is when the clock of a world begins.
var start = time.Date(2026, time.January, 2, 15, 4, 5, 0, time.UTC)

var me = control.Caller{Namespace: "default", Name: "ann"}

// world is an installation in memory, on a clock that stands while a test works. Nobody else is at work: tests do by
// hand what leaders and workers do.
type world struct {
	t       *testing.T
	ctx     context.Context
	redis   *embedded.Server
	db      *redisx.DB
	store   *store.Store
	control *control.Control
	server  *edge.Server
	tally   *rollup.Tally
	nodes   fleet
	calls   atomic.Int64 // how often Redis was called
	delay   atomic.Int64 // of each call, in ns of the clock of the world
	away    atomic.Int32 // what becomes of calls: see counting
	cookies []*http.Cookie
	base    string // the path below which the pages are
	site    *Site
}

// inWorld runs a test in a world.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorldAt(t, "", test)
}

// inWorldAt runs a test in a world whose pages are below a path.
func inWorldAt(t *testing.T, base string, test func(w *world)) {
	t.Helper()
	_ = t.Context().Done() // made in the bubble, the channel could not be closed outside of it
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ctx: context.Background(), base: base}
		testkit.Must(t, clock.Sleep(w.ctx, clock.Until(start)))
		w.open()
		defer w.close()
		test(w)
	})
}

func (w *world) open() {
	var err error
	w.redis, err = embedded.StartHidden()
	testkit.Must(w.t, err)
	w.db, err = redisx.Open(w.ctx, redisx.Options{URL: w.redis.URL()})
	testkit.Must(w.t, err)
	w.db.AddHook(counting{&w.calls, &w.delay, &w.away})
	w.tally = rollup.NewTally(clock.Now)
	w.store, err = store.Open(w.ctx, store.Options{DB: w.db, Partitions: 2, Counters: []tasks.Counter{w.tally}})
	testkit.Must(w.t, err)
	for p := range w.store.Partitions.Count() {
		leasetest.Grant(w.t, w.db, w.store.Partitions.LeaseKey(p), fence, 0)
	}
	w.nodes = fleet{{
		ID: "node-a", Host: "vm-a", State: cluster.StateAlive, Roles: []string{"api", "scheduler", "worker"}, Capacity: 10,
		Partitions: []int{0, 1}, Queues: map[string]int{"default": 1}, Types: []string{"http", "shell"},
	}}
	w.control = control.New(control.Options{
		Store: w.store, Queues: queue.New(queue.Options{DB: w.db}), Nodes: &w.nodes, Cordons: cordoner{w}, Embedded: true,
		Now: clock.Now, Types: task.Types{"http": {Timeout: 30 * time.Second}, "shell": {Timeout: time.Minute}},
	})
	w.serve()
}

// serve lets another node serve the pages.
func (w *world) serve() {
	var err error
	w.server, err = edge.New(edge.Options{Log: w.log(), BasePath: w.base})
	testkit.Must(w.t, err)
	w.site, err = register(w.server, Options{Control: w.control, Version: "1.0.0", Monitor: true})
	testkit.Must(w.t, err)
}

// log tells the test what goes wrong at the server.
func (w *world) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

func (w *world) close() {
	if err := w.db.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		w.t.Error(err)
	}
	w.redis.Close()
	_ = clock.Sleep(w.ctx, time.Minute) // in which clients of Redis end what they do by themselves
}

// fleet are the nodes of a world.
type fleet []cluster.Node

func (f *fleet) Nodes(context.Context) ([]cluster.Node, error) {
	nodes := slices.Clone(*f) // callers may ask at the same time
	for i := range nodes {
		if n := &nodes[i]; n.State == cluster.StateAlive {
			n.StartedAt, n.LastBeat = start, clock.Now()
		}
	}
	return nodes, nil
}

// cordoner cordons the nodes of a world, if Redis answers.
type cordoner struct{ w *world }

func (c cordoner) Cordon(ctx context.Context, node string, how cluster.Cordon, lasts time.Duration) error {
	how.Of, how.Since, how.Until = node, clock.Now(), clock.Now().Add(lasts)
	_, err := c.set(ctx, node, &how)
	return err
}

func (c cordoner) Uncordon(ctx context.Context, node string) (bool, error) {
	return c.set(ctx, node, nil)
}

func (c cordoner) set(ctx context.Context, node string, how *cluster.Cordon) (was bool, _ error) {
	if err := c.w.db.Ping(ctx).Err(); err != nil {
		return false, &task.Error{Code: task.CodeUnavailable, Message: "cannot cordon the node", Err: err}
	}
	for i, n := range c.w.nodes {
		if n.ID == node || n.Name == node {
			was = was || n.Cordon != nil
			c.w.nodes[i].Cordon = how
		}
	}
	return was, nil
}

func (f *fleet) View() cluster.View { return cluster.View{At: clock.Now(), Nodes: *f} }

// counting counts the calls to Redis, and delays them: a pipeline is one. A new connection is none: how many there are
// depends on chance.
type counting struct {
	calls, delay *atomic.Int64
	away         *atomic.Int32 // unreachable or unheard
}

// What becomes of calls to Redis, if not 0.
const (
	unreachable = 1 + iota // they do not reach it
	unheard                // what their scripts reply does not come back
)

var errAway = &net.OpError{Op: "read", Err: syscall.ECONNRESET}

// call makes calls to Redis.
func (c counting) call(ctx context.Context, cmds []redis.Cmder, next func() error) error {
	if name := cmds[0].Name(); name == "hello" || name == "client" {
		return next()
	}
	c.calls.Add(1)
	_ = clock.Sleep(ctx, time.Duration(c.delay.Load()))
	away, err := c.away.Load(), error(nil)
	if away != unreachable {
		err = next()
	}
	if away == unreachable || away == unheard && strings.HasPrefix(cmds[0].Name(), "eval") {
		err = errAway
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return err
}

func (c counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (c counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return c.call(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (c counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return c.call(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

// pass writes what was counted, and lets time pass.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	defer func() { testkit.Must(w.t, clock.Sleep(w.ctx, d)) }()
	rows := w.tally.Rows()
	testkit.Must(w.t, w.store.Minutes.Write(w.ctx, "node-a", rows))
	for _, r := range rows {
		w.tally.Written(r)
	}
}

// submit submits a task of type http, which change may change.
func (w *world) submit(id string, change func(*task.Definition)) task.Ref {
	w.t.Helper()
	d := task.Definition{
		Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Owner: "ann",
		Payload: []byte(`{"url":"http://localhost/a","method":"POST"}`), Labels: map[string]string{"order": "4711"},
	}
	if change != nil {
		change(&d)
	}
	answer, err := w.control.Submit(w.ctx, me, d)
	testkit.Must(w.t, errors.Join(err, answer.Err))
	return d.Ref
}

// put stores a schedule of tasks of type http each hour, which change may change.
func (w *world) put(id string, change func(*schedule.Definition)) {
	w.t.Helper()
	d := schedule.Definition{
		Ref: task.Ref{Namespace: "default", ID: id}, Spec: schedule.Spec{Rules: []schedule.Rule{{Every: time.Hour}}},
		Task: task.Definition{Type: "http", Payload: []byte(`{"url":"http://localhost/a"}`)},
	}
	if change != nil {
		change(&d)
	}
	_, err := w.control.PutSchedule(w.ctx, me, d, control.PutOptions{})
	testkit.Must(w.t, err)
}

// claim does what leaders do about tasks that are due, where workers are free. Their deliveries are lost.
func (w *world) claim(free int) {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		leader := w.store.Partitions.At(p).Lead(fence)
		_, err := leader.Claim(w.ctx, 100, handover.Grant{Default: free}, time.Second)
		testkit.Must(w.t, err)
	}
}

// begin lets node-a begin the first attempt of a task.
func (w *world) begin(ref task.Ref) *tasks.Run { return w.beginAttempt(ref, 1) }

func (w *world) beginAttempt(ref task.Ref, attempt int) *tasks.Run {
	w.t.Helper()
	w.claim(1000)
	who, what := tasks.Runner{Node: "node-a", Lease: time.Hour}, tasks.Start{Ref: ref, Attempt: attempt, Run: runToken}
	begun := w.store.Tasks.BeginEach(w.ctx, who, []tasks.Start{what})[0]
	testkit.Must(w.t, begun.Err)
	return begun.Run
}

// run runs the first attempt of a task to its end.
func (w *world) run(ref task.Ref, took time.Duration, end task.State, result, reason string) {
	w.t.Helper()
	run := w.begin(ref)
	testkit.Must(w.t, clock.Sleep(w.ctx, took))
	outcome := map[task.State]task.Outcome{task.Succeeded: task.OutcomeSucceeded, task.Failed: task.OutcomeFailed}[end]
	testkit.Must(w.t, run.Finish(w.ctx, end, outcome, result, reason))
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
}

// actParameters are those of an address that show whose action led there, when, and whether its form was sent twice.
var actParameters = regexp.MustCompile(`at=[0-9]+&|mark=[0-9a-f]{16}&|&twice=1`)

// leadsTo is where an answer leads, without the time of the action and the mark of the reader.
func (a answer) leadsTo() string { return actParameters.ReplaceAllString(a.header.Get("Location"), "") }

// get asks for a page, as a browser does. headers are names and values.
func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	return w.send(http.MethodGet, path, nil, headers...)
}

// expect expects words on a page.
func (w *world) expect(path string, words ...string) {
	w.t.Helper()
	page := w.get(path).text
	for _, word := range words {
		if !strings.Contains(page, word) {
			w.t.Errorf("%s lacks %q:\n%s", path, word, page)
		}
	}
}

// expectNot expects a word to be missing on a page.
func (w *world) expectNot(path, word string) {
	w.t.Helper()
	if page := w.get(path).text; strings.Contains(page, word) {
		w.t.Errorf("%s has %q:\n%s", path, word, page)
	}
}

// send sends a request, with a form if there is one, and keeps the cookies that come.
func (w *world) send(method, path string, form url.Values, headers ...string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.ctx, method, w.base+path, strings.NewReader(form.Encode()))
	r.Header.Set("Accept", "text/html")
	r.Header.Set("X-Request-Id", "request-1")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for _, c := range w.cookies {
		r.AddCookie(c)
	}
	recorder := httptest.NewRecorder()
	w.server.Echo().ServeHTTP(recorder, r)
	got := recorder.Result()
	defer func() { _ = got.Body.Close() }()
	w.cookies = append(w.cookies, got.Cookies()...)
	return answer{got.StatusCode, got.Header, recorder.Body.String()}
}

var drawn = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`name="(token|key)" value="[A-Z2-7]{26}"`), `name="$1" value="drawn"`},
	{regexp.MustCompile(`page-[0-9a-f]{12}\.(css|js)`), "page-hash.$1"},
	{regexp.MustCompile(`data-now="[^"]+"`), `data-now="now"`},
	{regexp.MustCompile(`data-words="[^"]+"`), `data-words="words"`},
}

// plain is a page without what differs each time it is made, or with each change of an asset.
func plain(html string) string {
	for _, d := range drawn {
		html = d.what.ReplaceAllString(html, d.as)
	}
	return html
}
