package queue

import (
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Installations on one Redis share asynq's list of queues.
func TestKnown_LeavesOutOtherInstallations(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	two := New(Options{DB: x.db, Prefix: "two"})
	expect := func(q *Queues, want ...string) {
		t.Helper()
		known, err := q.Known(t.Context())
		testkit.Must(t, err)
		slices.Sort(known)
		if !slices.Equal(known, want) {
			t.Errorf("known: %q, want %q", known, want)
		}
		infos, err := q.List(t.Context())
		testkit.Must(t, err)
		if !slices.EqualFunc(infos, want, func(i Info, name string) bool { return i.Name == name }) {
			t.Errorf("listed: %+v, want %q", infos, want)
		}
	}
	for _, name := range []string{"default", "a.b", "dts.x"} {
		testkit.Must(t, x.Add(t.Context(), name))
	}
	testkit.Must(t, two.Add(t.Context(), "default"))
	testkit.Must(t, two.Add(t.Context(), "a.b"))
	expect(two, "a.b", "default")
	expect(x.Queues, "a.b", "default", "dts.x", "two.a.b", "two.default") // nobody knows the prefix

	testkit.Must(t, x.db.HSet(t.Context(), string(lua.NewKeyspace("two", 0).Meta()), "layout", "1").Err())
	expect(x.Queues, "a.b", "default", "dts.x")
	tended, _, err := x.toTend(t.Context(), 0)
	testkit.Must(t, err)
	if len(tended) != 3 {
		t.Errorf("tended: %q", tended)
	}
}
