package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/app/profiles"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// ended submits a task and returns it when it has ended.
func (r *running) ended(id, kind, payload string) string {
	r.t.Helper()
	submission := fmt.Sprintf(`{"id":%q,"type":%q,"payload":%s,"retry":{"max_attempts":1}}`, id, kind, payload)
	if status, body := r.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
		r.t.Fatalf("submitting: %d %s", status, body)
	}
	var task string
	testkit.Eventually(r.t, id+" has ended", func() bool {
		_, task = r.call(http.MethodGet, "/v1/tasks/"+id, "")
		return strings.Contains(task, `"state":"succeeded"`) || strings.Contains(task, `"state":"failed"`)
	})
	return task
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func TestApp_LetsNoTaskCallItsOwnAddresses(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	c.DebugListen, c.NodeIP = "127.0.0.1:0", "::ffff:192.0.2.78"
	r := run(t, Options{Config: c, Profiles: profiles.Handler()})
	port := portOf(redis.Addr())
	redirect := httptest.NewServer(http.RedirectHandler("http://"+redis.Addr()+"/", http.StatusTemporaryRedirect))
	t.Cleanup(redirect.Close)
	for name, c := range map[string]struct{ kind, payload, part string }{
		"redis":    {"http", `{"method":"DELETE","url":"http://` + redis.Addr() + `/? victim x"}`, "the Redis of DTS"},
		"name":     {"http", `{"url":"http://localhost:` + port + `/"}`, "the Redis of DTS"},
		"mapped":   {"http", `{"url":"http://[::ffff:127.0.0.1]:` + port + `/"}`, "the Redis of DTS"},
		"any":      {"http", `{"url":"http://0.0.0.0:` + port + `/"}`, "the Redis of DTS"},
		"other":    {"http", `{"url":"http://127.0.0.77:` + port + `/"}`, "the Redis of DTS"},
		"redirect": {"http", `{"method":"GET","url":"` + redirect.URL + `"}`, "the Redis of DTS"},
		"api":      {"http", `{"method":"GET","url":"http://` + r.address + `/healthz"}`, "the API of the node that ran it"},
		"node-ip":  {"http", `{"url":"http://192.0.2.78:` + portOf(r.address) + `/"}`, "the API of the node that ran it"},
		"profiles": {"http", `{"url":"http://` + r.debug.Addr().String() + `/"}`,
			"the profile server of the node that ran it"},
		"grpc":     {"grpc", `{"target":"` + redis.Addr() + `","method":"a.B/C","tls":{}}`, "the Redis of DTS"},
		"grpc-api": {"grpc", `{"target":"` + r.address + `","method":"a.B/C"}`, "the API of the node that ran it"},
	} {
		task := r.ended(name, c.kind, c.payload)
		if !strings.Contains(task, c.part+" listens there; --http-allow") || !strings.Contains(task, `"state":"failed"`) {
			t.Errorf("%s: got %s", name, task)
		}
	}
}

// The other node runs no tasks, so that the first one does.
func TestApp_LetsNoTaskCallOtherNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL())})
	c := settings(redis.URL())
	c.Listen, c.DebugListen, c.NodeIP = "0.0.0.0:0", "127.0.0.1:0", "192.0.2.77"
	c.Roles = config.Roles{config.RoleAPI}
	other := run(t, Options{Config: c, Profiles: profiles.Handler()})
	testkit.Eventually(t, "the first node knows the other one", func() bool { return len(r.registry.View().Nodes) == 2 })
	port := portOf(other.Addr())
	api, debug := "the API of node "+other.Node(), "the profile server of node "+other.Node()
	for name, c := range map[string]struct{ kind, payload, part string }{
		"api":      {"http", `{"method":"GET","url":"http://127.0.0.1:` + port + `/healthz"}`, api},
		"outside":  {"http", `{"method":"GET","url":"http://` + net.JoinHostPort(cluster.IP(), port) + `/healthz"}`, api},
		"node-ip":  {"http", `{"method":"GET","url":"http://192.0.2.77:` + port + `/healthz"}`, api},
		"grpc":     {"grpc", `{"target":"127.0.0.1:` + port + `","method":"a.B/C"}`, api},
		"profiles": {"http", `{"url":"http://` + other.debug.Addr().String() + `/"}`, debug},
	} {
		task := r.ended(name, c.kind, c.payload)
		if !strings.Contains(task, c.part+" listens there; --http-allow") || !strings.Contains(task, `"state":"failed"`) {
			t.Errorf("%s: got %s", name, task)
		}
	}
	other.finish()
	testkit.Eventually(t, "the other node has left", func() bool { return len(r.registry.View().Nodes) == 1 })
	if found := r.ofNeighbours(); len(found) > 0 {
		t.Errorf("a node that has left still listens: %v", found)
	}
}

