package migration_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/migration"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// layout1 was written by dtsd of commit b20a75e, the last one with layout 1, on Redis 7.0. A script brought tasks and
// schedules into every state through the API of one node with the roles scheduler and api, whose attempts ran on a second
// node. Then it killed that one (so attempts were lost), started another, took the right to asynq's keys from the scheduler's
// user (so that a delivery stayed in flight), replaced the scheduler by a node that was api only (so that due tasks stayed
// scheduled), asked it for every task and schedule, killed the nodes, and wrote down all keys.
//
// TestOlder_IsAnsweredAsBefore in package api compares the answers.
const layout1 = "testdata/layout-1.json"

// older is a Redis with data of layout 1.
func older(t *testing.T) *redisx.DB {
	t.Helper()
	db := redistest.Start(t).DB(t)
	storetest.ReadOlder(t, layout1).Restore(t, db)
	return db
}

func open(ctx context.Context, db *redisx.DB) error {
	_, err := store.Open(ctx, store.Options{DB: db})
	return err
}

func TestOpen_PutsEveryTaskIntoTheSetOfItsState(t *testing.T) {
	t.Parallel()
	db := older(t)
	before := redistest.Dump(t, db)
	w := storetest.On(t, db)
	w.CheckSets()
	after := redistest.Dump(t, db)
	for key := range after {
		if strings.Contains(key, ":task:") || strings.HasSuffix(key, ":inflight") || strings.HasSuffix(key, ":epoch") || strings.HasSuffix(key, ":unconverted") {
			t.Errorf("%s exists", key)
		}
	}
	for key, entry := range before { // what the layouts have in common
		for _, same := range []string{"wheel", "queued", "running", "expiry", "schedules", "ticks", "history:", "ledger:", "live:", "waiting:", "log:", "state:"} {
			_, rest, _ := strings.Cut(key, "}:")
			if strings.HasPrefix(rest, same) {
				if diff := cmp.Diff(entry, after[key]); diff != "" {
					t.Errorf("%s (-before +after):\n%s", key, diff)
				}
			}
		}
		if strings.HasPrefix(key, "asynq:") && cmp.Diff(entry, after[key]) != "" {
			t.Errorf("%s has changed", key)
		}
	}
}

// A token that was given out before must not come again.
func TestOpen_LetsTheTokensOfLeasesGrow(t *testing.T) {
	t.Parallel()
	db := older(t)
	before, err := db.Get(t.Context(), "dts:{0}:epoch").Int64()
	testkit.Must(t, err)
	s, err := store.Open(t.Context(), store.Options{DB: db})
	testkit.Must(t, err)
	held, err := lease.New(lease.Options{DB: db, Key: s.Partitions.LeaseKey(0), Owner: "n"}).Acquire(t.Context())
	testkit.Must(t, err)
	if held.Token() != before+1 {
		t.Errorf("token %d follows %d", held.Token(), before)
	}
	testkit.Must(t, held.Release(t.Context()))
}

// acquireInOlderLayouts is how nodes of layouts 1 and 2 acquire a lease: it returns the token, or 0 if another node has it.
const acquireInOlderLayouts = `
local held = redis.call('GET', KEYS[1])
if held and string.match(held, '^%d+:(.*)$') ~= ARGV[1] then
  return 0
elseif held then
  return tonumber(string.match(held, '^%d+'))
end
local token = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], token .. ':' .. ARGV[1], 'PX', 7000)
return token`

// A node that was only paused does not read the layout again when it goes on.
func TestOpen_KeepsNodesOfTheOlderVersionFromLeading(t *testing.T) {
	t.Parallel()
	db := older(t)
	acquire := func(node string) int {
		token, err := db.Eval(t.Context(), acquireInOlderLayouts, []string{"dts:{0}:lease", "dts:{0}:epoch"}, node).Int()
		testkit.Must(t, err)
		return token
	}
	testkit.Must(t, db.Del(t.Context(), "dts:{0}:lease").Err())
	if acquire("old") == 0 {
		t.Fatal("it does not lead before the conversion")
	}
	testkit.Must(t, open(t.Context(), db))
	for _, node := range []string{"old", "another"} {
		if token := acquire(node); token != 0 {
			t.Errorf("%s leads after the conversion, with token %d", node, token)
		}
	}
}

