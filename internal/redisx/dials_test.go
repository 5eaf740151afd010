package redisx_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// A pool that has failed to connect as often as it has connections repeats its last error for up to a second, also when Redis is back. That is no new
// outage, and no command fails of it.
func TestLink_KnowsThatRedisIsBackWhateverPoolsRepeat(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	var out bytes.Buffer
	server := redistest.Start(t)
	link := redisx.NewLink(slog.New(slog.NewTextHandler(&out, nil)))
	open := func() *redisx.DB {
		db, err := redisx.Open(t.Context(), redisx.Options{URL: server.URL() + "?pool_size=1&pipeline_pool_size=-1&max_retries=-1", Link: link})
		testkit.Must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	repeats, other := open(), open()
	server.Kill()
	for range 3 {
		if err := repeats.Ping(t.Context()).Err(); err == nil || link.Up() {
			t.Fatalf("got %v while Redis is away, up %t", err, link.Up())
		}
	}
	server.Restart()
	testkit.Eventually(t, "the other client reaches Redis", func() bool { return other.Ping(t.Context()).Err() == nil })
	if err := repeats.Ping(t.Context()).Err(); err != nil || !link.Up() {
		t.Errorf("got %v although Redis is back, up %t", err, link.Up())
	}
	testkit.Must(t, other.Ping(t.Context()).Err())
	if n := strings.Count(out.String(), "Redis back"); n != 1 {
		t.Errorf("the log says %d times that Redis is back: %s", n, out.String())
	}
}
