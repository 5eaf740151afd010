package app

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
)

// follow opens a stream of server-sent events and returns its lines, until close is called.
func (r *running) follow(path string) (lines *bufio.Scanner, end func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	end = func() { cancel(); _ = answer.Body.Close() }
	r.t.Cleanup(end)
	if answer.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s", path, answer.Status)
	}
	return bufio.NewScanner(answer.Body), end
}

// readUntil reads lines until one contains want.
func readUntil(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), want) {
			return
		}
	}
	t.Fatalf("the stream ended before a line with %s: %v", want, lines.Err())
}

func TestEvents_AllClientsOfANodeShareOneSubscription(t *testing.T) {
	redis := redistest.Start(t)
	db := redis.DB(t)
	subscriptions := func() int64 {
		count, err := db.PubSubNumSub(t.Context(), "dts:events").Result()
		if err != nil {
			t.Fatal(err)
		}
		return count["dts:events"]
	}
	a := run(t, Options{Config: settings(redis.URL())})
	if got := subscriptions(); got != 0 {
		t.Errorf("%d subscriptions though nobody follows events", got)
	}
	a.call(http.MethodPost, "/v1/tasks", `{"id":"later","type":"shell","payload":{"command":["true"]},"delay":"1h"}`)
	var streams []*bufio.Scanner
	var ends []func()
	for i := range 51 {
		path := "/v1/events?task=followed"
		if i == 50 {
			path = "/v1/tasks/later/logs?follow=true"
		}
		lines, end := a.follow(path)
		streams, ends = append(streams, lines), append(ends, end)
	}
	if got := subscriptions(); got != 1 {
		t.Errorf("%d subscriptions for 51 streams, want 1", got)
	}
	a.runs("followed")
	for _, lines := range streams[:50] {
		readUntil(t, lines, "event: task.succeeded")
	}
	for _, end := range ends {
		end()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for subscriptions() != 0 {
		if clock.Sleep(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("%d subscriptions after all clients have gone", subscriptions())
		}
	}
}
