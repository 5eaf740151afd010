package cluster_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

func call[R any](t *testing.T, db *redisx.DB, c lua.Call[R]) R {
	t.Helper()
	reply, err := redisx.Run(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func beat(id lua.NodeID, entry string) lua.Beat {
	return lua.Beat{Nodes: key, ID: id, Entry: entry, Dead: 6 * time.Second, Missed: 3, Keep: time.Hour, Members: "dts:nodes"}
}

func TestBeat_RepeatIsHarmless(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	first := call(t, db, beat("a", `{"x":1}`))
	again := call(t, db, beat("a", `{"x":1}`))
	if !first.Joined || again.Joined {
		t.Errorf("joined: %v, then %v", first.Joined, again.Joined)
	}
	_, entry, _ := strings.Cut(again.Nodes["a"], " ")
	if len(again.Nodes) != 1 || entry != `{"x":1}` {
		t.Errorf("the nodes are %v", again.Nodes)
	}
	all, err := db.HGetAll(t.Context(), key).Result()
	if err != nil || !cmp.Equal(all, again.Nodes) {
		t.Errorf("Redis has %v, %v; want %v", all, err, again.Nodes)
	}
}

func TestBeat_DeadNodeJoinsAgain(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "a", 6001e6, "{}")
	if reply := call(t, db, beat("a", "{}")); !reply.Joined {
		t.Error("a node that was dead did not join again")
	}
}

func TestLeave_RepeatIsHarmless(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	call(t, db, beat("a", "{}"))
	call(t, db, beat("b", "{}"))
	leave := lua.Leave{Nodes: key, ID: "a", Members: "dts:nodes"}
	first := call(t, db, leave)
	before := redistest.Dump(t, db)
	again := call(t, db, leave)
	if !first.Left || again.Left {
		t.Errorf("left: %v, then %v", first.Left, again.Left)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, db)); diff != "" {
		t.Errorf("Redis changed (-before +after):\n%s", diff)
	}
}

// A node that died before the clock of Redis was set back dies once more, as long after that as usual.
func TestBeat_CutsBeatsOfTheFuture(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	write(t, db, "dead", -3600e6, `{"x":1}`)
	reply := call(t, db, beat("a", "{}"))
	want := strconv.FormatInt(reply.Now.UnixMilli(), 10) + ` {"x":1}`
	if got := reply.Nodes["dead"]; got != want {
		t.Errorf("the reply has %q, want %q", got, want)
	}
	if got := db.HGet(t.Context(), key, "dead").Val(); got != want {
		t.Errorf("Redis has %q, want %q", got, want)
	}
}

func TestBeat_LowersNoSequenceNumber(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	for _, x := range []struct {
		sent, known int
		want        string
	}{
		{sent: 7, known: 0, want: `{"sequence":7,"x":1}`},
		{sent: 8, known: 7, want: `{"sequence":8,"x":1}`},
		{sent: 7, known: 8, want: `{"sequence":8,"x":1}`}, // overtaken
		{sent: 9, known: 8, want: `{"sequence":9,"x":1}`},
	} {
		reply := call(t, db, beat("a", fmt.Sprintf(`{"sequence":%d,"x":1}`, x.sent)))
		if _, entry, _ := strings.Cut(reply.Nodes["a"], " "); entry != x.want || reply.Known != x.known {
			t.Errorf("after %d, %d was known and the entry is %s; want %d and %s", x.sent, reply.Known, entry, x.known, x.want)
		}
	}
}
