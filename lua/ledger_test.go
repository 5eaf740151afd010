package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
)

// onTime is Lua code that records ticks that fire on time: pairs of the tick and its lateness, in ms.
func onTime(revision int, ticksAndLate ...int) string {
	var code strings.Builder
	for i := 0; i < len(ticksAndLate); i += 2 {
		tick, late := ticksAndLate[i], ticksAndLate[i+1]
		fmt.Fprintf(&code, "now = %d record_tick('%d', %d, '%dZ', 'fired', 1, %d, '')\n", tick+late, revision, tick, tick, late)
	}
	return code.String()
}

func TestRecordTick_PacksTicksThatFireOnTime(t *testing.T) {
	for _, c := range []struct {
		name string
		code string
		want []string // the members of the ledger, each behind its score
	}{
		{"one tick", onTime(1, 1000, 5), []string{"1000 fired 1 1 1000 0 5"}},
		{"an interval is written once", onTime(1, 1000, 5, 2000, 12, 3000, 0), []string{"1000 fired 1 3 3000 1000 5,1000:12,0"}},
		{"and again when it changes", onTime(1, 1000, 5, 2000, 12, 2250, 7, 3250, 8, 4250, 9), []string{"1000 fired 1 5 4250 1000 5,1000:12,250:7,1000:8,9"}},
		{"a revision has chunks of its own", onTime(1, 1000, 5, 2000, 5) + onTime(2, 3000, 5), []string{"1000 fired 1 2 2000 1000 5,1000:5", "3000 fired 2 1 3000 0 5"}},
		{"an exception ends a chunk", onTime(1, 1000, 5) + "record_tick('1', 2000, '2000Z', 'missed', 0, 7, 'too late')" + onTime(1, 3000, 5),
			[]string{"1000 fired 1 1 1000 0 5", "2000 2000Z missed 0 7 1005 1 too late", "3000 fired 1 1 3000 0 5"}},
		{"so does a run by hand", onTime(1, 1000, 5) + "record_tick('1', 1500, '1500-manual', 'triggered', 1, 0, '')" + onTime(1, 2000, 5),
			[]string{"1000 fired 1 1 1000 0 5", "1500 1500-manual triggered 1 0 1005 1 ", "2000 fired 1 1 2000 0 5"}},
		{"a tick before the last record is no part of a chunk", onTime(1, 1000, 5, 3000, 5, 2000, 5),
			[]string{"1000 fired 1 1 1000 0 5", "2000 2000Z fired 1 5 2005 1 ", "3000 fired 1 1 3000 0 5"}},
		{"lateness that is not the time of the decision", "now = 1005 record_tick('1', 1000, '1000Z', 'fired', 1, 6, '')", []string{"1000 1000Z fired 1 6 1005 1 "}},
		{"a tick that is decided too early", "now = 999 record_tick('1', 1000, '1000Z', 'fired', 1, -1, '')", []string{"1000 1000Z fired 1 -1 999 1 "}},
		{"a tick in a chunk becomes an exception", onTime(1, 1000, 1, 2000, 2, 3000, 3, 4000, 4, 5000, 5) + "record_tick('2', 3000, '3000Z', 'replaced', 1, nil, 'why')",
			[]string{"1000 fired 1 2 2000 1000 1,1000:2", "3000 3000Z replaced 1 3 5005 2 why", "4000 fired 1 2 5000 1000 4,1000:5"}},
		{"the first tick becomes one", onTime(1, 1000, 1, 2000, 2) + "record_tick('2', 1000, '1000Z', 'replaced', 1, nil, 'why')",
			[]string{"1000 1000Z replaced 1 1 2002 2 why", "2000 fired 1 1 2000 0 2"}},
		{"a run by hand at the time of a tick", onTime(1, 1000, 1, 2000, 2, 3000, 3) + "record_tick('1', 2000, '2000-manual', 'triggered', 1, 0, '')",
			[]string{"1000 fired 1 1 1000 0 1", "2000 2000-manual triggered 1 0 3003 1 ", "2000 fired 1 2 3000 1000 2,1000:3"}},
		{"the older form goes on", "redis.call('ZADD', ledger_key(member), 1000, '1000Z fired 1 5 1005 1 ')" + onTime(1, 2000, 5),
			[]string{"1000 1000Z fired 1 5 1005 1 ", "2000 fired 1 1 2000 0 5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.run("ledger", c.code+" return {}")
			if diff := cmp.Diff(c.want, b.scored("ledger:"+nightly)); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
		})
	}
}

