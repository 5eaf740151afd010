package lease_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
)

// call is one run of a script, as a client might send it.
type call struct {
	script string
	keys   []string
	args   []any
}

func run(t *testing.T, db *redisx.DB, c call) (any, error) {
	t.Helper()
	return db.Run(t.Context(), redisx.NewScript(c.script), c.keys, c.args...)
}

var (
	acquireByA = call{"acquire", []string{key, epoch}, []any{"a", 60_000}}
	acquireByB = call{"acquire", []string{key, epoch}, []any{"b", 60_000}}
	renewByA   = call{"renew", []string{key}, []any{"1:a", 60_000}}
	releaseByA = call{"release", []string{key}, []any{"1:a", "", ""}}
)

func TestARefusalChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  []call
		refused call
		code    string
	}{
		{"acquire what another holds", []call{acquireByB}, acquireByA, "HELD"},
		{"renew what nobody holds", nil, renewByA, "LOST"},
		{"renew what another holds", []call{acquireByA, releaseByA, acquireByB}, renewByA, "LOST"},
		{"renew with an old token", []call{acquireByA, releaseByA, acquireByA}, renewByA, "LOST"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := redistest.Start(t).DB(t)
			for _, b := range c.before {
				if _, err := run(t, db, b); err != nil {
					t.Fatal(err)
				}
			}
			before := redistest.Dump(t, db)
			if _, err := run(t, db, c.refused); !redisx.RefusedWith(err, c.code) {
				t.Errorf("got %v, want a refusal with %s", err, c.code)
			}
			same(t, before, redistest.Dump(t, db))
		})
	}
}

func TestARepeatedScriptIsHarmless(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   []call
		repeated call
		reply    any // of the repeat
	}{
		{"acquire", nil, acquireByA, []any{int64(1), int64(60_000)}},
		{"renew", []call{acquireByA}, renewByA, int64(60_000)},
		{"release", []call{acquireByA}, releaseByA, int64(0)},
		{"release what another took since", []call{acquireByA, releaseByA, acquireByB}, releaseByA, int64(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := redistest.Start(t).DB(t)
			for _, b := range append(c.before, c.repeated) {
				if _, err := run(t, db, b); err != nil {
					t.Fatal(err)
				}
			}
			before := redistest.Dump(t, db)
			reply, err := run(t, db, c.repeated)
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
