package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue/monitor"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// settings is the default configuration for a Redis, on a free port.
func settings(redis string) config.Config {
	c := config.Default()
	c.Redis, c.Listen = config.URL(redis), "127.0.0.1:0"
	return c
}

// running is a node that runs until finish.
type running struct {
	*App
	t       *testing.T
	address string // of the API
	stop    context.CancelFunc
	end     chan error
	watch   *testkit.Stopwatch
}

// run runs a node until the test ends: on an embedded Redis, if the settings name no other.
func run(t *testing.T, o Options) *running {
	t.Helper()
	if o.Config.Redis == "" {
		server, err := embedded.Start("")
		testkit.Must(t, err)
		t.Cleanup(server.Close)
		o.Config.Redis = config.URL(server.URL())
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.NewTextHandler(t.Output(), nil)))
	o.Executors = builtin.Table()
	o.Executors.EnableAll()
	a, err := New(t.Context(), o)
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{App: a, t: t, address: a.Addr(), stop: stop, end: make(chan error, 1), watch: testkit.StartStopwatch(t)}
	go func() { r.end <- a.Run(ctx) }()
	t.Cleanup(r.finish)
	select {
	case <-a.Ready():
	case err := <-r.end:
		r.end <- err
		t.Fatalf("it stopped before it was ready: %v", err)
	}
	return r
}

// However many commands wait for the connections of a node, it says that it lives, keeps its partitions, and extends its runs.
func TestApp_LivesWhileAllItsConnectionsAreTaken(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	c.Heartbeat = 200 * time.Millisecond
	// The lease is long, so that the machine may stand still for seconds. It is extended each third of that.
	const runLease = 9 * time.Second
	r := run(t, Options{Config: c, RunLease: runLease})
	began, end := make(chan struct{}, 10), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		began <- struct{}{}
		select {
		case <-end:
		case <-request.Context().Done(): // the attempt was stopped
		}
	}))
	defer service.Close()
	finish := sync.OnceFunc(func() { close(end) })
	defer finish()
	ref := task.Ref{Namespace: task.DefaultNamespace, ID: "long"}
	submission := fmt.Sprintf(`{"id":%q,"type":"http","payload":{"url":%q},"retry":{"max_attempts":2}}`, ref.ID, service.URL)
	if status, body := r.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
		t.Fatalf("submitting: %d %s", status, body)
	}
	testkit.Receive(t, began, "the attempt")
	const n = 100 // more than connections
	ctx, release := context.WithCancel(t.Context())
	defer release()
	var blocked sync.WaitGroup
	for range n {
		blocked.Go(func() {
			for ctx.Err() == nil { // each command has a limit
				_ = r.store.DB.BLPop(ctx, 0, "nothing").Err()
			}
		})
	}
	db := redis.DB(t)
	free := sync.OnceFunc(func() {
		release()
		testkit.Must(t, db.RPush(t.Context(), "nothing", slices.Repeat([]any{""}, n)...).Err())
		blocked.Wait()
	})
	defer free()
	testkit.Eventually(t, "all connections are taken", func() bool {
		return strings.Contains(db.Info(t.Context(), "clients").Val(), fmt.Sprint("blocked_clients:", 10*runtime.GOMAXPROCS(0)))
	})
	leased := func() time.Time {
		return time.UnixMilli(int64(db.ZScore(t.Context(), string(r.store.KeysOf(ref).Held()), ref.String()).Val()))
	}
	from, lease := r.registry.View().At, leased()
	testkit.Eventually(t, "the run is leased again and again", func() bool {
		until := leased()
		if over := clock.Since(until); over > 0 {
			t.Fatalf("its lease has been over for %s", over)
		}
		return until.Sub(lease) > runLease/3
	})
	testkit.Eventually(t, "heartbeats go on", func() bool { return r.registry.View().At.Sub(from) > c.LeaseTTL })
	if led := len(r.scheduler.Led()); led != r.store.Partitions.Count() {
		t.Errorf("it leads %d partitions", led)
	}
	free()
	finish()
	testkit.Eventually(t, "the first attempt succeeds", func() bool {
		got, err := r.store.Tasks.Get(t.Context(), ref)
		testkit.Must(t, err)
		return got.State == task.Succeeded && got.Attempt == 1
	})
	if len(began) > 0 {
		t.Error("it began again")
	}
}

// finish stops the node and waits for its end.
func (r *running) finish() {
	r.stop()
	if err := <-r.end; err != nil {
		r.t.Errorf("it stopped with: %v", err)
	}
	r.end <- nil
	http.DefaultClient.CloseIdleConnections()
}