// scored is the members of a sorted set, each behind its score.
func (b *bench) scored(kind string) []string {
	var all []string
	for _, z := range b.db.ZRangeWithScores(b.t.Context(), inPartition+kind, 0, -1).Val() {
		all = append(all, fmt.Sprintf("%.0f %s", z.Score, z.Member))
	}
	return all
}

func TestRecordTick_BeginsAChunkWhenOneIsFull(t *testing.T) {
	b := newBench(t)
	b.run("ledger", "for i = 1, 70 do now = i * 1000 record_tick('1', now, now .. 'Z', 'fired', 1, 0, '') end return {}")
	var counts []string
	for _, member := range b.members("ledger:" + nightly) {
		counts = append(counts, strings.Fields(member)[2])
	}
	if diff := cmp.Diff([]string{"32", "32", "6"}, counts); diff != "" {
		t.Errorf("ticks of the chunks (-want +got):\n%s", diff)
	}
}

func TestTrimLedger_CutsTheOldestChunk(t *testing.T) {
	horizon := int(schedule.LedgerHorizon.Milliseconds())
	four := onTime(1, 1000, 1, 2000, 2, 3000, 3, 4000, 4)
	for _, c := range []struct {
		name   string
		trim   string
		limit  int // of ticks; 0 as in contract
		want   []string
		fields []any // records, oldest, known
	}{
		{"nothing to forget", "trim_ledger(0)", 0, []string{"1000 fired 1 4 4000 1000 1,1000:2,3,4"}, []any{"4", "1000", nil}},
		{"one is surplus", "trim_ledger(0)", 3, []string{"2000 fired 1 3 4000 1000 2,1000:3,4"}, []any{"3", "2000", "1000"}},
		{"three are surplus", "trim_ledger(0)", 1, []string{"4000 fired 1 1 4000 0 4"}, []any{"1", "4000", "3000"}},
		{"two are too old", fmt.Sprintf("now = %d trim_ledger(0)", horizon+3000), 0, []string{"3000 fired 1 2 4000 1000 3,1000:4"}, []any{"2", "3000", nil}},
		{"two are too old, and one more is surplus", fmt.Sprintf("now = %d trim_ledger(0)", horizon+3000), 1,
			[]string{"4000 fired 1 1 4000 0 4"}, []any{"1", "4000", "3000"}},
		{"all are too old", fmt.Sprintf("now = %d trim_ledger(0)", horizon+5000), 0, nil, []any{"0", fmt.Sprint(horizon + 5000), nil}},
		{"more were never recorded", "trim_ledger(2500)", 0, []string{"1000 fired 1 4 4000 1000 1,1000:2,3,4"}, []any{"4", "1000", "2500"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if c.limit > 0 {
				b.constants = map[string]any{"LEDGER_LIMIT": c.limit}
			}
			b.run("ledger", four+c.trim+" return {}")
			if diff := cmp.Diff(c.want, b.scored("ledger:"+nightly)); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
			fields := b.db.HMGet(t.Context(), inPartition+"schedule:"+nightly, "records", "oldest", "known").Val()
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Errorf("records, oldest, known (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrimLedger_KnowsTheOldestTickEvenIfItWasNotLate(t *testing.T) {
	b := newBench(t)
	b.run("ledger", onTime(1, 1000, 0)+"trim_ledger(0) return {}")
	b.run("ledger", onTime(1, 2000, 0)+"trim_ledger(0) return {}")
	if oldest := b.db.HGet(t.Context(), inPartition+"schedule:"+nightly, "oldest").Val(); oldest != "1000" {
		t.Errorf("the oldest tick is %q, want 1000", oldest)
	}
}

func TestFindRecord_LooksIntoChunks(t *testing.T) {
	b := newBench(t)
	b.run("ledger", onTime(7, 1000, 1, 2000, 2, 3000, 3)+"return {}")
	for call, want := range map[string][]any{
		"2000, '2000Z'":       {"fired", "1", "2002", "7", ""},
		"1000, '1000Z'":       {"fired", "1", "1001", "7", ""},
		"2500, '2500Z'":       {},
		"4000, '4000Z'":       {},
		"2000, '2000-manual'": {},
	} {
		got := b.run("ledger", "local r = find_record(member, "+call+") return r and { r.outcome, r.has_task, r.decided, r.revision, r.reason } or {}")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("find_record(%s) (-want +got):\n%s", call, diff)
		}
	}
}
