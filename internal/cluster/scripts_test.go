package cluster_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
)

func script(t *testing.T, db *redisx.DB, name string, args ...any) any {
	t.Helper()
	reply, err := db.Run(t.Context(), redisx.NewScript(name), []string{key}, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func beatArgs(id, entry string) []any { return []any{id, entry, 6000, 3_600_000, "dts:nodes", ""} }

func TestARepeatedBeatIsHarmless(t *testing.T) {
	db := redistest.Start(t).DB(t)
	first := script(t, db, "beat", beatArgs("a", `{"x":1}`)...).([]any)
	again := script(t, db, "beat", beatArgs("a", `{"x":1}`)...).([]any)
	if first[1] != int64(1) || again[1] != int64(0) {
		t.Errorf("joined: %v, then %v", first[1], again[1])
	}
	list := again[2].([]any)
	_, entry, _ := strings.Cut(list[1].(string), " ")
	if len(list) != 2 || list[0] != "a" || entry != `{"x":1}` {
		t.Errorf("the list is %v", list)
	}
	all, err := db.HGetAll(t.Context(), key).Result()
	if err != nil || !cmp.Equal(all, map[string]string{"a": list[1].(string)}) {
		t.Errorf("Redis has %v, %v", all, err)
	}
}

func TestANodeThatWasDeadJoinsAgain(t *testing.T) {
	db := redistest.Start(t).DB(t)
	write(t, db, "a", 6001e6, "{}")
	if reply := script(t, db, "beat", beatArgs("a", "{}")...).([]any); reply[1] != int64(1) {
		t.Errorf("joined: %v", reply[1])
	}
}

func TestARepeatedLeaveIsHarmless(t *testing.T) {
	db := redistest.Start(t).DB(t)
	script(t, db, "beat", beatArgs("a", "{}")...)
	script(t, db, "beat", beatArgs("b", "{}")...)
	first := script(t, db, "leave", "a", "dts:nodes")
	before := redistest.Dump(t, db)
	again := script(t, db, "leave", "a", "dts:nodes")
	if first != int64(1) || again != int64(0) {
		t.Errorf("replies: %v, then %v", first, again)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, db)); diff != "" {
		t.Errorf("Redis changed (-before +after):\n%s", diff)
	}
}
