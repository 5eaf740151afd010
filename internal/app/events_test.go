package app

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// follow opens a stream of server-sent events and returns its lines; end closes it.
func (r *running) follow(path string) (lines *bufio.Scanner, end func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+path, nil)
	testkit.Must(r.t, err)
	response, err := http.DefaultClient.Do(request)
	testkit.Must(r.t, err)
	end = func() { cancel(); _ = response.Body.Close() }
	r.t.Cleanup(end)
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s", path, response.Status)
	}
	return bufio.NewScanner(response.Body), end
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
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	subscriptions := func() int64 {
		count, err := db.PubSubNumSub(t.Context(), "dts:events").Result()
		testkit.Must(t, err)
		return count["dts:events"]
	}
	a := run(t, Options{Config: settings(redis.URL())})
	if got := subscriptions(); got != 0 {
		t.Errorf("%d subscriptions without a stream", got)
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
	a.mustRun("followed")
	for _, lines := range streams[:50] {
		readUntil(t, lines, "event: task.succeeded")
	}
	for _, end := range ends {
		end()
	}
	if got := subscriptions(); got != 1 { // for a while, for streams that come back
		t.Errorf("%d subscriptions after the last stream, want 1", got)
	}
}
