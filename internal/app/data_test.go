package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

func TestData_NodesSayThatRedisHasLostItAndGoOn(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	a, b := run(t, Options{Config: settings(redis.URL())}), run(t, Options{Config: settings(redis.URL())})
	a.mustRun("before")
	before, err := db.HGetAll(t.Context(), "dts:meta").Result()
	testkit.Must(t, err)

	testkit.Must(t, db.FlushAll(t.Context()).Err())
	if status, body := a.call(http.MethodPost, "/v1/tasks", `{"id":"at-once","type":"noop"}`); status != http.StatusCreated {
		t.Errorf("submitting: %d %s", status, body)
	}
	if status, body := b.call(http.MethodGet, "/v1/tasks/at-once", ""); status != http.StatusOK {
		t.Errorf("the other node: %d %s", status, body)
	}
	for _, n := range []*running{a, b} {
		n.await("/metrics", "dts_redis_data_lost_total 1")
	}
	after, err := db.HGetAll(t.Context(), "dts:meta").Result()
	testkit.Must(t, err)
	for _, field := range []string{"partitions", "layout", "secret", "retries"} {
		if after[field] == "" || after[field] != before[field] {
			t.Errorf("%s was %q, is %q", field, before[field], after[field])
		}
	}
	b.mustRun("after")
	a.call(http.MethodPut, "/v1/schedules/again", `{"every":"1s","task":{"type":"noop"}}`)
	b.await("/v1/tasks?schedule=again&state=succeeded", `"again@`)
	a.await("/v1/namespaces", `"default"`)
	for _, queue := range []string{"critical", "default", "low"} {
		a.await("/v1/queues", `"name":"`+queue+`"`)
	}
}

func TestData_ANodeEndsIfAnotherNumberOfPartitionsIsThere(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	var log testkit.Log
	c := settings(redis.URL())
	a, err := New(t.Context(), Options{Config: c, Executors: builtin.Table(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	testkit.Receive(t, a.Ready(), "all roles")

	pipe := redis.DB(t).TxPipeline()
	pipe.FlushAll(t.Context())
	pipe.HSet(t.Context(), "dts:meta", "partitions", 8) // as the other one writes it if it comes first
	_, err = pipe.Exec(t.Context())
	testkit.Must(t, err)
	c.Partitions = 8
	other := run(t, Options{Config: c})
	if err := testkit.Receive(t, ended, "the end of the node"); !errors.Is(err, layout.ErrOther) || !strings.Contains(err.Error(), "started with 8, which cannot be changed to 16") {
		t.Errorf("it ended with %v", err)
	}
	if err := a.store.Ready(t.Context()); !errors.Is(err, layout.ErrOther) {
		t.Errorf("it still talks to Redis: %v", err)
	}
	if !log.Has("Redis has lost its data") {
		t.Error("it does not say so")
	}
	other.mustRun("there")
	http.DefaultClient.CloseIdleConnections()
}

func TestData_AClientOfRedisStopsIfAnotherNumberOfPartitionsIsThere(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	d, err := OpenDirect(t.Context(), DirectOptions{Config: c, Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, d.Close()) }()
	testkit.Must(t, redis.DB(t).HSet(t.Context(), "dts:meta", "partitions", 8).Err())
	d.nodes.View()
	if err := d.link.Severed(); !errors.Is(err, layout.ErrOther) {
		t.Errorf("got %v", err)
	}
}

// A node that was away, and finds when it is back that the layout has moved to one that it does not serve, ends.
func TestData_ANodeEndsIfTheLayoutHasMovedPastIt(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	a, err := New(t.Context(), Options{Config: settings(redis.URL()), Executors: builtin.Table(), Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	testkit.Receive(t, a.Ready(), "all roles")
	entry, err := db.HGet(t.Context(), "dts:nodes", a.Node()).Result()
	testkit.Must(t, err)
	if !strings.Contains(entry, `"layouts":["3","4","5","6","7"]`) {
		t.Errorf("it says %s", entry)
	}

	pipe := db.TxPipeline()
	pipe.HSet(t.Context(), "dts:meta", "layout", "8")
	pipe.HDel(t.Context(), "dts:nodes", a.Node())
	_, err = pipe.Exec(t.Context())
	testkit.Must(t, err)
	err = testkit.Receive(t, ended, "the end of the node")
	if !errors.Is(err, layout.ErrOther) || !strings.Contains(err.Error(), `the data has layout "8"`) {
		t.Errorf("it ended with %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Nobody else has seen a node on the list while it starts: so it looks again once it is there, before its roles start.
func TestData_ANodeStartsNoRoleIfTheLayoutMovesWhileItStarts(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, err := New(t.Context(), Options{Config: settings(redis.URL()), Executors: builtin.Table(), Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	testkit.Must(t, redis.DB(t).HSet(t.Context(), "dts:meta", "layout", "8", "moving", "x").Err())
	if err := a.Run(t.Context()); !errors.Is(err, layout.ErrOther) {
		t.Errorf("it ended with %v", err)
	}
	select {
	case <-a.Ready():
		t.Error("its roles have started")
	default:
	}
	http.DefaultClient.CloseIdleConnections()
}
