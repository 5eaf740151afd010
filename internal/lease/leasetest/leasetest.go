// Package leasetest reads and changes leases in Redis for tests, as their owners would.
package leasetest

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Grant gives a lease to the holder of a fence, for ttl; 0 means for ever. Any other holder loses it.
func Grant(t testing.TB, db *redisx.DB, key lua.LeaseKey, fence lua.Fence, ttl time.Duration) {
	t.Helper()
	End(t, db, key)
	testkit.Must(t, db.Set(t.Context(), string(key), string(fence), 0).Err())
	testkit.Must(t, db.Set(t.Context(), term(key, fence), "", ttl).Err())
}

// End ends a lease, as if it had expired.
func End(t testing.TB, db *redisx.DB, key lua.LeaseKey) {
	t.Helper()
	if fence := Holder(t, db, key); fence != "" {
		testkit.Must(t, db.Del(t.Context(), term(key, fence)).Err())
	}
}

// Holder returns the fence of the holder of a lease; "" if nobody holds it.
func Holder(t testing.TB, db *redisx.DB, key lua.LeaseKey) lua.Fence {
	t.Helper()
	values, err := db.MGet(t.Context(), string(key)).Result()
	testkit.Must(t, err)
	newest, _ := values[0].(string)
	if Left(t, db, key, lua.Fence(newest)) == noTerm {
		return ""
	}
	return lua.Fence(newest)
}

const noTerm = time.Duration(-2) // PTTL of a key that does not exist

// Left returns how long the lease of a holder lasts unless it is renewed; negative if it has none, or one without an end.
func Left(t testing.TB, db *redisx.DB, key lua.LeaseKey, fence lua.Fence) time.Duration {
	t.Helper()
	left, err := db.PTTL(t.Context(), term(key, fence)).Result()
	testkit.Must(t, err)
	return left
}

func term(key lua.LeaseKey, fence lua.Fence) string { return string(key) + ":" + string(fence) }
