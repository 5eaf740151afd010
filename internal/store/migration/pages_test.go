package migration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// More tasks than are read at once, more bytes than are written at once, and unreadable tasks, which leave their set while it
// is read.
func TestOpen_ReadsSetsInPages(t *testing.T) {
	t.Parallel()
	const tasks = 750
	db := redistest.Start(t).DB(t)
	pipe := db.Pipeline()
	pipe.HSet(t.Context(), "dts:meta", "partitions", 2, "layout", "1")
	payload := `{"command":["echo","` + strings.Repeat("x", 20_000) + `"]}`
	unreadable := func(i int) bool { return i%3 == 0 || i >= 100 && i < 200 }
	for i := range tasks {
		member, created, state := fmt.Sprintf("default:task-%03d", i), fmt.Sprint(1_795_000_000_000+i), "scheduled"
		if unreadable(i) {
			state = "lost"
		}
		pipe.HSet(t.Context(), "dts:{1}:task:"+member, "state", state, "created", created, "def", `{"type":"shell","delay":9}`+"\n"+payload)
		pipe.ZAdd(t.Context(), "dts:{1}:wheel", redis.Z{Member: member, Score: float64(1_895_000_000_000 + i/7)})
	}
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)

	w := storetest.On(t, db)
	w.CheckSets()
	defs := w.DB.HGetAll(w.Ctx, string(w.Keys.Partition(1).Defs())).Val()
	payloads := w.DB.HGetAll(w.Ctx, string(w.Keys.Partition(1).Payloads())).Val()
	aside := w.DB.ZRange(w.Ctx, string(w.Keys.Partition(1).Unconverted()), 0, -1).Val()
	for i := range tasks {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprintf("task-%03d", i)}
		_, converted := defs[ref.String()]
		if converted == unreadable(i) || slices.Contains(aside, ref.String()) != unreadable(i) {
			t.Errorf("%s: converted is %v, unreadable is %v", ref, converted, unreadable(i))
		}
		if converted && payloads[ref.String()] != payload {
			t.Errorf("%s has another payload", ref)
		}
		if old := w.DB.Exists(w.Ctx, string(w.Keys.Partition(1).OldTask(ref))).Val() == 1; old != unreadable(i) {
			t.Errorf("%s: its old hash exists is %v, unreadable is %v", ref, old, unreadable(i))
		}
	}
}