// call sends a request to the node and returns the status and the body of the response.
func (r *running) call(method, path, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.address+path, strings.NewReader(body))
	testkit.Must(r.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	testkit.Must(r.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	testkit.Must(r.t, err)
	return response.StatusCode, string(text)
}

// answers reports whether the node answers.
func (r *running) answers() bool {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.address+"/healthz", nil)
	testkit.Must(r.t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil
}

// mustRun submits a shell task and waits until it has succeeded.
func (r *running) mustRun(id string) {
	r.t.Helper()
	submission := `{"id":"` + id + `","type":"shell","payload":{"command":["echo","done"]}}`
	if status, body := r.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
		r.t.Fatalf("submitting: %d %s", status, body)
	}
	var got struct{ State, Result string }
	testkit.Eventually(r.t, id+" succeeds", func() bool {
		_, body := r.call(http.MethodGet, "/v1/tasks/"+id, "")
		return json.Unmarshal([]byte(body), &got) == nil && got.State == "succeeded"
	})
	if got.Result != "done" {
		r.t.Errorf("result %q, want done", got.Result)
	}
}

func TestApp_RunsTasksOnAnEmbeddedRedis(t *testing.T) {
	t.Parallel()
	run(t, Options{Config: settings(""), Version: "v1.2.3"}).mustRun("embedded")
}

func TestApp_RunsTasksOnARealRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a := run(t, Options{Config: settings(redis.URL()), Version: "v1.2.3"})
	a.mustRun("real")
	_, body := a.call(http.MethodGet, "/v1/nodes", "")
	for _, want := range []string{
		`"version":"v1.2.3"`, a.Node(), fmt.Sprintf(`"pid":%d`, os.Getpid()), fmt.Sprintf(`"address":%q`, a.Addr()),
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in nodes: %s", want, body)
		}
	}
}

func TestApp_SaysThatItsRedisIsEmbedded(t *testing.T) {
	t.Parallel()
	r := run(t, Options{Config: settings(""), Embedded: true})
	testkit.Eventually(t, "one line says so, and nothing is wrong", func() bool { // a check whose time is over is unknown
		status, body := r.call(http.MethodGet, "/v1/doctor", "")
		return status == http.StatusOK && strings.Count(body, `"detail":"an embedded Redis`) == 1 &&
			!strings.Contains(body, `"severity":"unknown"`) && !strings.Contains(body, `"severity":"warning"`)
	})
	_, body := r.call(http.MethodGet, "/v1/doctor?check=password", "")
	if !strings.Contains(body, `"severity":"ok"`) || !strings.Contains(body, "an embedded Redis") {
		t.Errorf("the password: %s", body)
	}
}

func TestApp_ServesMetricsAndMonitor(t *testing.T) {
	t.Parallel()
	a := run(t, Options{Config: settings(""), Monitor: monitor.New})
	a.mustRun("counted")
	var metrics string
	testkit.Eventually(t, "all partitions are led, and the delivery is settled", func() bool { // the task can run before that
		_, metrics = a.call(http.MethodGet, "/metrics", "")
		return strings.Contains(metrics, "dts_leases_held 16") && strings.Contains(metrics, `asynq_queue_size{queue="default"} 0`) &&
			strings.Contains(metrics, `dts_tasks_ended_total{queue="default",state="succeeded"} 1`)
	})
	_, metrics = a.call(http.MethodGet, "/metrics", "") // one answer may have some counts before the end and some after it
	for _, name := range []string{
		`dts_attempts_total{outcome="succeeded",type="shell"} 1`,
		"dts_begin_lateness_seconds_count 1", "dts_dispatch_lateness_seconds_count 1",
		`dts_tasks{partition="0",state="scheduled"} 0`, `dts_script_seconds_count{script="begin"} 1`,
		`asynq_queue_size{queue="default"} 0`, "go_goroutines", `dts_build_info{goversion="go`,
		`dts_queue_attempts_total{outcome="succeeded",queue="default"} 1`,
		`dts_tasks_ended_total{queue="default",state="succeeded"} 1`, `dts_refused_submissions_total{code="overloaded"} 0`,
		`dts_api_requests_total{method="POST",route="/v1/tasks",status="201"} 1`,
		`dts_api_requests_total{method="POST",route="/v1/tasks",status="503"} 0`,
	} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s in\n%s", name, metrics)
		}
	}
	if status, body := a.call(http.MethodGet, "/monitor", ""); status != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("the monitor: %d %s", status, body)
	}
	if status, body := a.call(http.MethodGet, "/monitor/api/queues", ""); status != http.StatusOK || !strings.Contains(body, "critical") {
		t.Errorf("its queues: %d %s", status, body)
	}
	if status, _ := a.call(http.MethodPost, "/monitor/api/queues/default:pause", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("pausing a queue in a read-only monitor: %d", status)
	}
}

