package schedules_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

// notebook runs pieces of Lua on the ledger of the schedule nightly.
type notebook struct {
	t *testing.T
	w *storetest.World
	// compose makes a script of Lua that uses the functions of the ledger, and has these constants in place of others.
	compose func(body string, constants map[string]any) string
}

func newNotebook(t *testing.T) notebook {
	t.Helper()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	all, err := contract.Load(os.DirFS("../../../lua"))
	testkit.Must(t, err)
	piece, err := contract.Parse("piece", "-- piece: a test\n-- includes: ledger\n-- keys:\n--   schedule  HASH\n-- args:\n--   member  member\n-- repeat: harmless\n")
	testkit.Must(t, err)
	return notebook{t, w, func(body string, constants map[string]any) string {
		piece.Body = body
		all.Constants = maps.Clone(contract.Constants)
		maps.Copy(all.Constants, constants)
		source, err := all.Compose(piece)
		testkit.Must(t, err)
		return source
	}}
}

// run runs a piece of Lua with the functions of the ledger.
func (n notebook) run(body string) []any {
	n.t.Helper()
	return n.runWith(body, nil)
}

// runWith is run with other constants.
func (n notebook) runWith(body string, constants map[string]any) []any {
	n.t.Helper()
	key := string(n.w.KeysOf(nightly).Schedule(nightly))
	reply, err := n.w.DB.Eval(n.w.Ctx, n.compose(body, constants), []string{key}, nightly.String()).Slice()
	testkit.Must(n.t, err)
	return reply
}

// ledger is the key of the ledger of a schedule.
func (n notebook) ledger(ref task.Ref) string { return string(n.w.KeysOf(ref).Ledger(ref)) }

// naive is what the ledger of a schedule is to be: a list of records, with limits.
type naive struct {
	entries []schedule.Entry
	known   int64
}

// inOrder is the order of records: by tick, then by text.
func inOrder(a, b schedule.Entry) int {
	if byTick := a.Tick.Compare(b.Tick); byTick != 0 {
		return byTick
	}
	return strings.Compare(codec.EncodeEntry(a), codec.EncodeEntry(b))
}

func (l *naive) find(name string) (schedule.Entry, bool) {
	i := slices.IndexFunc(l.entries, func(e schedule.Entry) bool { return e.Name == name })
	if i < 0 {
		return schedule.Entry{}, false
	}
	return l.entries[i], true
}

// record adds an entry in place of the one of its name; with keepLate, it has the lateness of that one.
func (l *naive) record(e schedule.Entry, keepLate bool) {
	if old, ok := l.find(e.Name); ok && keepLate {
		e.Late = old.Late
	}
	l.entries = append(slices.DeleteFunc(l.entries, func(old schedule.Entry) bool { return old.Name == e.Name }), e)
	slices.SortFunc(l.entries, inOrder)
}

func (l *naive) trim(horizon time.Time, limit int, forgotten int64) {
	for len(l.entries) > 0 && l.entries[0].Tick.Before(horizon) {
		l.entries = l.entries[1:]
	}
	for len(l.entries) > limit {
		forgotten = max(forgotten, l.entries[0].Tick.UnixMilli())
		l.entries = l.entries[1:]
	}
	l.known = max(l.known, forgotten)
}

// story is a random sequence of records in a ledger, and in a naive one beside it.
type story struct {
	notebook
	naive
	random   *rand.Rand
	now      time.Time // the time of Redis, as the script sees it
	tick     time.Time // the last regular tick
	interval time.Duration
	revision int
	limit    int
	horizon  time.Duration
	script   strings.Builder
}

func newStory(t *testing.T, seed uint64) *story {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	start := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	return &story{
		notebook: newNotebook(t), random: random, now: start, tick: start, interval: time.Second, revision: 1,
		limit:   []int{7, 60, 200, schedule.LedgerLimit}[random.IntN(4)],
		horizon: []time.Duration{time.Minute, 10 * time.Minute, schedule.LedgerHorizon}[random.IntN(3)],
	}
}

