package minutes_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/minutes"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// row is what a node has counted in a minute: that many begins and failures.
func row(at time.Time, n int) rollup.Row {
	return rollup.Row{Minute: rollup.Minute{At: at, Length: rollup.Span,
		Queues: map[string]rollup.Queue{"default": {Begun: n, Failed: n}}}}
}

// begun is how many attempts began in minutes.
func begun(all []rollup.Minute) []int {
	var counts []int
	for _, m := range all {
		counts = append(counts, m.Total().Begun)
	}
	return counts
}

func TestRead_MergesTheRowsOfNodes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{row(noon, 1), row(noon.Add(time.Minute), 2)}))
	testkit.Must(t, w.Minutes.Write(w.Ctx, "node-b", []rollup.Row{row(noon, 4)}))
	testkit.Must(t, w.Minutes.Write(w.Ctx, "node-b", []rollup.Row{row(noon, 5)})) // again, as it has changed
	for _, now := range []time.Time{noon.Add(90 * time.Second), noon.Add(30 * time.Minute)} {
		all, err := w.Minutes.Read(w.Ctx, noon.Add(-time.Minute), now)
		if got := fmt.Sprint(begun(all)); err != nil || got != "[6 2]" {
			t.Errorf("at %s: %s begun, %v; want [6 2]", now, got, err)
		}
	}
}

func TestClose_KeepsWhatWasClosedFirst(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	end := noon.Add(time.Minute)
	testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{row(noon, 3)}))
	for range 2 { // another leader, or the same one that got no answer
		_, _, err := w.Minutes.Close(w.Ctx, noon, end)
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Minutes.Write(w.Ctx, "node-b", []rollup.Row{row(noon, 9)})) // much too late
	closed, _, err := w.Minutes.Close(w.Ctx, noon, end)
	testkit.Must(t, err)
	all, err := w.Minutes.Read(w.Ctx, noon, end)
	if got := fmt.Sprint(begun(all)); err != nil || !closed || got != "[3]" {
		t.Errorf("%s begun, %v; want [3]", got, err)
	}
	if n := w.DB.Exists(w.Ctx, fmt.Sprintf("dts:{0}:minute:%d", noon.UnixMilli())).Val(); n != 0 {
		t.Error("the rows of a closed minute are still there")
	}
}

func TestClose_WritesNothingOfMinutesWithoutRows(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	closed, _, err := w.Minutes.Close(w.Ctx, noon, noon.Add(time.Hour))
	if n := w.DB.Exists(w.Ctx, "dts:{0}:minutes").Val(); err != nil || closed || n != 0 {
		t.Errorf("closed %v, %d keys, %v", closed, n, err)
	}
}

func TestCloseHours_AddsUpMinutesAndDeletesOldOnes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 120 {
		at := noon.Add(time.Duration(i) * time.Minute)
		testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{row(at, 1)}))
	}
	now := noon.Add(2 * time.Hour)
	_, _, err := w.Minutes.Close(w.Ctx, noon, now.Add(-time.Minute))
	testkit.Must(t, err)
	for range 2 {
		testkit.Must(t, w.Minutes.CloseHours(w.Ctx, now.Add(-time.Minute), now))
	}
	hours, err := w.Minutes.Hours(w.Ctx, noon)
	if got := fmt.Sprint(begun(hours)); err != nil || got != "[60]" || !hours[0].At.Equal(noon) ||
		hours[0].Length != time.Hour {
		t.Errorf("hours %+v, %v; want the first one with 60", hours, err)
	}
	if n := w.DB.HLen(w.Ctx, "dts:{0}:minutes").Val(); n != rollup.MinutesKept {
		t.Errorf("%d minutes are kept, want %d", n, rollup.MinutesKept)
	}
	testkit.Must(t, w.Minutes.CloseHours(w.Ctx, now.Add(-24*time.Hour),
		now.Add(-24*time.Hour))) // the clock has jumped back
	if n := w.DB.Exists(w.Ctx, "dts:{0}:minutes", "dts:{0}:hours").Val(); n != 0 {
		t.Error("minutes that lie ahead are kept")
	}
}