func TestOpen_GivesTasksTheFormThatTheScriptsWrite(t *testing.T) {
	t.Parallel()
	db := older(t)
	w := storetest.On(t, db)
	for _, name := range []string{"waits", "waits-long", "changed-time", "due"} {
		ref := task.Ref{Namespace: "default", ID: name}
		if w.DB.HExists(w.Ctx, string(w.KeysOf(ref).States()), ref.String()).Val() {
			t.Errorf("%s was never claimed and has a state", name)
		}
	}
	for name, apart := range map[string]bool{"waits": false, "waits-long": true, "changed-to-long": true, "changed-to-short": false} {
		ref := task.Ref{Namespace: "default", ID: name}
		if got := w.DB.HExists(w.Ctx, string(w.KeysOf(ref).Payloads()), ref.String()).Val(); got != apart {
			t.Errorf("%s has a payload that is stored apart: %v, want %v", name, got, apart)
		}
	}
	for name, entries := range map[string]int64{"failed": 3, "succeeded": 0, "cancelled-before-retry": 1, "cancelled-running": 0, "lost-for-good": 0, "lost-then-queued": 1} {
		ref := task.Ref{Namespace: "default", ID: name}
		if got := w.DB.LLen(w.Ctx, string(w.KeysOf(ref).Attempts(ref))).Val(); got != entries {
			t.Errorf("%s: the list of attempts has %d entries, want %d", name, got, entries)
		}
	}
	for p := range w.Partitions.Count() {
		for _, member := range w.DB.ZRange(w.Ctx, string(w.Keys.Partition(p).Schedules()), 0, -1).Val() {
			ref, err := task.ParseRef(member)
			testkit.Must(t, err)
			for _, field := range []string{"overlap", "max_runs", "breaker", "retention"} {
				if w.DB.HExists(w.Ctx, string(w.Keys.Partition(p).Schedule(ref)), field).Val() {
					t.Errorf("schedule %s has the field %s", member, field)
				}
			}
		}
	}
}

// The workers and leaders of the older version are stopped: what they left is looked after at once.
func TestOpen_LetsLeadersLookAfterWhatIsQueuedAndRuns(t *testing.T) {
	t.Parallel()
	w := storetest.On(t, older(t))
	var lapsed, waiting []string
	for p := range w.Partitions.Count() {
		watched, err := w.Partitions.At(p).Lead(storetest.Fence).LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 64})
		testkit.Must(t, err)
		for _, l := range watched.Lapsed {
			lapsed = append(lapsed, l.Ref.String())
			testkit.Must(t, w.Partitions.At(p).Lead(storetest.Fence).Reap(w.Ctx, l, watched.Now, watched.Until, partition.Loss{Reason: "lost"}))
		}
		for _, d := range watched.Waiting {
			waiting = append(waiting, d.Ref.String())
		}
	}
	for _, name := range []string{"default:running", "default:running-again", "default:running-cancel", "team-a:running-long"} {
		if !slices.Contains(lapsed, name) {
			t.Errorf("%s is not among the runs whose lease is over: %v", name, lapsed)
		}
	}
	for _, name := range []string{"default:queued", "default:in-flight", "default:lost-then-queued", "team-a:queued-long"} {
		if !slices.Contains(waiting, name) {
			t.Errorf("%s is not among the queued tasks to look after: %v", name, waiting)
		}
	}
	if got := w.Get(task.Ref{Namespace: "default", ID: "running-cancel"}).State; got != task.Cancelled {
		t.Errorf("the task that was asked to stop is %s", got)
	}
	w.CheckSets()
}

