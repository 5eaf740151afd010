package lua_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
)

// track is what the hash of the nightly schedule says of its ticks.
func (b *bench) track() map[string]string {
	b.t.Helper()
	hash := b.db.HGetAll(b.t.Context(), inPartition+"schedule:"+nightly).Val()
	maps.DeleteFunc(hash, func(field, _ string) bool { return field == "created" || field == "def" })
	return hash
}

// end is Lua code that ends the run of a name at a time after its tick, which is 2026-01-02T15:04:05Z.
func end(name, final, text string, after int) string {
	tick := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC).UnixMilli()
	return fmt.Sprintf("now = %d task_ended('%s@%s', '%s', '%s')\n", tick+int64(after), nightly, name, final, text)
}

func TestTaskEnded_RecordsTheEndOfARun(t *testing.T) {
	const tick, began = "20260102T150405Z", "1767366245100" // 100 ms after the tick
	for _, c := range []struct {
		name, run, final, text string
		want                   map[string]string
	}{
		{
			"a success", tick, "succeeded", "running 1 0 0 5 6 " + began + " node#1",
			map[string]string{"ends": "1 20260102T150405Z/s1/300/200", "day": "20260102s1", "succeeded": "1767366245300"},
		},
		{
			"a failure of the third attempt", tick, "failed", "failed 3 3 5 5 6 " + began + " node#1 0 0 7 failed",
			map[string]string{"ends": "1 20260102T150405Z/f3/300/200", "day": "20260102f1", "failures": "1"},
		},
		{
			"a cancelled task that waited", tick, "cancelled", "scheduled 2",
			map[string]string{"ends": "1 20260102T150405Z/c2/300/", "day": "20260102c1"},
		},
		{
			"a trigger", "20260102T150405.000123Z-manual", "succeeded", "running 1 0 0 5 6 " + began + " node#1",
			map[string]string{
				"ends": "1 20260102T150405.000123Z-manual/s1/300/200", "day": "20260102s1", "succeeded": "1767366245300",
			},
		},
		{"a name that is no tick", "step", "cancelled", "scheduled 2", map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.do("HSET", inPartition+"schedule:"+nightly, "created", "1", "def", "{}")
			b.do("ZADD", inPartition+"live:"+nightly, 1, c.run)
			b.run("ended", end(c.run, c.final, c.text, 300)+"return {}")
			if c.want["ends"] != "" {
				c.want["tracked"], c.want["days"] = "1767366245300", ""
			}
			if diff := cmp.Diff(c.want, b.track()); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTaskEnded_RecordsWhatItsOwnScheduleCreated(t *testing.T) {
	for _, c := range []struct {
		name    string
		created string // of the schedule, "" for none
		want    string
	}{
		{"a backfilled task", "1767366240000", "1 20260102T150405Z/s1/300/"},
		{"a task of a schedule of that name that was deleted", "1767366250000", ""},
		{"a deleted schedule", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.do("HSET", inPartition+"defs", nightly+"@20260102T150405Z", "1767366245000"+def)
			if c.created != "" {
				b.do("HSET", inPartition+"schedule:"+nightly, "created", c.created, "failures", "3")
			}
			b.run("ended", end("20260102T150405Z", "succeeded", "running 1", 300)+"return {}")
			got := b.track()
			if got["ends"] != c.want {
				t.Errorf("ends are %q, want %q", got["ends"], c.want)
			}
			if c.created != "" && got["failures"] != "3" {
				t.Error("a task that is not live forgot failures")
			}
		})
	}
}

func TestNoteEnd_KeepsTheNewestHundred(t *testing.T) {
	b := newBench(t)
	b.do("HSET", inPartition+"schedule:"+nightly, "created", "1")
	var code strings.Builder
	for i := range 251 {
		name := fmt.Sprintf("20260102T15%02d%02dZ", i/60, i%60)
		fmt.Fprintf(&code, "redis.call('ZADD', live_key('%s'), 1, '%s')\n", nightly, name)
		code.WriteString(end(name, "cancelled", "scheduled 1", 0))
	}
	b.run("ended", code.String()+"return {}")
	got := b.track()
	for field, want := range map[string][2]string{ // the first and the last name
		"ends0": {"20260102T150320Z", "20260102T150344Z"}, "ends1": {"20260102T150345Z", "20260102T150409Z"},
		"ends2": {"20260102T150230Z", "20260102T150254Z"}, "ends3": {"20260102T150255Z", "20260102T150319Z"},
	} {
		ends := strings.Fields(got[field])
		n := len(ends)
		if n != schedule.EndsChunk || !strings.HasPrefix(ends[0], want[0]) || !strings.HasPrefix(ends[n-1], want[1]) {
			t.Errorf("%s has %d ends, %q; want 25 from %s to %s", field, len(ends), got[field], want[0], want[1])
		}
	}
	if !strings.HasPrefix(got["ends"], "251 20260102T150410Z/") || strings.Count(got["ends"], " ") != 1 {
		t.Errorf("ends is %q, want 251 and the newest end", got["ends"])
	}
	if got["day"] != "20260102c251" || got["days"] != "" {
		t.Errorf("day is %q, days is %q", got["day"], got["days"])
	}
}

func TestAddToDays_CountsByDay(t *testing.T) {
	var full []string
	for i := range schedule.DaysLimit {
		full = append(full, time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC).Format("20060102")+"s1")
	}
	last := len(full) - 1
	for _, c := range []struct {
		name, day, days, counts string
		wantDay, wantDays       string
	}{
		{"the first count", "", "", "['20260102'] = { s = 1 }", "20260102s1", ""},
		{"the same outcome", "20260102s9", "x", "['20260102'] = { s = 1 }", "20260102s10", "x"},
		{"another outcome", "20260102s9", "", "['20260102'] = { f = 2 }", "20260102s9f2", ""},
		{"one less", "20260102s9f1", "", "['20260102'] = { f = -1 }", "20260102s9", ""},
		{"none goes below 0", "20260102s9", "", "['20260102'] = { f = -1 }", "20260102s9", ""},
		{
			"the next day",
			"20260102s9", "20260101f1", "['20260103'] = { s = 1 }", "20260103s1", "20260101f1 20260102s9",
		},
		{"the day before", "20260102s9", "20260101f1", "['20260101'] = { f = 1 }", "20260102s9", "20260101f2"},
		{
			"a day between",
			"20260102s9", "20251230f1", "['20260101'] = { f = 1 }", "20260102s9", "20251230f1 20260101f1",
		},
		{
			"two days",
			"20260102s9", "", "['20260102'] = { m = 3 }, ['20260103'] = { m = 4 }", "20260103m4", "20260102s9m3",
		},
		{
			"a day too many", full[last], strings.Join(full[:last], " "), "['20260501'] = { s = 1 }",
			"20260501s1", strings.Join(full[1:], " "),
		},
		{
			"a day that is too old",
			full[last], strings.Join(full[:last], " "), "['20250501'] = { s = 1 }", full[last], strings.Join(full[:last], " "),
		},
		{
			"damage is dropped",
			"2026", "20260101f1 garbage 20260102$", "['20260103'] = { s = 1 }", "20260103s1", "20260101f1",
		},
		{"a day ahead", "20270102s9", "20261231f1", "['20270101'] = { s = 1 }", "20270101s1", "20261231f1 20270102s9"},
		{"nothing but days ahead", "20270103s9", "", "['20270102'] = { s = 1 }", "20270102s1", "20270103s9"},
		{"a day that was ahead", "20261231s9", "20270101f1", "['20270101'] = { s = 1 }", "20270101f1s1", "20261231s9"},
		{"what a later release counts stays", "20260102z4", "", "['20260102'] = { s = 1 }", "20260102z4s1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if c.days != "" {
				b.do("HSET", inPartition+"schedule:"+nightly, "days", c.days)
			}
			b.run("days", fmt.Sprintf(`now = 1798761600000 -- the begin of 2027
local day = '%s'
redis.call('HSET', schedule, unpack(add_to_days(member, day ~= '' and day or nil, { %s })))
return {}`, c.day, c.counts))
			if got := b.track(); got["day"] != c.wantDay || got["days"] != c.wantDays {
				t.Errorf("day is %q, want %q; days is %q, want %q", got["day"], c.wantDay, got["days"], c.wantDays)
			}
		})
	}
}