// add records an entry at the present time in both ledgers.
func (s *story) add(e schedule.Entry, keepLate bool) {
	late := "nil"
	if !keepLate {
		e.Late = s.now.Sub(e.Tick)
		if e.Outcome == schedule.Triggered {
			e.Late = 0
		}
		late = strconv.FormatInt(e.Late.Milliseconds(), 10)
	}
	e.DecidedAt, e.Revision = s.now, s.revision
	hasTask := 0
	if e.HasTask {
		hasTask = 1
	}
	fmt.Fprintf(&s.script, "now = %d record_tick('%d', %d, '%s', '%s', %d, %s, '%s')\n",
		s.now.UnixMilli(), s.revision, e.Tick.UnixMilli(), e.Name, e.Outcome, hasTask, late, e.Reason)
	s.record(e, keepLate)
}

// fired is the entry of a tick that fires on time, if the present time is not before it.
func fired(tick time.Time) schedule.Entry {
	return schedule.Entry{Name: schedule.TickName(tick), Tick: tick, Outcome: schedule.Fired, HasTask: true}
}

// anyTick is the tick of a record, or a time beside one.
func (s *story) anyTick() time.Time {
	if len(s.entries) == 0 {
		return s.tick
	}
	tick := s.entries[s.random.IntN(len(s.entries))].Tick
	return tick.Add(time.Duration([]int{0, 0, 1, -1, 500}[s.random.IntN(5)]) * time.Millisecond)
}

// step makes one thing happen.
func (s *story) step() {
	switch dice := s.random.IntN(100); {
	case dice < 70:
		s.tick = s.tick.Add(s.interval)
		s.now = s.tick.Add(time.Duration(s.random.IntN(30)) * time.Millisecond)
		s.add(fired(s.tick), false)
	case dice < 78:
		s.tick = s.tick.Add(s.interval)
		s.now = s.tick.Add(time.Duration(s.random.IntN(30)) * time.Millisecond)
		s.add(schedule.Entry{Name: schedule.TickName(s.tick), Tick: s.tick, Outcome: schedule.SkippedOverlap, Reason: "the task of x has not ended"}, false)
	case dice < 82: // by hand, now and then at the very time of a tick
		at := s.now
		if s.random.IntN(2) == 0 {
			at = s.anyTick()
		}
		name := schedule.ManualName(at.Add(time.Duration(s.random.IntN(2)*250) * time.Microsecond))
		s.add(schedule.Entry{Name: name, Tick: at, Outcome: schedule.Triggered, HasTask: true}, false)
	case dice < 86: // something becomes of a tick later
		if len(s.entries) > 0 {
			e := s.entries[s.random.IntN(len(s.entries))]
			e.Outcome, e.Reason = schedule.Replaced, "cancelled for y"
			s.add(e, true)
		}
	case dice < 90:
		at := s.anyTick()
		s.add(schedule.Entry{Name: schedule.TickName(at), Tick: at, Outcome: schedule.Backfilled, HasTask: true, Reason: "asked for"}, false)
	case dice < 92: // on time, but not after all others; or again
		s.add(fired(s.anyTick()), false)
	case dice < 94: // the clock of Redis is behind the tick
		s.tick = s.tick.Add(s.interval)
		s.now = s.tick.Add(-time.Millisecond)
		s.add(fired(s.tick), false)
	case dice < 96:
		s.interval = []time.Duration{time.Second, time.Minute, 250 * time.Millisecond, 1001 * time.Millisecond}[s.random.IntN(4)]
	case dice < 97:
		s.revision++
	case dice < 98:
		s.tick = s.tick.Add(time.Duration(s.random.IntN(20)) * time.Minute)
	}
}

