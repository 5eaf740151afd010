package lease_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// call is one run of a script, as a client might send it; it returns the reply.
type call func(t *testing.T, db *redisx.DB) (any, error)

func callOf[R any](c lua.Call[R]) call {
	return func(t *testing.T, db *redisx.DB) (any, error) {
		t.Helper()
		return redisx.Run(t.Context(), db, c)
	}
}

var (
	acquireByA = callOf(lua.AcquireLease{Lease: key, Owner: "a", TTL: time.Minute})
	acquireByB = callOf(lua.AcquireLease{Lease: key, Owner: "b", TTL: time.Minute})
	renewByA   = callOf(lua.RenewLease{Lease: key, Fence: "1:a", TTL: time.Minute})
	releaseByA = callOf(lua.ReleaseLease{Lease: key, Fence: "1:a"})
)

func TestLeaseScripts_RefusalChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		before  []call
		refused call
		code    lua.Code
	}{
		{"acquire what another holds", []call{acquireByB}, acquireByA, lua.CodeHeld},
		{"renew what nobody holds", nil, renewByA, lua.CodeLost},
		{"renew what another holds", []call{acquireByA, releaseByA, acquireByB}, renewByA, lua.CodeLost},
		{"renew with an old token", []call{acquireByA, releaseByA, acquireByA}, renewByA, lua.CodeLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := redistest.Start(t).DB(t)
			for _, run := range c.before {
				if _, err := run(t, db); err != nil {
					t.Fatal(err)
				}
			}
			before := redistest.Dump(t, db)
			if _, err := c.refused(t, db); !redisx.RefusedWith(err, c.code) {
				t.Errorf("got %v, want a refusal with %s", err, c.code)
			}
			same(t, before, redistest.Dump(t, db))
		})
	}
}

func TestLeaseScripts_RepeatIsHarmless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		before   []call
		repeated call
		reply    any // of the repeat
	}{
		{"acquire", nil, acquireByA, lua.AcquireLeaseReply{Token: 1}},
		{"renew", []call{acquireByA}, renewByA, lua.RenewLeaseReply{}},
		{"release", []call{acquireByA}, releaseByA, lua.ReleaseLeaseReply{Released: false}},
		{"release what another took since", []call{acquireByA, releaseByA, acquireByB}, releaseByA, lua.ReleaseLeaseReply{Released: false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := redistest.Start(t).DB(t)
			for _, run := range append(c.before, c.repeated) {
				if _, err := run(t, db); err != nil {
					t.Fatal(err)
				}
			}
			before := redistest.Dump(t, db)
			reply, err := c.repeated(t, db)
			if err != nil || !cmp.Equal(reply, c.reply) {
				t.Errorf("the repeat answered %v, %v; want %v", reply, err, c.reply)
			}
			same(t, before, redistest.Dump(t, db))
		})
	}
}

func same(t *testing.T, before, after map[string]any) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("Redis changed (-before +after):\n%s", diff)
	}
}