func TestMonitor_PausesQueuesIfWritable(t *testing.T) {
	t.Parallel()
	c := settings("")
	c.MonitorWritable = true
	a := run(t, Options{Config: c, Monitor: monitor.New})
	if status, body := a.call(http.MethodPost, "/monitor/api/queues/default:pause", ""); status >= 300 {
		t.Errorf("%d %s", status, body)
	}
	_, body := a.call(http.MethodGet, "/v1/queues", "")
	var queues struct{ Queues []map[string]any }
	testkit.Must(t, json.Unmarshal([]byte(body), &queues))
	if !slices.ContainsFunc(queues.Queues, func(q map[string]any) bool { return q["name"] == "default" && q["paused"] == true }) {
		t.Errorf("queues: %s", body)
	}
}

func TestApp_ServesNoMonitorAndNoProfilesThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	c := settings("")
	c.DebugListen = "127.0.0.1:0"
	a := run(t, Options{Config: c})
	if status, body := a.call(http.MethodGet, "/monitor", ""); status != http.StatusNotFound {
		t.Errorf("the monitor: %d %s", status, body)
	}
	if a.debug != nil {
		t.Errorf("it serves profiles on %s", a.debug.Addr())
	}
}

func (r *running) ready() bool {
	status, _ := r.call(http.MethodGet, "/readyz", "")
	return status == http.StatusOK
}

func TestReadiness_NeedsRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	a := run(t, Options{Config: settings(redis.URL())})
	if status, body := a.call(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("running: %d %s", status, body)
	}
	redis.Pause()
	refuses := func() {
		t.Helper()
		if status, body := a.callWithin(readyLimit, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "redis") {
			t.Errorf("without Redis: %d %s", status, body)
		}
	}
	refuses()
	testkit.Eventually(t, "it is noticed", func() bool { return !a.link.Up() })
	refuses()
	redis.Continue()
	if status, _ := a.call(http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("alive: %d", status)
	}
	testkit.Eventually(t, "it is ready again", func() bool { return a.ready() })
	redis.RefuseWrites()
	refuses()
	redis.TakeWrites()
	testkit.Eventually(t, "it is ready again", func() bool { return a.ready() })
}

func TestApp_TwoNodesInOneProcessShareThePartitions(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a := run(t, Options{Config: settings(redis.URL())})
	b := run(t, Options{Config: settings(redis.URL())})
	testkit.Eventually(t, "each node leads 8 partitions", func() bool {
		return len(a.scheduler.Led()) == 8 && len(b.scheduler.Led()) == 8
	})
}

func TestNew_SaysWhyItFailsAndClosesEverything(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = taken.Close() }()
	web, secret := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(nil)
	defer web.Close()
	defer secret.Close()
	secret.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	at := func(scheme string, s *httptest.Server) config.URL {
		return config.URL(scheme + "://" + s.Listener.Addr().String())
	}
	locked := redistest.Start(t)
	testkit.Must(t, locked.DB(t).ConfigSet(t.Context(), "requirepass", "right").Err())
	redis := redistest.Start(t).URL()
	_, err = redistest.Open(t, redis).HSet(t.Context(), "dts:meta", "partitions", 16).Result()
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"port taken":            {func(c *config.Config) { c.Listen = taken.Addr().String() }, "address already in use"},
		"other partitions":      {func(c *config.Config) { c.Partitions = 7 }, "partitions: this Redis was started with 16, which cannot be changed to 7"},
		"a wrong password":      {func(c *config.Config) { c.Redis = config.URL("redis://:secret@" + locked.Addr()) }, "the user or the password is wrong"},
		"no password":           {func(c *config.Config) { c.Redis = config.URL(locked.URL()) }, "it asks for a password"},
		"a wrong database":      {func(c *config.Config) { c.Redis = config.URL(strings.TrimSuffix(string(c.Redis), "0") + "99") }, "it has no database of that number"},
		"no TLS there":          {func(c *config.Config) { c.Redis = at("rediss", web) }, "it does not speak TLS: write redis:// instead of rediss://"},
		"TLS there":             {func(c *config.Config) { c.Redis = at("redis", secret) }, "it speaks TLS: write rediss:// instead of redis://"},
		"a strange certificate": {func(c *config.Config) { c.Redis = at("rediss", secret) }, "its certificate cannot be trusted"},
		"no Redis there":        {func(c *config.Config) { c.Redis = at("redis", web) }, "what answers is not Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings(redis)
			c.change(&cfg)
			_, err := New(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestApp_SurvivesARestartOfRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t, redistest.AOF())
	a := run(t, Options{Config: settings(redis.URL())})
	a.mustRun("before")
	redis.Kill()
	redis.Restart()
	a.mustRun("after")
}

