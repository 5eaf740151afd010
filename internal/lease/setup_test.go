package lease_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redisx"
)

const (
	key   = "dts:{7}:lease"
	epoch = "dts:{7}:epoch"

	short = 500 * time.Millisecond // a TTL that a test can outlive
	long  = time.Hour              // one that it cannot
	limit = 20 * time.Second       // for anything that must happen
)

func TestMain(m *testing.M) {
	if os.Getenv(holderRedis) != "" {
		holdUntilLost()
		return
	}
	logging.Disable() // Redis goes away on purpose here, and go-redis says so on stderr
	goleak.VerifyTestMain(m)
}

func lockFor(db *redisx.DB, owner string, ttl time.Duration) *lease.Lock {
	return lease.New(lease.Options{DB: db, Key: key, EpochKey: epoch, Owner: owner, TTL: ttl})
}

// acquire must succeed; what it acquired is released when the test ends.
func acquire(t *testing.T, l *lease.Lock) *lease.Held {
	t.Helper()
	held, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(t, held) })
	return held
}

func release(t *testing.T, held *lease.Held) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
}

// await waits for the end of a Held's context and says why it ended.
func await(t *testing.T, held *lease.Held) error {
	t.Helper()
	select {
	case <-held.Context().Done():
	case <-time.After(limit):
		t.Fatal("the context did not end")
	}
	return context.Cause(held.Context())
}

// eventually polls until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	again := time.NewTicker(3 * time.Millisecond)
	defer again.Stop()
	end := time.After(limit)
	for !so() {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("it never happened that %s", what)
		}
	}
}

func value(t *testing.T, db *redisx.DB) string {
	t.Helper()
	values, err := db.MGet(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := values[0].(string)
	return text
}
