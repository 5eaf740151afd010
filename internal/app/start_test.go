package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

func TestNew_WaitsForRedisAndSaysSo(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	way := redistest.NewProxy(t, redistest.Start(t).Addr())
	way.Cut()
	c := settings(way.URL())
	c.Listen = fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	var log bytes.Buffer
	type outcome struct {
		app *App
		err error
	}
	built := make(chan outcome, 1)
	go func() {
		a, err := New(t.Context(), Options{Config: c, Log: slog.New(slog.NewTextHandler(&log, nil))})
		built <- outcome{a, err}
	}()
	n := &running{t: t, address: c.Listen}
	testkit.Eventually(t, "it answers", func() bool { return n.answers() })
	if status, _ := n.call(http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("alive: %d", status)
	}
	if status, body := n.call(http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "redis: redis at "+way.URL()+" does not answer") {
		t.Errorf("ready: %d %s", status, body)
	}
	if status, body := n.call(http.MethodGet, "/v1/tasks", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "it waits for Redis") {
		t.Errorf("tasks: %d %s", status, body)
	}
	if status, body := n.call(http.MethodGet, "/metrics", ""); status != http.StatusOK || !strings.Contains(body, "dts_redis_up 0") {
		t.Errorf("metrics: %d %s", status, body)
	}
	way.Mend()
	got := testkit.Receive(t, built, "the node")
	testkit.Must(t, got.err)
	for _, line := range []string{`msg="cannot reach Redis; trying again" node=`, `msg="Redis answers"`} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not have once %s:\n%s", line, log.String())
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- got.app.Run(ctx) }()
	testkit.Receive(t, got.app.Ready(), "all roles")
	if status, body := n.call(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
	}
	if _, body := n.call(http.MethodGet, "/metrics", ""); !strings.Contains(body, "dts_redis_up 1") {
		t.Errorf("metrics: %s", body)
	}
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
	http.DefaultClient.CloseIdleConnections()
}

func TestNew_StopsWaitingForRedisWithItsContext(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	server := redistest.Start(t)
	server.Pause()
	defer server.Continue()
	c := settings(server.URL())
	c.Listen = fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := New(ctx, Options{Config: c, Log: slog.New(slog.DiscardHandler)})
		ended <- err
	}()
	testkit.Eventually(t, "it answers", func() bool { return (&running{t: t, address: c.Listen}).answers() })
	stop()
	if err := testkit.Receive(t, ended, "the end"); err == nil {
		t.Error("it says that it has connected")
	}
	http.DefaultClient.CloseIdleConnections()
}

// The first node writes what is settled once, and waits until it can; the others only read it.
func TestNew_NeedsNoWriteWhereTheDataIsSettled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	full := func(limit string) { testkit.Must(t, server.DB(t).ConfigSet(t.Context(), "maxmemory", limit).Err()) }
	full("1")
	type outcome struct {
		app *App
		err error
	}
	built := make(chan outcome, 1)
	c := settings(server.URL())
	c.Listen = fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	go func() {
		a, err := New(t.Context(), Options{Config: c, Log: slog.New(slog.DiscardHandler)})
		built <- outcome{a, err}
	}()
	testkit.Eventually(t, "the first one waits, and says why", func() bool {
		n := &running{t: t, address: c.Listen}
		if !n.answers() {
			return false
		}
		status, body := n.call(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "OOM")
	})
	full("0")
	first := testkit.Receive(t, built, "the first node")
	testkit.Must(t, first.err)
	testkit.Must(t, first.app.close())
	full("1")
	second, err := New(t.Context(), Options{Config: settings(server.URL()), Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	testkit.Must(t, second.close())
	http.DefaultClient.CloseIdleConnections()
}

// All that a node would read of a replica could be lost when that takes over.
func TestNew_WaitsAtAReplicaUntilThatIsAPrimary(t *testing.T) {
	t.Parallel()
	replica := redistest.StartPair(t).Replica
	c, built := settings(replica.URL()), make(chan error, 1)
	c.Listen = fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	go func() {
		a, err := New(t.Context(), Options{Config: c, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = a.close()
		}
		built <- err
	}()
	testkit.Eventually(t, "it waits, and says why", func() bool {
		n := &running{t: t, address: c.Listen}
		if !n.answers() {
			return false
		}
		status, body := n.call(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "refuses writes: READONLY it is a replica")
	})
	testkit.Must(t, replica.Admin().ReplicaOf(t.Context(), "NO", "ONE").Err())
	testkit.Must(t, testkit.Receive(t, built, "the node"))
	http.DefaultClient.CloseIdleConnections()
}

func TestNew_WarnsIfAFailoverCanLoseWhatWasAccepted(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	warns := func(c config.Config) bool {
		log := startLog(t, c)
		return log.Has("a failover of Redis can lose tasks") && log.Has("replicas=1")
	}
	c := settings(pair.Primary.URL())
	if !warns(c) {
		t.Error("it does not warn, with a replica and neither setting")
	}
	durable := c
	durable.Durability = config.Durability{Replicas: 1, Timeout: time.Second}
	if warns(durable) {
		t.Error("it warns with --durability")
	}
	set := func(name, value string) {
		t.Helper()
		testkit.Must(t, pair.Primary.Admin().ConfigSet(t.Context(), name, value).Err())
	}
	set("min-replicas-to-write", "1")
	for lag, fault := range map[string]string{"2": "", "0": "min-replicas-max-lag 0, which switches it off", "10": "min-replicas-max-lag 10"} {
		set("min-replicas-max-lag", lag)
		if fault == "" && warns(c) {
			t.Errorf("it warns with min-replicas-to-write and min-replicas-max-lag %s", lag)
		}
		if fault != "" && (!warns(c) || !startLog(t, c).Has(fault)) {
			t.Errorf("it does not warn of %q", fault)
		}
	}
}

// startLog is what a node logs as it starts.
func startLog(t *testing.T, c config.Config) *testkit.Log {
	t.Helper()
	var log testkit.Log
	a, err := New(t.Context(), Options{Config: c, Executors: builtin.Table(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	testkit.Must(t, a.close())
	return &log
}

// A replica of a cluster that has taken over would refuse all writes with min-replicas-to-write.
func TestNew_WarnsIfAFailoverOfAClusterWouldRefuseWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := settings(cluster.URL())
	const warning = "after a failover Redis would refuse all writes"
	if startLog(t, c).Has(warning) {
		t.Error("it warns without min-replicas-to-write")
	}
	for _, s := range cluster.Servers {
		testkit.Must(t, s.Admin().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	}
	if !startLog(t, c).Has(warning) {
		t.Error("it does not warn of min-replicas-to-write")
	}
}

func TestStart_WarnsOfShellTasksAsRoot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uid   int
		runs  []string
		warns bool
	}{{0, []string{"http", "shell"}, true}, {1000, []string{"http", "shell"}, false}, {0, []string{"http"}, false}, {-1, []string{"shell"}, false}} {
		var log testkit.Log
		a := &App{runs: c.runs, o: Options{Log: slog.New(slog.NewJSONHandler(&log, nil))}}
		a.warnOfRoot(c.uid)
		if got := log.Has(`"level":"WARN","msg":"shell tasks run as root`); got != c.warns {
			t.Errorf("%+v: warns: %t", c, got)
		}
	}
}
