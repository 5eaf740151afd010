package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// createOverdue creates n tasks of a queue in one partition, one due each ms, the last one before until. Their ids are in order of their due
// times.
func createOverdue(t *testing.T, w *storetest.World, n int, queue string, until time.Time) {
	t.Helper()
	const atOnce = 500
	first := until.Add(-time.Duration(n) * time.Millisecond)
	for from := 0; from < n; from += atOnce {
		var call lua.Create
		var late []redis.Z
		for i := from; i < min(from+atOnce, n); i++ {
			ref := task.Ref{Namespace: "default", ID: fmt.Sprintf("s@%07d", i)}
			def, err := codec.EncodeDefinition(task.Definition{Ref: ref, Type: "http", Queue: queue}.Normalize())
			testkit.Must(t, err)
			call.Defs, call.Events, call.Wake = w.KeysOf(ref).Defs(), w.Keys.Events(), w.WakeOf(ref)
			call.Tasks = append(call.Tasks, lua.CreateTask{Member: ref, Def: def, Delay: 0})
			due := first.Add(time.Duration(i) * time.Millisecond)
			late = append(late, redis.Z{Score: float64(due.UnixMilli()), Member: ref.String()})
		}
		_, err := redisx.Run(w.Ctx, w.DB, call)
		testkit.Must(t, err)
		testkit.Must(t, w.DB.ZAddXX(w.Ctx, string(w.KeysOf(task.Ref{Namespace: "default", ID: "s"}).Wheel()), late...).Err())
	}
}

// As after an outage of all schedulers. Tasks of another queue are taken at the first claim after they are due, however many are overdue;
// those of the same queue are taken in the order in which they were due.
func TestClaim_TakesNewlyDueTasksOfAnotherQueueWhileManyAreOverdue(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const limit, room = 256, 16
	n := testkit.Amount(6_000, 1_000_000)
	w := storetest.New(t)
	createOverdue(t, w, n, "bulk", w.DB.Time(w.Ctx).Val().Add(-time.Minute))
	root := task.Ref{Namespace: "default", ID: "s"}
	quotas := handover.Grant{Default: room, Lanes: handover.Quotas{{Queue: "bulk"}: {Number: room}}}
	var bulk, lateness []string
	var longest time.Duration
	claims, fresh, newly := 0, "", 0
	for {
		if claims%10 == 1 {
			now := w.DB.Time(w.Ctx).Val()
			fresh = createDue(t, w, fmt.Sprintf("s@fresh%07d", claims), "fresh", now).ID
			createDue(t, w, fmt.Sprintf("s@late%07d", claims), "bulk", now)
			newly++
		}
		start := clock.Now()
		claimed, err := w.Leader(root).Claim(w.Ctx, limit, quotas, time.Hour)
		testkit.Must(t, err)
		longest = max(longest, clock.Since(start))
		claims++
		found := fresh == ""
		for _, d := range claimed.Deliveries {
			switch d.Queue {
			case "bulk":
				bulk = append(bulk, d.Ref.ID)
			case "fresh":
				found = d.Ref.ID == fresh
				lateness = append(lateness, claimed.Now.Sub(d.DueAt).String())
			}
		}
		if !found {
			t.Fatalf("claim %d did not take %s, which had just become due", claims, fresh)
		}
		if fresh = ""; len(claimed.Deliveries) > room+1 && quotas.Lanes[handover.Lane{Queue: "bulk"}].Number == room {
			t.Fatalf("claim %d took %d tasks, and there was room for %d of bulk", claims, len(claimed.Deliveries), room)
		}
		if len(bulk) == n+newly {
			break
		}
		if claimed.Next.IsZero() { // all have left the wheel: take the rest fast
			quotas.Lanes[handover.Lane{Queue: "bulk"}] = handover.Quota{Number: limit}
		}
	}
	if !slices.IsSorted(bulk[:n]) || bulk[n-1] != fmt.Sprintf("s@%07d", n-1) {
		t.Error("the overdue tasks were not taken in the order in which they were due")
	}
	t.Logf("%d overdue: %d claims, the longest of %s; newly due tasks were claimed after %v", n, claims, longest, lateness[:min(5, len(lateness))])
}

// As where the workers have room for everything: the newest ones, which are put apart, do not make the claims smaller.
func TestClaim_TakesAsManyAsItMayWhileManyAreOverdue(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const n, limit = 20_000, 256
	w := storetest.New(t)
	createOverdue(t, w, n, "bulk", w.DB.Time(w.Ctx).Val().Add(-time.Minute))
	leader := w.Leader(task.Ref{Namespace: "default", ID: "s"})
	quotas := handover.Grant{Lanes: handover.Quotas{{Queue: "bulk"}: {Number: limit}}}
	var taken []string
	claims := 0
	for ; len(taken) < n && claims < n; claims++ {
		claimed, err := leader.Claim(w.Ctx, limit, quotas, time.Hour)
		testkit.Must(t, err)
		for _, d := range claimed.Deliveries {
			taken = append(taken, d.Ref.ID)
		}
	}
	if want := n/limit + 2; claims > want || !slices.IsSorted(taken) {
		t.Errorf("%d claims, want %d at most; in order: %t", claims, want, slices.IsSorted(taken))
	}
}