// After a jump of the clock ahead, the ends of a day need the counts of other days once.
func TestTaskEnded_ReadsOtherDaysOnce(t *testing.T) {
	b := newBench(t)
	b.do("HSET", inPartition+"schedule:"+nightly, "created", "1", "tracked", "1", "day", "20270101s1")
	for i := range 3 {
		name := fmt.Sprintf("20260102T15040%dZ", i)
		b.do("ZADD", inPartition+"live:"+nightly, 1, name)
		b.do("CONFIG", "RESETSTAT")
		b.run("ended", end(name, "cancelled", "scheduled 1", 0)+"return {}")
		rewritten := strings.Contains(b.db.Info(t.Context(), "commandstats").Val(), "cmdstat_hget:")
		if got := b.track(); rewritten != (i == 0) || got["days"] != "20270101s1" {
			t.Errorf("end %d: days are read: %v; they are %q", i, rewritten, got["days"])
		}
	}
}

func TestTickTime_IsTheTimeInTheName(t *testing.T) {
	b := newBench(t)
	random := rand.New(rand.NewPCG(1, 2))
	var code strings.Builder
	var want []any
	for range 300 { // days of two centuries, with all leap days near by
		at := time.UnixMilli(random.Int64N(200 * 366 * 24 * 3600 * 1000)).UTC()
		code.WriteString(fmt.Sprintf("'%s', '%s', ", schedule.TickName(at), schedule.ManualName(at)))
		want = append(want, fmt.Sprint(at.UnixMilli()), fmt.Sprint(at.UnixMilli()))
	}
	got := b.run("track", "local all = {} for _, name in ipairs({ "+code.String()+
		"}) do all[#all + 1] = int(tick_time(name)) end return all")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	got = b.run("track", "return { tick_time('step') or 'none', tick_time('2026-01-02') or 'none' }")
	if got[0] != "none" || got[1] != "none" {
		t.Errorf("names that are no ticks have the times %v", got)
	}
}