func TestClosable_IsNoLongerThanRowsAreKept(t *testing.T) {
	t.Parallel()
	now := noon.Add(62 * time.Second)
	first, end := minutes.Closable(time.Time{}, now)
	if !end.Equal(noon) || noon.Sub(first) > rollup.MinutesKept*rollup.Span || noon.Sub(first) < time.Hour {
		t.Errorf("from %s to %s", first, end)
	}
	if first, _ := minutes.Closable(noon.Add(-2*time.Minute), now); !first.Equal(noon.Add(-2 * time.Minute)) {
		t.Errorf("from %s", first)
	}
}

func TestWriteSample_HoldsForTheFirstLeader(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for _, running := range []int{7, 3} {
		seen := rollup.Minute{At: noon, Length: rollup.Span, Running: running, Capacity: 10, Sampled: true}
		testkit.Must(t, w.Minutes.WriteSample(w.Ctx, seen))
	}
	all, err := w.Minutes.Read(w.Ctx, noon, noon.Add(time.Minute))
	if err != nil || len(all) != 1 || all[0].Running != 7 || all[0].Capacity != 10 || !all[0].Sampled {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestRun_WritesWhatChangedAndTheRestAtItsEnd(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	tally := rollup.NewTally(func() time.Time { return noon })
	tally.Begun("default", time.Millisecond)
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	testkit.Must(t, w.Minutes.Run(ctx, "node-a", tally))
	all, err := w.Minutes.Read(w.Ctx, noon, noon)
	if err != nil || len(all) != 1 || all[0].Total().Begun != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if ttl := w.DB.TTL(w.Ctx, fmt.Sprintf("dts:{0}:minute:%d", noon.UnixMilli())).Val(); ttl < time.Hour {
		t.Errorf("the row expires after %s", ttl)
	}
	if len(tally.Rows()) != 0 {
		t.Error("what is written is to be written again")
	}
}

func TestRead_LeavesOutWhatANewerReleaseWrote(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{row(noon, 3)}))
	testkit.Must(t, w.DB.HSet(w.Ctx, fmt.Sprintf("dts:{0}:minute:%d", noon.UnixMilli()), "node-b", "\x09of later").Err())
	all, err := w.Minutes.Read(w.Ctx, noon, noon)
	if got := fmt.Sprint(begun(all)); err != nil || got != "[3]" {
		t.Errorf("%s begun, %v; want [3]", got, err)
	}
}

// closeAll closes the minutes and hours of the last three hours.
func closeAll(t *testing.T, w *storetest.World, now time.Time) {
	t.Helper()
	_, until, err := w.Minutes.Close(w.Ctx, now.Add(-3*time.Hour), now)
	testkit.Must(t, err)
	testkit.Must(t, w.Minutes.CloseHours(w.Ctx, until, now))
}

// Counts that a newer release has written are there when a node of that release leads again.
func TestClose_LeavesWhatANewerReleaseWrote(t *testing.T) {
	t.Parallel()
	rows := fmt.Sprintf("dts:{0}:minute:%d", noon.UnixMilli())
	for name, newer := range map[string]struct{ key, field string }{
		"a row":    {rows, "node-b"},
		"a minute": {"dts:{0}:minutes", fmt.Sprint(noon.Add(time.Minute).UnixMilli())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			w.Log = slog.New(slog.NewJSONHandler(&testkit.Log{}, nil))
			for _, at := range []time.Time{noon, noon.Add(2 * time.Minute)} {
				testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{row(at, 3)}))
			}
			testkit.Must(t, w.DB.HSet(w.Ctx, newer.key, newer.field, "\x09of later").Err())
			now := noon.Add(time.Hour)
			closeAll(t, w, now)
			if n := w.DB.HLen(w.Ctx, "dts:{0}:hours").Val(); n != 0 {
				t.Error("the hour is closed without what this release cannot read")
			}
			if text := w.DB.HGet(w.Ctx, newer.key, newer.field).Val(); text != "\x09of later" {
				t.Errorf("of the newer release is left %q", text)
			}
			theirs := rollup.Encode(row(noon.Add(time.Minute), 4).Minute, rollup.MinuteBytes) // as the newer release reads it
			testkit.Must(t, w.DB.HSet(w.Ctx, newer.key, newer.field, theirs).Err())
			closeAll(t, w, now)
			hours, err := w.Minutes.Hours(w.Ctx, noon)
			if got := fmt.Sprint(begun(hours)); err != nil || got != "[10]" {
				t.Errorf("%s begun in the hour, %v; want [10]", got, err)
			}
		})
	}
}