func TestRun_ClosesEverythingAtItsEnd(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := settings(redistest.Start(t).URL())
	a, err := New(t.Context(), Options{Config: c, Monitor: monitor.New, Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	testkit.Receive(t, a.Ready(), "the node")
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end of the node"))
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("it warns:\n%s", log.String())
	}
}

func TestRun_StopsWithoutRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	c.DrainTimeout = time.Second
	a := run(t, Options{Config: c})
	redis.Kill()
	a.stop()
	a.end <- testkit.Receive(t, a.end, "the end of Run")
}

func TestApp_InstallationsOnOneRedisDoNotShareTasks(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	one, other := settings(redis.URL()), settings(redis.URL())
	other.Prefix = "staging"
	a, b := run(t, Options{Config: one}), run(t, Options{Config: other})
	for range 10 {
		a.mustRun(fmt.Sprint("task", len(a.history())))
		b.mustRun(fmt.Sprint("task", len(b.history())))
	}
	for _, n := range []*running{a, b} {
		if got := n.history(); len(got) != 10 {
			t.Errorf("%d tasks have succeeded, want its own 10", len(got))
		}
		if _, body := n.call(http.MethodGet, "/v1/queues", ""); !strings.Contains(body, `"name":"default"`) {
			t.Errorf("queues: %s", body)
		}
		_, metrics := n.call(http.MethodGet, "/metrics", "")
		if !strings.Contains(metrics, "dts_leftover_deliveries_total 0") {
			t.Error("it took deliveries of the other installation")
		}
	}
}

// history reads the tasks that have succeeded.
func (r *running) history() []struct{ ID string } {
	r.t.Helper()
	var page struct{ Tasks []struct{ ID string } }
	_, body := r.call(http.MethodGet, "/v1/tasks?state=succeeded", "")
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		r.t.Fatalf("%v: %s", err, body)
	}
	return page.Tasks
}

func TestApp_RemovesDeliveriesThatAreNotNeeded(t *testing.T) {
	t.Parallel()
	a := run(t, Options{Config: settings("")})
	if status, body := a.call(http.MethodPost, "/v1/queues/default/pause", ""); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	a.call(http.MethodPost, "/v1/tasks", `{"id":"never","type":"shell","payload":{"command":["true"]}}`)
	a.await("/v1/queues", `"pending":1`)
	if status, body := a.call(http.MethodDelete, "/v1/tasks/never", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if _, body := a.call(http.MethodGet, "/v1/queues", ""); strings.Contains(body, `"pending":1`) {
		t.Errorf("the delivery of the cancelled task is still in the queue: %s", body)
	}
	a.call(http.MethodPost, "/v1/queues/default/resume", "")
	a.call(http.MethodPost, "/v1/tasks", `{"id":"dead","type":"shell","payload":{"command":["false"]},"retry":{"max_attempts":1}}`)
	a.await("/v1/queues", `"archived":1`)
	a.call(http.MethodPost, "/v1/queues/default/pause", "")
	if status, body := a.call(http.MethodPost, "/v1/tasks/dead/retry", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if _, body := a.call(http.MethodGet, "/v1/queues", ""); strings.Contains(body, `"archived":1`) {
		t.Errorf("the delivery of the retried task is still archived: %s", body)
	}
}

// await reads path until the body contains want.
func (r *running) await(path, want string) {
	r.t.Helper()
	testkit.Eventually(r.t, path+" has "+want, func() bool {
		_, body := r.call(http.MethodGet, path, "")
		return strings.Contains(body, want)
	})
}

func TestApp_WithoutTheAPIRoleServesHealthAndMetricsOnly(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	c.Roles = config.Roles{config.RoleWorker}
	a := run(t, Options{Config: c})
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusOK,
		"/v1/tasks": http.StatusNotFound, "/monitor": http.StatusNotFound, "/openapi.json": http.StatusNotFound,
	} {
		if status, body := a.call(http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