func TestTally_CountsTicksWithoutATaskOnce(t *testing.T) {
	b := newBench(t)
	b.run("ledger", `
now = 1767398400000
for i = 1, 300 do record_tick('1', 1767312000000 + i, '20260102T00000' .. i .. 'Z', 'missed', 0, 5, 'late') end
record_tick('1', 1767398400000, '20260103T000000Z', 'skipped_overlap', 0, 5, '')
record_tick('1', 1767398400001, '20260103T000001Z', 'excluded', 0, 5, '')
record_tick('1', 1767398400002, '20260103T000002Z', 'replaced', 0, 5, '')
record_tick('1', 1767398400003, '20260103T000003Z', 'replaced', 1, 5, '')
record_tick('1', 1767398400004, '20260103T000004Z', 'queued', 0, 5, '')
record_tick('1', 1767398400005, '20260103T000005Z', 'fired', 1, 5, 'waited')
return {}`)
	got := b.track()
	if got["days"] != "20260102m300" || got["missed"] != "1767312000300" || len(got["day"]) != len("20260103o1x1r1") {
		t.Errorf("fields are %v", got)
	}
	if got["tracked"] != "1767398400000" {
		t.Errorf("tracked since %q", got["tracked"])
	}
	for _, count := range []string{"20260103", "o1", "x1", "r1"} {
		if !strings.Contains(got["day"], count) {
			t.Errorf("day is %q, and lacks %s", got["day"], count)
		}
	}
	b.run("ledger", "tally('20260103T000001Z', 1, 'excluded', -1) return {}")
	if day := b.track()["day"]; strings.Contains(day, "x") {
		t.Errorf("day is %q, and has a tick that was backfilled", day)
	}
}