// commit runs the script of the steps so far, trims both ledgers and compares them.
func (s *story) commit() {
	s.t.Helper()
	forgotten := int64(0)
	if s.random.IntN(50) == 0 {
		forgotten = s.tick.Add(-time.Minute).UnixMilli()
	}
	s.runWith(fmt.Sprintf("%snow = %d trim_ledger(%d) return {}", s.script.String(), s.now.UnixMilli(), forgotten),
		map[string]any{"LEDGER_LIMIT": s.limit, "LEDGER_HORIZON": s.horizon.Milliseconds()})
	s.trim(s.now.Add(-s.horizon), s.limit, forgotten)
	s.script.Reset()
	found, err := s.w.Schedules.LedgerEntries(s.w.Ctx, nightly, time.Time{}, s.tick.Add(time.Hour))
	testkit.Must(s.t, err)
	if !slices.Equal(s.entries, found) {
		s.t.Fatalf("ledger (-naive +packed):\n%s\n%s", cmp.Diff(s.entries, found), strings.Join(s.w.DB.ZRange(s.w.Ctx, s.ledger(nightly), 0, -1).Val(), "\n"))
	}
	fields := s.w.DB.HMGet(s.w.Ctx, string(s.w.KeysOf(nightly).Schedule(nightly)), "records", "oldest").Val()
	if len(s.entries) > 0 {
		oldest, _ := strconv.ParseInt(codec.Text(fields[1]), 10, 64)
		if codec.Text(fields[0]) != strconv.Itoa(len(s.entries)) || oldest > s.entries[0].Tick.UnixMilli() {
			s.t.Fatalf("the schedule says %v of %d records, the oldest of %d", fields, len(s.entries), s.entries[0].Tick.UnixMilli())
		}
	}
}

// A ledger of chunks, and one that has each record by itself, answer everything alike.
func TestLedger_AnswersAsOneWithoutChunks(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for seed := range testkit.Amount(5, 200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newStory(t, uint64(seed))
			for range 150 {
				for range 1 + s.random.IntN(12) {
					s.step()
				}
				s.commit()
				s.compareRecords()
			}
			s.comparePages()
		})
	}
}

// compareRecords compares what find_record knows about some ticks.
func (s *story) compareRecords() {
	s.t.Helper()
	for range 3 {
		tick := s.anyTick()
		name := schedule.TickName(tick)
		if s.random.IntN(3) == 0 {
			name = schedule.ManualName(tick)
		}
		got := s.run(fmt.Sprintf("local r = find_record(member, %d, '%s') return r and { r.outcome, r.has_task, r.decided, r.revision, r.reason } or {}", tick.UnixMilli(), name))
		want := []any{}
		if e, ok := s.find(name); ok {
			f := strings.SplitN(codec.EncodeEntry(e), " ", 7)
			want = []any{f[1], f[2], f[4], f[5], f[6]}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.t.Fatalf("record of %s (-naive +packed):\n%s", name, diff)
		}
	}
}

// comparePages compares pages and ranges with those of a schedule that has the naive ledger, each record by itself.
func (s *story) comparePages() {
	s.t.Helper()
	plain := task.Ref{Namespace: "default", ID: "plain"}
	s.w.Put(storetest.Daily(func(d *schedule.Definition) { d.Ref = plain }))
	if s.known > 0 {
		testkit.Must(s.t, s.w.DB.HSet(s.w.Ctx, string(s.w.KeysOf(plain).Schedule(plain)), "known", s.known).Err())
	}
	for _, e := range s.entries {
		testkit.Must(s.t, s.w.DB.ZAdd(s.w.Ctx, s.ledger(plain), redis.Z{Score: float64(e.Tick.UnixMilli()), Member: codec.EncodeEntry(e)}).Err())
	}
	for range 40 {
		f := schedules.LedgerFilter{Gaps: s.random.IntN(3) == 0}
		if s.random.IntN(2) == 0 {
			f.Since = s.anyTick()
		}
		if s.random.IntN(2) == 0 {
			f.Until = s.anyTick()
		}
		limit := 1 + s.random.IntN(70)
		for cursor := ""; ; {
			want, err := s.w.Schedules.Ledger(s.w.Ctx, plain, f, limit, cursor)
			testkit.Must(s.t, err)
			got, err := s.w.Schedules.Ledger(s.w.Ctx, nightly, f, limit, cursor)
			testkit.Must(s.t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				s.t.Fatalf("page of %+v, limit %d, cursor %q (-naive +packed):\n%s", f, limit, cursor, diff)
			}
			if cursor = want.NextCursor; cursor == "" {
				break
			}
		}
		from, until := s.anyTick(), s.anyTick()
		want, err := s.w.Schedules.LedgerEntries(s.w.Ctx, plain, from, until)
		testkit.Must(s.t, err)
		got, err := s.w.Schedules.LedgerEntries(s.w.Ctx, nightly, from, until)
		testkit.Must(s.t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			s.t.Fatalf("from %s until %s (-naive +packed):\n%s", from, until, diff)
		}
	}
}

