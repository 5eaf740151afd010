package dts_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/testkit"
)

// byHand is somebody who writes to the Redis of a fleet.
type byHand struct {
	t      *testing.T
	db     *redis.Client
	member string // namespace and id of what the keys belong to
}

func (f fleet) byHand(t *testing.T, namespace, id string) byHand {
	t.Helper()
	options, err := redis.ParseURL(f.redis)
	testkit.Must(t, err)
	db := redis.NewClient(options)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return byHand{t, db, namespace + ":" + id}
}

// do runs a command on a key of the partition that has the member: of a kind of key, or of the member itself if the
// kind ends with a colon.
func (h byHand) do(command, kind string, args ...any) {
	h.t.Helper()
	for p := range 1024 {
		begin := fmt.Sprintf("dts:{%d}:", p)
		of := h.db.Exists(h.t.Context(), begin+"schedule:"+h.member, begin+"lock:"+h.member).Val()
		if of == 0 && !h.db.HExists(h.t.Context(), begin+"defs", h.member).Val() {
			continue
		}
		key := begin + kind
		if strings.HasSuffix(kind, ":") {
			key += h.member
		}
		testkit.Must(h.t, h.db.Do(h.t.Context(), append([]any{command, key}, args...)...).Err())
		return
	}
	h.t.Fatalf("no partition has %s", h.member)
}

// awaitLists waits until all leaders keep the index of lists. Before, lists leave out what only the index tells of.
func (h byHand) awaitLists() {
	h.t.Helper()
	testkit.Eventually(h.t, "the index of lists is built", func() bool {
		for p := range config.Default().Partitions {
			if h.db.HGet(h.t.Context(), fmt.Sprintf("dts:{%d}:listed", p), "*").Val() != "-" {
				return false
			}
		}
		return true
	})
}

