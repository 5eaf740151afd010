package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

var _ redis.Error = reply("")

func TestIsUntold_IfThePrimaryDidNotAnswerOrIsNotReady(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{fmt.Errorf("script finish: %w", io.EOF), true},
		{fmt.Errorf("script finish: %w", reply("LOADING Redis is loading the dataset in memory")), true},
		{reply("NOREPLICAS Not enough good replicas to write."), true},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), false},
		{tasks.ErrBehind, false},
	} {
		if got := isUntold(test.err); got != test.want {
			t.Errorf("%v: %t, want %t", test.err, got, test.want)
		}
	}
}

func TestWaitingHelps_UnlessRedisHasAnsweredForGood(t *testing.T) {
	for _, test := range []struct {
		err  error
		up   bool
		want bool
	}{
		{errors.New("all sentinels are unreachable"), false, true},
		{fmt.Errorf("reading dts:meta: %w", context.DeadlineExceeded), true, true}, // it has answered others meanwhile
		{reply("LOADING Redis is loading the dataset in memory"), true, true},
		{errors.New("partitions: this Redis was started with 4"), true, false},
	} {
		if got := waitingHelps(test.err, test.up); got != test.want {
			t.Errorf("%v, Redis answers: %t: %t, want %t", test.err, test.up, got, test.want)
		}
	}
}

// What nodes put back, a request that is repeated must find.
func TestOpenDirect_WaitsForAPrimaryThatHasTakenOver(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	d, err := OpenDirect(t.Context(), DirectOptions{Config: settings(pair.URL()), Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, d.Close()) }()
	submit := func() api.Submitted {
		who := control.Caller{Namespace: "default"}
		answer, err := d.Submissions().Submit(t.Context(), who, wire.Submission{ID: new("a"), Type: "http"})
		testkit.Must(t, err)
		return answer
	}
	submit()
	pair.Detach()
	pair.FailOver()
	start := time.Now()
	if again := submit(); !again.Existed || time.Since(start) < settleTime {
		t.Errorf("answered after %s: %+v; want to wait for %s", time.Since(start), again, settleTime)
	}
}

// The others may not have told the primary what they know.
func TestNew_WaitsForAPrimaryThatHasTakenOver(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	pair.FailOver()
	tookOver := time.Now()
	buildAfter(t, pair, &testkit.Log{}, func() time.Time { return tookOver })
}

// A node that finds no Redis cannot know whether what answers then has lost something.
func TestNew_WaitsForAPrimaryAfterAnOutage(t *testing.T) {
	t.Parallel()
	pair, log := redistest.StartPair(t), &testkit.Log{}
	pair.Cut()
	mended := make(chan time.Time, 1)
	go func() {
		for !log.Has("cannot reach Redis") && clock.Sleep(t.Context(), time.Millisecond) == nil {
		}
		mended <- time.Now()
		pair.Mend()
	}()
	buildAfter(t, pair, log, func() time.Time { return <-mended })
}

// buildAfter builds a node, and checks that this ends when a primary that took over at a time has settled.
func buildAfter(t *testing.T, pair *redistest.Pair, log *testkit.Log, tookOver func() time.Time) {
	t.Helper()
	a, err := New(t.Context(), Options{Config: settings(pair.URL()), Executors: builtin.Table(), Log: slog.New(slog.NewTextHandler(log, nil))})
	testkit.Must(t, err)
	if took := time.Since(tookOver()); took < settleTime {
		t.Errorf("it was built after %s, want to wait for %s", took, settleTime)
	}
	testkit.Must(t, a.close())
}

// A node cannot tell of runs on another server of the cluster while that is away.
func TestApp_TellsAPrimaryThatHasTakenOverWhileAnotherServerIsAway(t *testing.T) {
	t.Parallel()
	c, log := redistest.StartCluster(t, redistest.NoFailover()), &testkit.Log{}
	r := run(t, Options{Config: settings(c.URL()), Log: slog.New(slog.NewTextHandler(log, nil))})
	began, end := make(chan struct{}, 10), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	}))
	defer service.Close()
	defer close(end)
	one := r.begin(service.URL, began, func(*redistest.Server) bool { return true }, c)
	away := c.Primary(one)
	other := r.begin(service.URL, began, func(s *redistest.Server) bool { return s != away }, c)

	away.Kill()
	testkit.Eventually(t, "the leases there cannot be extended", func() bool { return log.Has("cannot extend the leases of attempts") })
	c.Failover(other)
	testkit.Eventually(t, "the failover is noticed", func() bool { return log.Has("Redis has restarted or failed over") })
	testkit.Eventually(t, "it is told what runs", func() bool { return log.Has("reported attempts to the new Redis primary") })
	away.Restart()
}

// begin has an attempt begin that calls a URL, of a task whose data is on a server that fits, and returns a key of it.
func (r *running) begin(url string, began <-chan struct{}, fits func(*redistest.Server) bool, c *redistest.Cluster) (key string) {
	r.t.Helper()
	for i := 0; ; i++ {
		ref := task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint(i)}
		if key = string(r.store.KeysOf(ref).States()); !fits(c.Primary(key)) {
			continue
		}
		if status, body := r.call(http.MethodPost, "/v1/tasks", fmt.Sprintf(`{"id":%q,"type":"http","payload":{"url":%q}}`, ref.ID, url)); status != http.StatusCreated {
			r.t.Fatalf("submitting: %d %s", status, body)
		}
		testkit.Receive(r.t, began, "the attempt")
		return key
	}
}