// A one-second schedule is the costliest one: its ledger is always at the limit.
func TestLedger_ATickOnTimeTakesAFewBytes(t *testing.T) {
	t.Parallel()
	const ticks, allowed = 5000, 20
	n := newNotebook(t)
	reply := n.run(fmt.Sprintf(`
local first = now - %d * 1000
for i = 0, %d do
  local tick = first + i * 1000
  now = tick + i * 7919 %% 150
  record_tick('12', tick, '20260102T150405Z', 'fired', 1, now - tick, '')
end
trim_ledger(0)
return { redis.call('ZCARD', ledger_key(member)), redis.call('MEMORY', 'USAGE', ledger_key(member), 'SAMPLES', 0) }`, ticks, ticks-1))
	members, bytes := reply[0].(int64), reply[1].(int64)
	t.Logf("%d ticks in %d members and %d bytes: %.1f each", ticks, members, bytes, float64(bytes)/ticks)
	if float64(bytes)/ticks > allowed {
		t.Errorf("%d ticks on time take %d bytes, want at most %d each", ticks, bytes, allowed)
	}
	entries, err := n.w.Schedules.LedgerEntries(n.w.Ctx, nightly, time.Time{}, time.Now())
	if err != nil || len(entries) != ticks {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// An audit must hear of a record with an odd outcome, and count no such outcome.
func TestLedgerEntries_LeavesOutAnOddRecord(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	tick := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for i, outcome := range []string{"fired", "odd"} {
		at := tick.Add(time.Duration(i) * time.Hour)
		record := fmt.Sprintf("%s %s 1 0 %d 1 ", schedule.TickName(at), outcome, at.UnixMilli())
		z := redis.Z{Score: float64(at.UnixMilli()), Member: record}
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Ledger(nightly)), z).Err())
	}
	ctx, left := redisx.LeavingOut(w.Ctx)
	entries, err := w.Schedules.LedgerEntries(ctx, nightly, time.Time{}, tick.Add(24*time.Hour))
	testkit.Must(t, err)
	if len(entries) != 1 || entries[0].Outcome != schedule.Fired {
		t.Errorf("it has %+v", entries)
	}
	const odd = `schedule default:nightly: the ledger's record "20260102T130000Z odd`
	if texts := left.Texts(); len(texts) != 1 || !strings.HasPrefix(texts[0], odd) {
		t.Errorf("left out are %q", texts)
	}
}

func TestLedger_ReadsOnQuicklyWhereNoTickHasATask(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	ledger := string(w.KeysOf(nightly).Ledger(nightly))
	at := w.Schedule(nightly).CreatedAt.Truncate(time.Hour).Add(-time.Hour)
	for i := range 1000 {
		tick := at.Add(-time.Duration(i) * time.Second)
		record := codec.EncodeEntry(schedule.Entry{
			Name: schedule.TickName(tick), Tick: tick, Outcome: schedule.SkippedOverlap, DecidedAt: tick, Revision: 1,
		})
		testkit.Must(t, w.DB.ZAdd(w.Ctx, ledger, redis.Z{Score: float64(tick.UnixMilli()), Member: record}).Err())
	}
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	page, err := w.Schedules.Ledger(w.Ctx, nightly, schedules.LedgerFilter{HasTask: true}, 5, "")
	if len(page.Entries) > 0 || page.NextCursor != "" || err != nil {
		t.Errorf("got %+v, %v", page, err)
	}
	calls := 0
	stats := w.DB.InfoMap(w.Ctx, "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	if _, err := fmt.Sscanf(stats, "calls=%d,", &calls); err != nil || calls > 4 {
		t.Errorf("1,000 records were read with %s, %v", stats, err)
	}
}
