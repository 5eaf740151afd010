package dts_test

import (
	"context"
	"iter"
	"log/slog"
	"testing"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// redisURL is the Redis of the examples, inside this process.
var redisURL string

// quiet is a logger for examples, whose output is compared.
var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { testkit.Main(withRedis{m}) }

// withRedis is the tests with the Redis of the examples beside them.
type withRedis struct{ *testing.M }

func (w withRedis) Run() int {
	server, err := embedded.Start("")
	if err != nil {
		panic(err)
	}
	defer server.Close()
	redisURL = server.URL()
	return w.M.Run()
}

// fleet is a Redis and a node of dtsd that has all roles.
type fleet struct {
	redis   string // URL
	address string // of the API
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	redis := redistest.Start(t)
	settings := config.Default()
	settings.Redis, settings.Listen, settings.Monitor = config.URL(redis.URL()), "127.0.0.1:0", false
	node, err := app.New(t.Context(), app.Options{
		Config: settings, Executors: builtin.Table(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "test",
	})
	testkit.Must(t, err)
	start(t, node.Run)
	<-node.Ready()
	return fleet{redis: redis.URL(), address: "http://" + node.Addr()}
}

// start runs something until the test ends.
func start(t *testing.T, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-ended)
	})
}

// overBoth runs a test with a client of the API and with one that talks to Redis, each in a namespace of its own.
func overBoth(t *testing.T, test func(t *testing.T, c *dts.Client)) {
	t.Helper()
	newFleet(t).overBoth(t, test)
}

// overBoth is overBoth with the clients of a fleet.
func (f fleet) overBoth(t *testing.T, test func(t *testing.T, c *dts.Client)) {
	t.Helper()
	for name, connect := range map[string]func() (*dts.Client, error){
		"dial": func() (*dts.Client, error) { return dts.Dial(f.address) },
		"open": func() (*dts.Client, error) { return dts.Open(f.redis) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := connect()
			testkit.Must(t, err)
			defer func() { testkit.Must(t, c.Close()) }()
			test(t, c.In(name))
		})
	}
}

// collect returns what a sequence yields, and fails the test at an error.
func collect[T any](t *testing.T, all iter.Seq2[T, error]) []T {
	t.Helper()
	var values []T
	for v, err := range all {
		testkit.Must(t, err)
		values = append(values, v)
	}
	return values
}
