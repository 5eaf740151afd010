package lease_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	key = "dts:{7}:lease"

	short = time.Second // a TTL that a test can outlive
	long  = time.Hour   // one that it cannot
)

func TestMain(m *testing.M) {
	if os.Getenv(holderRedis) != "" {
		holdUntilLost()
		return
	}
	testkit.Main(m)
}

func leaseFor(db *redisx.DB, owner string, ttl time.Duration) *lease.Lease {
	return lease.New(lease.Options{DB: db, Key: key, Owner: owner, TTL: ttl})
}

// acquire must succeed; what it acquired is released when the test ends.
func acquire(t *testing.T, l *lease.Lease) *lease.Held {
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
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Limit)
	defer cancel()
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
}

// holder is the fence of whoever holds the lease; "" for nobody.
func holder(t *testing.T, db *redisx.DB) string {
	t.Helper()
	return string(leasetest.Holder(t, db, key))
}