func TestOpen_RegistersTheNamespaces(t *testing.T) {
	t.Parallel()
	w := storetest.On(t, older(t))
	found, err := w.Namespaces(w.Ctx)
	testkit.Must(t, err)
	var names []string
	for _, n := range found {
		names = append(names, n.Name)
		if n.LastSubmittedAt.Year() < 2026 {
			t.Errorf("the last submission to %s was at %s", n.Name, n.LastSubmittedAt)
		}
	}
	if diff := cmp.Diff([]string{"default", "team-a", "team-b"}, names); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

// A client may submit a task again as it did before somebody changed it.
func TestOpen_KnowsWhatChangedTasksWereSubmittedAs(t *testing.T) {
	t.Parallel()
	w := storetest.On(t, older(t))
	long := `{"command":["echo","` + strings.Repeat("x", 3000) + `"]}`
	short := `{"command":["sh","-c","true"]}`
	for name, payload := range map[string]string{
		"changed-queue": short, "changed-time": long, "changed-to-long": short, "changed-to-short": long,
	} {
		d := task.Definition{
			Ref: task.Ref{Namespace: "default", ID: name}, Type: "shell", Queue: task.DefaultQueue, Delay: 80000 * time.Hour, Payload: []byte(payload),
		}
		if r := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; r.Err != nil || !r.Existed {
			t.Errorf("%s: submitted again: %+v, %v", name, r.Existed, r.Err)
		}
		d.Payload = []byte(`{"command":["other"]}`)
		if r := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; task.CodeOf(r.Err) != task.CodeTaskConflict {
			t.Errorf("%s: submitted with another payload: %v", name, r.Err)
		}
	}
}

func TestOpen_ConvertsOnce(t *testing.T) {
	t.Parallel()
	db := older(t)
	testkit.Must(t, open(t.Context(), db))
	once := redistest.Dump(t, db)
	testkit.Must(t, open(t.Context(), db))
	if diff := cmp.Diff(once, redistest.Dump(t, db)); diff != "" {
		t.Errorf("the second start has changed (-before +after):\n%s", diff)
	}
	if once["dts:meta"].(redistest.Entry).Value.(map[string]string)["layout"] != migration.Present {
		t.Errorf("dts:meta: %v", once["dts:meta"])
	}
	if _, exists := once["dts:conversion"]; exists {
		t.Error("the lock exists")
	}
}

// Layout 2 differs in what layout 1 repeats in the hashes of schedules, and in some fields of tasks.
func TestOpen_ConvertsLayout2(t *testing.T) {
	t.Parallel()
	db := older(t)
	ref := task.Ref{Namespace: "default", ID: "retried"}
	key := string(lua.NewKeyspace("", 0).Partition(0).OldTask(ref))
	if db.Exists(t.Context(), key).Val() == 0 {
		key = string(lua.NewKeyspace("", 0).Partition(1).OldTask(ref))
	}
	first := time.UnixMilli(1_795_000_000_000).UTC()
	testkit.Must(t, db.HSet(t.Context(), "dts:meta", "layout", "2").Err())
	testkit.Must(t, db.HDel(t.Context(), key, "allowed").Err())
	testkit.Must(t, db.HSet(t.Context(), key, "max_attempts", 9, "first_due", first.UnixMilli()).Err())
	w := storetest.On(t, db)
	w.CheckSets()
	if got := w.Get(ref); got.MaxAttempts != 9 || !got.FirstDueAt.Equal(first) {
		t.Errorf("it may make %d attempts, and was due first at %s", got.MaxAttempts, got.FirstDueAt)
	}
}

// One unreadable task must not keep a node from starting, nor get lost.
func TestOpen_LeavesUnreadableTasksWhereTheyAre(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	db := older(t)
	hash := func(name string) string {
		for p := range 2 {
			key := fmt.Sprintf("dts:{%d}:task:default:%s", p, name)
			if db.Exists(t.Context(), key).Val() == 1 {
				return key
			}
		}
		t.Fatalf("no task %s", name)
		return ""
	}
	spoiled := map[string]float64{} // with their scores
	for name, set := range map[string]string{
		"waits": "wheel", "waits-for-retry": "wheel", "queued": "queued", "running": "running", "failed": "expiry", "succeeded": "expiry",
		"skips@": "running",
	} {
		if name == "skips@" {
			name = tickOf(t, db, "skips")
		}
		key := hash(name)
		partition, _, _ := strings.Cut(key, "task:")
		spoiled["default:"+name] = db.ZScore(t.Context(), partition+set, "default:"+name).Val()
		switch name {
		case "waits":
			testkit.Must(t, db.HSet(t.Context(), key, "def", "{").Err())
		case "waits-for-retry":
			testkit.Must(t, db.HSet(t.Context(), key, "due", "soon").Err())
		case "queued":
			testkit.Must(t, db.Set(t.Context(), key, "not a hash", 0).Err())
		case "failed":
			testkit.Must(t, db.HSet(t.Context(), key, "state", "skipped").Err())
		case "succeeded":
			testkit.Must(t, db.HDel(t.Context(), key, "finished").Err())
		default:
			testkit.Must(t, db.HDel(t.Context(), key, "created").Err())
		}
	}
	before := redistest.Dump(t, db)
	var log strings.Builder
	_, err := store.Open(t.Context(), store.Options{DB: db, Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	storetest.On(t, db).CheckSets()
	after := redistest.Dump(t, db)
	aside := map[string]float64{}
	for p := range 2 {
		for _, m := range db.ZRangeWithScores(t.Context(), string(lua.NewKeyspace("", 0).Partition(p).Unconverted()), 0, -1).Val() {
			aside[m.Member.(string)] = m.Score
		}
	}
	if diff := cmp.Diff(spoiled, aside); diff != "" {
		t.Errorf("put aside (-want +got):\n%s", diff)
	}
	for member := range spoiled {
		key := hash(strings.TrimPrefix(member, "default:"))
		if diff := cmp.Diff(before[key], after[key]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", key, diff)
		}
		if !strings.Contains(log.String(), `key="`+key) && !strings.Contains(log.String(), "key="+key) {
			t.Errorf("the log does not name %s:\n%s", key, log.String())
		}
	}
	if attempts := redistest.Dump(t, db)[strings.Replace(hash("failed"), ":task:", ":attempts:", 1)]; attempts == nil {
		t.Error("the attempts of an unreadable task are gone")
	}
	if live := db.ZCard(t.Context(), strings.Replace(hash(tickOf(t, db, "skips")), "task:default:"+tickOf(t, db, "skips"), "live:default:skips", 1)).Val(); live != 0 {
		t.Error("the schedule of an unreadable task waits for its end")
	}
}

// tickOf is the id of the only task of a schedule.
func tickOf(t *testing.T, db *redisx.DB, schedule string) string {
	t.Helper()
	for key := range redistest.Dump(t, db) {
		if _, id, ok := strings.Cut(key, ":task:default:"); ok && strings.HasPrefix(id, schedule+"@") {
			return id
		}
	}
	t.Fatalf("schedule %s has no task", schedule)
	return ""
}
