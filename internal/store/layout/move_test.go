package layout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// serving opens the layout as a node of a release does that serves those versions.
func serving(t *testing.T, db *redisx.DB, versions ...string) *Layout {
	t.Helper()
	l, err := Open(t.Context(), Options{DB: db, serves: versions})
	testkit.Must(t, err)
	return l
}

// list returns a function that reads a list of nodes.
func list(nodes ...cluster.Node) func(context.Context) ([]cluster.Node, error) {
	return func(context.Context) ([]cluster.Node, error) { return nodes, nil }
}

func stored(t *testing.T, db *redisx.DB) string {
	t.Helper()
	version, err := db.HGet(t.Context(), "dts:meta", "layout").Result()
	testkit.Must(t, err)
	return version
}

func TestOpen_ServesTheLayoutThatIsThere(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	if l := serving(t, db, "3", "4"); l.Present() != "3" || stored(t, db) != "3" {
		t.Errorf("new data has layout %s, want the oldest that the node serves", stored(t, db))
	}
	for _, c := range []struct {
		there   string
		serves  []string
		refused bool
	}{
		{"3", []string{"3", "4"}, false},
		{"4", []string{"3", "4"}, false},
		{"4", []string{"4", "5"}, false},
		{"4", []string{"3"}, true},
		{"3", []string{"4", "5"}, true},
	} {
		testkit.Must(t, db.HSet(t.Context(), "dts:meta", "layout", c.there).Err())
		l, err := Open(t.Context(), Options{DB: db, serves: c.serves})
		if c.refused {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the data has layout %q, this dtsd serves only layout %s", c.there, strings.Join(c.serves, " and "))) {
				t.Errorf("layout %s, where %v are served: %v", c.there, c.serves, err)
			}
		} else if testkit.Must(t, err); l.Present() != c.there || stored(t, db) != c.there {
			t.Errorf("layout %s, where %v are served: %s is present, and %s stored", c.there, c.serves, l.Present(), stored(t, db))
		}
	}
}

func TestAdvance_MovesToTheNewestLayoutThatAllServe(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	both, older := cluster.Node{ID: "both", Layouts: []string{"3", "4"}}, cluster.Node{ID: "older", Layouts: []string{"3"}}
	silent := cluster.Node{ID: "silent"}
	dead, guest := silent, silent
	dead.State, guest.Via = cluster.StateDead, "both"
	draining := older
	draining.State = cluster.StateDraining
	for _, c := range []struct {
		name   string
		serves []string
		nodes  []cluster.Node
		want   string
	}{
		{"alone", []string{"3", "4"}, []cluster.Node{both}, "4"},
		{"several", []string{"3", "4"}, []cluster.Node{both, both}, "4"},
		{"beside one that serves the older only", []string{"3", "4"}, []cluster.Node{both, older}, "3"},
		{"beside one that says nothing", []string{"3", "4"}, []cluster.Node{both, silent}, "3"},
		{"beside one that drains", []string{"3", "4"}, []cluster.Node{both, draining}, "3"},
		{"after the death of the last older one", []string{"3", "4"}, []cluster.Node{both, dead}, "4"},
		{"beside a worker by HTTP", []string{"3", "4"}, []cluster.Node{both, guest}, "4"},
		{"one step of two", []string{"3", "4", "5"}, []cluster.Node{both, {Layouts: []string{"3", "4", "5"}}}, "4"},
		{"two steps", []string{"3", "4", "5"}, []cluster.Node{{Layouts: []string{"3", "4", "5"}}}, "5"},
		{"nothing newer", []string{"3"}, []cluster.Node{older}, "3"},
	} {
		testkit.Must(t, db.FlushAll(t.Context()).Err())
		l := serving(t, db, c.serves...)
		testkit.Must(t, l.Advance(t.Context(), list(c.nodes...)))
		if l.Present() != c.want || stored(t, db) != c.want {
			t.Errorf("%s: %s is present, and %s stored, want %s", c.name, l.Present(), stored(t, db), c.want)
		}
	}
}

func TestAdvance_AsksNothingOfRedisWhereThereIsNothingNewer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := serving(t, srv.DB(t), "3", "4")
	testkit.Must(t, l.Advance(t.Context(), list()))
	srv.Kill()
	testkit.Must(t, l.Advance(t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, errors.New("asked for the list") }))
}

func TestAdvance_ManyNodesMoveAtOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var nodes []*Layout
	var wg sync.WaitGroup
	for range 8 {
		nodes = append(nodes, serving(t, srv.DB(t), "3", "4"))
	}
	for _, l := range nodes {
		wg.Go(func() {
			if err := l.Advance(t.Context(), list()); err != nil || l.Present() != "4" {
				t.Errorf("%s is present, %v", l.Present(), err)
			}
		})
	}
	wg.Wait()
}

