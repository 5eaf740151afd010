package redisx_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestCallEach_WaitsNoLongerThanItsPatienceForASilentServer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for _, key := range keys {
		testkit.Must(t, db.Set(t.Context(), key, "value of "+key, 0).Err())
	}
	silent := cluster.Primary("a")
	away := make(map[int]bool)
	for i, key := range keys {
		away[i] = cluster.Primary(key) == silent
	}
	late, after := make(map[int]bool), make(chan string, len(keys))
	errands := redisx.Errands{DB: db, Patience: 200 * time.Millisecond}

	silent.Pause()
	t.Cleanup(silent.Continue)
	results := redisx.CallEach(t.Context(), &errands, redisx.Calls[string]{
		Keys: keys,
		Do: func(places []int) []redisx.Result[string] {
			found := make([]redisx.Result[string], len(places))
			for k, i := range places {
				found[k].Reply, found[k].Err = db.Get(t.Context(), keys[i]).Result()
			}
			return found
		},
		Late:  func(i int) { late[i] = true },
		After: func(i int, r redisx.Result[string]) { after <- fmt.Sprintf("%s: %s, %v", keys[i], r.Reply, r.Err) },
	})
	for i, r := range results {
		switch {
		case away[i] != late[i] || away[i] != errors.Is(r.Err, redisx.ErrLate):
			t.Errorf("%s, which the silent server has: %t, is late: %t, %v", keys[i], away[i], late[i], r.Err)
		case !away[i] && (r.Err != nil || r.Reply != "value of "+keys[i]):
			t.Errorf("%s is %q, %v", keys[i], r.Reply, r.Err)
		}
	}
	silent.Continue()
	for i, key := range keys {
		if !away[i] {
			continue
		}
		if got, want := testkit.Receive(t, after, "a late answer"), fmt.Sprintf("%s: value of %s, <nil>", key, key); got != want {
			t.Errorf("late: %q, want %q", got, want)
		}
	}
	errands.Wait()
}

// There is no other server to go on with.
func TestCallEach_WaitsForAServerThatIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	results := redisx.CallEach(t.Context(), &redisx.Errands{DB: db}, redisx.Calls[int]{
		Keys: []string{"a", "b"},
		Do: func(places []int) []redisx.Result[int] {
			testkit.Must(t, db.Ping(t.Context()).Err())
			return []redisx.Result[int]{{Reply: places[0]}, {Reply: places[1]}}
		},
		Late: func(i int) { t.Errorf("%d is late", i) },
	})
	if len(results) != 2 || results[0].Reply != 0 || results[1].Reply != 1 {
		t.Errorf("%+v", results)
	}
}