func TestCloseHours_ClosesNoHourAgain(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var now time.Time
	for i := range rollup.HoursKept + 5 { // something happens every 13 hours
		at := noon.Add(time.Duration(i) * 13 * time.Hour)
		testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{row(at, 1)}))
		now = at.Add(time.Hour)
		closeAll(t, w, now)
	}
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	for range 3 {
		closeAll(t, w, now)
	}
	if stats := w.DB.Info(w.Ctx, "commandstats").Val(); strings.Contains(stats, "cmdstat_hsetnx") {
		t.Errorf("hours are closed again:\n%s", stats)
	}
}

// An hour by minute and a day by hour of 100 queues stay below 1 MiB in Redis, whatever the texts of failures are.
func TestClose_StaysBelowOneMebibyte(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	random := rand.New(rand.NewPCG(1, 2))
	for hour := range rollup.HoursKept {
		for minute := range 60 {
			if hour < rollup.HoursKept-2 && minute%20 > 0 { // hours have as many causes of a few minutes
				continue
			}
			at := noon.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
			testkit.Must(t, w.Minutes.Write(w.Ctx, "node-a", []rollup.Row{{Minute: worst(random, at)}}))
		}
		end := noon.Add(time.Duration(hour+1) * time.Hour)
		_, _, err := w.Minutes.Close(w.Ctx, end.Add(-time.Hour), end)
		testkit.Must(t, err)
		testkit.Must(t, w.Minutes.CloseHours(w.Ctx, end, end.Add(time.Minute)))
	}
	total, sizes := int64(0), map[string]int64{}
	for _, key := range []string{"dts:{0}:minutes", "dts:{0}:hours"} {
		n, err := w.DB.MemoryUsage(w.Ctx, key, 0).Result()
		testkit.Must(t, err)
		total += n
		sizes[key] = n
	}
	if total > 1<<20 {
		t.Errorf("%d bytes: %v", total, sizes)
	}
	t.Logf("%d bytes: %v", total, sizes)
}

// worst is a minute with all that a minute can have, and with texts that compress badly.
func worst(random *rand.Rand, at time.Time) rollup.Minute {
	m := rollup.Minute{At: at, Length: rollup.Span, Queues: map[string]rollup.Queue{}, Running: 90,
		Capacity: 100, Sampled: true}
	for i := range rollup.QueuesLimit {
		q := rollup.Queue{Begun: random.IntN(9999), Succeeded: random.IntN(9999), Failed: random.IntN(99),
			Waiting: random.IntN(9999)}
		for range 60 {
			q.Late.Observe(time.Duration(random.ExpFloat64() * float64(80*time.Millisecond)).Truncate(time.Millisecond))
		}
		m.Queues[fmt.Sprintf("team-%d.queue-%d", i%7, i)] = q
	}
	for i := range rollup.MinuteCauses {
		text := make([]byte, rollup.TextLimit-10)
		for k := range text {
			text[k] = byte('a' + random.IntN(26))
		}
		m.Causes = append(m.Causes, rollup.Cause{
			Kind: rollup.Kind{
				Text: string(text), Queue: fmt.Sprintf("team-%d.queue-%d", i%7, i), Namespace: "default",
				Schedule: fmt.Sprintf("report-%d", i), Type: "http",
			},
			Count: 1000 - i, Dead: i, First: at, Last: at.Add(time.Minute - time.Millisecond),
			Example: rollup.Example{
				Task: task.Ref{Namespace: "default", ID: fmt.Sprintf("report-%d@20260102T150405Z", random.Int())}, Attempt: 4,
			},
		})
	}
	return m
}