func TestAdvance_MovesInACluster(t *testing.T) {
	t.Parallel()
	db := redistest.Open(t, redistest.StartCluster(t).URL())
	l, other := serving(t, db, "3", "4"), serving(t, db, "3", "4")
	testkit.Must(t, l.Joined(t.Context()))
	testkit.Must(t, l.Advance(t.Context(), list()))
	_, err := other.Check(t.Context(), known)
	testkit.Must(t, err)
	if stored(t, db) != "4" || l.Present() != "4" || other.Present() != "4" {
		t.Errorf("layout %s; %s and %s are present", stored(t, db), l.Present(), other.Present())
	}
}

func TestAdvance_GoesOnAfterANodeThatDied(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := serving(t, db, "3", "4")
	testkit.Must(t, db.HSet(t.Context(), "dts:meta", movingField, "somebody").Err())
	testkit.Must(t, l.Advance(t.Context(), list()))
	if stored(t, db) != "4" {
		t.Errorf("layout %s", stored(t, db))
	}
}

func TestCheck_FollowsTheLayoutAsFarAsItIsServed(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	older, both := serving(t, db, "3"), serving(t, db, "3", "4")
	for _, version := range []string{"4", "3", "4"} { // back: Redis has lost the move
		testkit.Must(t, db.HSet(t.Context(), "dts:meta", "layout", version).Err())
		_, err := both.Check(t.Context(), known)
		if testkit.Must(t, err); both.Present() != version {
			t.Errorf("%s is present, want %s", both.Present(), version)
		}
	}
	if _, err := older.Check(t.Context(), known); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), `the data has layout "4", this dtsd serves only layout 3`) {
		t.Errorf("a node that does not serve it: %v", err)
	}
	testkit.Must(t, db.FlushAll(t.Context()).Err())
	if f, err := both.Check(t.Context(), forgotten); err != nil || !f.Lost || stored(t, db) != "4" {
		t.Errorf("after Redis has lost all data: %+v, %v, layout %s", f, err, stored(t, db))
	}
}

// A node that serves the older layout only joins while another one moves it. Whatever comes before what: either the layout stays, or the node
// finds that it has moved. Commands of the two are tried in every order.
func TestAdvance_NeverMovesPastANodeThatJoins(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	admin, mine, theirs := srv.DB(t), srv.DB(t), srv.DB(t)
	counted := &steps{}
	mine.AddHook(counted)
	outcomes := map[string]int{}
	run := func(places ...int) (last int) {
		counted.do = nil
		testkit.Must(t, admin.FlushAll(t.Context()).Err())
		mover, joiner := serving(t, mine, "3", "4"), serving(t, theirs, "3")
		var nodes []cluster.Node
		var found error
		joins := []func(){
			func() { nodes = append(nodes, cluster.Node{ID: "joiner", Layouts: []string{"3"}}) },
			func() { testkit.Must(t, joiner.Joined(t.Context())) },
			func() { _, found = joiner.Check(t.Context(), known) },
		}
		n := 0
		counted.do = func() {
			for ; len(joins) > 0 && places[3-len(joins)] <= n; joins = joins[1:] {
				joins[0]()
			}
			n++
		}
		err := mover.Advance(t.Context(), func(context.Context) ([]cluster.Node, error) {
			counted.do()
			return slices.Clone(nodes), nil
		})
		testkit.Must(t, err)
		last = n
		for _, join := range joins {
			join()
		}
		switch version := stored(t, admin); {
		case version == "3" && found == nil && mover.Present() == "3":
			outcomes["stays"]++
		case version == "4" && errors.Is(found, ErrOther) && mover.Present() == "4":
			outcomes["moves"]++
		default:
			t.Errorf("joining at %v: the layout is %s, the mover's %s, and the joiner says %v", places, version, mover.Present(), found)
		}
		return last
	}
	const never = 1000
	steps := run(never, never, never)
	for first := range steps + 1 {
		for second := first; second <= steps; second++ {
			for third := second; third <= steps; third++ {
				run(first, second, third)
			}
		}
	}
	if t.Logf("%d commands: %v", steps, outcomes); outcomes["stays"] < 10 || outcomes["moves"] < 10 {
		t.Errorf("of the orders, %v", outcomes)
	}
}

// steps is called before each command and each pipeline.
type steps struct{ do func() }

func (s *steps) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *steps) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.do != nil {
			s.do()
		}
		return next(ctx, cmd)
	}
}

func (s *steps) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if s.do != nil {
			s.do()
		}
		return next(ctx, cmds)
	}
}