// The other node is on a machine that has the addresses of this one too, as those of bridges of containers.
func TestApp_LetsTasksCallItsMachineBesideOtherNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL())})
	sidecar := httptest.NewUnstartedServer(http.NotFoundHandler())
	testkit.Must(t, sidecar.Listener.Close())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	testkit.Must(t, err)
	sidecar.Listener = listener
	sidecar.Start()
	t.Cleanup(sidecar.Close)
	port := portOf(listener.Addr().String())
	machine := append(cluster.Addresses(), netip.MustParseAddr("192.0.2.79"))
	other := cluster.New(cluster.Options{
		DB: redis.DB(t), Key: r.store.Keys.Nodes(), Channel: r.store.Keys.Members(), ID: "other", Beat: time.Second,
		Self: func() cluster.Node {
			l := &cluster.Listens{API: "0.0.0.0:" + port, Profiles: "127.0.0.1:" + port, Network: "other", Machine: machine}
			return cluster.Node{Listens: l}
		},
	})
	beat(t, other)
	testkit.Eventually(t, "the first node knows the other one", func() bool { return len(r.registry.View().Nodes) == 2 })
	for host, want := range map[string]string{
		"127.0.0.1": "404", cluster.IP(): "404", "192.0.2.79": "the API of node other listens there",
	} {
		url := "http://" + net.JoinHostPort(host, port) + "/"
		task := r.ended(strings.ReplaceAll(host, ":", "-"), "http", `{"method":"GET","url":"`+url+`"}`)
		if !strings.Contains(task, want) {
			t.Errorf("%s: got %s, want %s", host, task, want)
		}
	}
}

// beat keeps a node on the list until the test ends.
func beat(t *testing.T, r *cluster.Registry) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() { stop(); testkit.Must(t, testkit.Receive(t, ended, "the end of the heartbeats")) })
}

func TestApp_PublishesHowItIsReached(t *testing.T) {
	t.Parallel()
	node := netip.MustParseAddr("192.0.2.77")
	for listen, want := range map[string][]netip.Addr{
		"127.0.0.1:0": {node}, "0.0.0.0:0": append([]netip.Addr{node}, cluster.Addresses()...),
	} {
		var listener net.ListenConfig
		l, err := listener.Listen(t.Context(), "tcp", listen)
		testkit.Must(t, err)
		a := &App{listener: l, network: cluster.Network(), o: Options{Config: config.Config{NodeIP: node.String()}}}
		got := a.listens()
		if !slices.Equal(got.Machine, want) || got.API != l.Addr().String() || got.Network != cluster.Network() {
			t.Errorf("%s: got %+v, want the addresses %v", listen, got, want)
		}
		testkit.Must(t, l.Close())
	}
}

func TestApp_LetsNoTaskCallAReplicaThatWasAdded(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	a, err := New(t.Context(), Options{
		Config: settings(pair.Primary.URL()), Log: slog.New(slog.DiscardHandler), Executors: builtin.Table(),
	})
	testkit.Must(t, err)
	a.serversPause = 50 * time.Millisecond
	pair.AddReplica()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	testkit.Eventually(t, "the node knows the replica", func() bool {
		return slices.ContainsFunc(a.own(), func(e executor.Endpoint) bool { return e.Address == pair.Replica.Addr() })
	})
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

func TestApp_LetsTasksCallItsAPIIfToldTo(t *testing.T) {
	t.Parallel()
	c := settings(redistest.Start(t).URL())
	c.HTTPAllowAPI = true
	r := run(t, Options{Config: c})
	c.Roles = config.Roles{config.RoleAPI}
	other := run(t, Options{Config: c})
	testkit.Eventually(t, "the first node knows the other one", func() bool { return len(r.registry.View().Nodes) == 2 })
	for i, address := range []string{r.address, other.address} {
		task := r.ended(fmt.Sprint("itself", i), "http", `{"method":"GET","url":"http://`+address+`/healthz"}`)
		if !strings.Contains(task, `"state":"succeeded"`) {
			t.Errorf("%s: got %s", address, task)
		}
		// Whoever answers a task must not choose what the node does, also if a connection is open.
		redirect := httptest.NewServer(http.RedirectHandler("http://"+address+"/healthz", http.StatusTemporaryRedirect))
		t.Cleanup(redirect.Close)
		later := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+address+"/healthz")
			w.WriteHeader(http.StatusAccepted)
		}))
		t.Cleanup(later.Close)
		for what, payload := range map[string]string{
			"redirected": `{"method":"GET","url":"` + redirect.URL + `"}`,
			"polled":     `{"method":"GET","url":"` + later.URL + `","accept":{"poll":"100ms"}}`,
		} {
			task := r.ended(fmt.Sprint(what, i), "http", payload)
			if !strings.Contains(task, "only the URL of a task may name it") || !strings.Contains(task, `"state":"failed"`) {
				t.Errorf("%s to %s: got %s", what, address, task)
			}
		}
	}
}

// A command of Redis is no method of HTTP.
func TestApp_RefusesCommandsOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL())})
	db := redis.DB(t)
	testkit.Must(t, db.Set(t.Context(), "victim", "hello", 0).Err())
	for _, method := range []string{"DEL", "MSET", "SET", "FLUSHALL", "UNLINK", "COPY", "EVAL"} {
		payload := fmt.Sprintf(`{"method":%q,"url":"http://%s/? victim x"}`, method, redis.Addr())
		status, body := r.call(http.MethodPost, "/v1/tasks", `{"type":"http","payload":`+payload+`}`)
		if status != http.StatusBadRequest || !strings.Contains(body, `"payload.method"`) {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
	if db.Get(t.Context(), "victim").Val() != "hello" {
		t.Error("the key is gone")
	}
}