// count returns how many values a sequence yields, and the error at its end.
func count[T any](all iter.Seq2[T, error]) (n int, _ error) {
	for _, err := range all {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// A task that cannot be read is shown as far as it can be, beside the others.
func TestClient_ShowsATaskThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx, namespace := t.Context(), strings.TrimPrefix(t.Name(), "TestClient_ShowsATaskThatCannotBeRead/")
		for _, id := range []string{"whole", "definition", "state"} {
			_, err := c.Submit(ctx, dts.Submission{ID: id, Type: "noop", Delay: time.Hour})
			testkit.Must(t, err)
		}
		f.byHand(t, namespace, "definition").awaitLists()
		f.byHand(t, namespace, "definition").do("HSET", "defs", namespace+":definition", "17")
		f.byHand(t, namespace, "state").do("HSET", "states", namespace+":state", "lost")
		for id, want := range map[string]dts.Task{
			"whole":      {Type: "noop", State: dts.StateScheduled},
			"definition": {Type: "", State: dts.StateScheduled, Damage: `its definition "17" cannot be read`},
			"state":      {Type: "noop", State: dts.StateUnreadable, Damage: `its state "lost" cannot be read`},
		} {
			got, err := c.Get(ctx, id)
			testkit.Must(t, err)
			if got.ID != id || got.Type != want.Type || got.State != want.State || got.Damage != want.Damage {
				t.Errorf("%s is %+v", id, got)
			}
		}
		for _, filter := range []dts.TaskFilter{{}, {Type: "noop"}, {States: []dts.State{dts.StateScheduled}}} {
			damaged := 0
			tasks := collect(t, c.List(ctx, filter))
			for _, task := range tasks {
				if task.Damage != "" {
					damaged++
				}
			}
			if len(tasks) != 3 || damaged != 2 {
				t.Errorf("the list by %+v has %d tasks, %d of them damaged", filter, len(tasks), damaged)
			}
		}
		again, err := c.Submit(ctx, dts.Submission{ID: "state", Type: "noop", Delay: time.Hour})
		if testkit.Must(t, err); again.State != dts.StateUnreadable || again.Damage == "" {
			t.Errorf("submitted again: %+v", again)
		}
		for name, err := range map[string]error{
			"cancel": errOf(c.Cancel(ctx, "state")), "retry": errOf(c.Retry(ctx, "state")),
			"change": errOf(c.Change(ctx, "definition", dts.TaskChange{Queue: new("low")})),
			"wait":   errOf(c.Wait(ctx, "state")),
		} {
			if dts.CodeOf(err) != dts.CodeDataUnreadable {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Whatever else cannot be read is left out, and an error at the end of what can be says so.
func TestClient_TellsWhatIsLeftOutOfAList(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx, namespace := t.Context(), strings.TrimPrefix(t.Name(), "TestClient_TellsWhatIsLeftOutOfAList/")
		_, err := c.Submit(ctx, dts.Submission{ID: "task", Type: "noop"})
		testkit.Must(t, err)
		_, err = c.Wait(ctx, "task")
		testkit.Must(t, err)
		for _, id := range []string{"a", "broken", "c"} {
			for hours := range 2 {
				d := dts.ScheduleDefinition{Every: time.Duration(hours+1) * time.Hour, Task: dts.TaskTemplate{Type: "noop"}}
				_, err := c.PutSchedule(ctx, id, d)
				testkit.Must(t, err)
			}
			_, err = c.TriggerSchedule(ctx, id)
			testkit.Must(t, err)
			lock, err := c.Lock(ctx, id, time.Minute)
			testkit.Must(t, err)
			defer func() { _ = lock.Unlock(ctx) }() // one of them is lost
		}
		f.byHand(t, namespace, "broken").do("HSET", "schedule:", "def", "{")
		f.byHand(t, namespace, "broken").do("HDEL", "lock:", "ttl")
		f.byHand(t, namespace, "c").do("ZADD", "ledger:", 1, "garbage")
		f.byHand(t, namespace, "c").do("LPUSH", "history:", "garbage")
		f.byHand(t, namespace, "task").do("LPUSH", "attempts:", "garbage")
		f.byHand(t, namespace, "task").do("XADD", "log:", "1-1", "text", "a line without a time")
		shared := f.byHand(t, namespace, "task").db
		// an entry of now: the nodes forget one that has been dead for long
		testkit.Must(t, shared.HSet(ctx, "dts:nodes", "n", fmt.Sprint(time.Now().UnixMilli(), " {}")).Err())
		testkit.Must(t, shared.HSet(ctx, "dts:limits", "low", "many").Err())
		testkit.Must(t, shared.ZAdd(ctx, "dts:namespaces", redis.Z{Score: 1, Member: "a b"}).Err())
		if _, err := c.GetSchedule(ctx, "broken"); dts.CodeOf(err) != dts.CodeDataUnreadable {
			t.Errorf("the schedule: %v", err)
		}
		for name, list := range map[string]struct {
			read func(ctx context.Context) (int, error)
			rows int // that are left, at least
		}{
			"schedules": {func(ctx context.Context) (int, error) {
				return count(c.ListSchedules(ctx, dts.ScheduleFilter{}))
			}, 2},
			"ledger": {func(ctx context.Context) (int, error) {
				return count(c.ScheduleLedger(ctx, "c", dts.LedgerFilter{}))
			}, 1},
			"revisions": {lengthOf(func(ctx context.Context) ([]dts.Revision, error) {
				return c.ScheduleRevisions(ctx, "c")
			}), 1},
			"attempts":   {lengthOf(func(ctx context.Context) ([]dts.Attempt, error) { return c.Attempts(ctx, "task") }), 1},
			"log":        {func(ctx context.Context) (int, error) { return count(c.Logs(ctx, "task")) }, 0},
			"locks":      {func(ctx context.Context) (int, error) { return count(c.ListLocks(ctx)) }, 2},
			"nodes":      {lengthOf(c.Nodes), 1},
			"queues":     {lengthOf(c.Queues), 1},
			"namespaces": {lengthOf(c.Namespaces), 1},
		} {
			n, err := list.read(ctx)
			if n < list.rows || dts.CodeOf(err) != dts.CodeDataUnreadable || !strings.Contains(err.Error(), "dtsctl doctor") {
				t.Errorf("%s: %d rows, want %d and a sentence about what is left out: %v", name, n, list.rows, err)
			}
		}
		if n, err := count(c.List(ctx, dts.TaskFilter{})); n != 4 || err != nil {
			t.Errorf("the list of tasks, of which all can be read, has %d: %v", n, err)
		}
	})
}

// lengthOf returns what reads a list and returns its length.
func lengthOf[T any](read func(context.Context) ([]T, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		all, err := read(ctx)
		return len(all), err
	}
}
