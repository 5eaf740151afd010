package schedule

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// zoneNames reads the list of all zones.
func zoneNames(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "#") })
}

func TestZones_AreThoseOfGo(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command:", err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Skip("no list of zones to compare with:", err)
	}
	defer func() { _ = archive.Close() }()
	listed := zoneNames(t)
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") && !slices.Contains(listed, file.Name) {
			t.Errorf("testdata/zones.txt lacks %s", file.Name)
		}
	}
}

// transitionsOf lists the instants at which the zone's offset from UTC changes. It looks every few days and then
// closer, and asks for nothing but offsets.
func transitionsOf(loc *time.Location, from, until int64) []int64 {
	const stride = 3 * 24 * 3600
	offset := func(at int64) int {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		return offset
	}
	var list []int64
	for at, before := from, offset(from); at < until; at += stride {
		after := offset(at + stride)
		if after == before {
			continue
		}
		low, high := at, at+stride
		for high-low > 1 {
			if middle := (low + high) / 2; offset(middle) == before {
				low = middle
			} else {
				high = middle
			}
		}
		list = append(list, high)
		before = after
	}
	return list
}

// transitionExpressions are fired around every transition of every zone.
var transitionExpressions = []string{
	"*/10 * * * *",
	"30 0-3,12,22-23 * * *",
	"0 0 * * *",
	"7,37 1-2 * * 0,6",
	"15 0 L,1,15W * *",
}

// window is what decides about the ticks around a transition: zones that have it in common tick alike.
type window struct {
	at      int64
	offsets string
}

const (
	windowBefore = 2 * time.Hour
	windowAfter  = 8 * time.Hour
	greatest     = 26 * time.Hour // more than any clock was ever put back or forward
)

func newWindow(loc *time.Location, at int64) window {
	var offsets []byte
	begin, end := time.Unix(at, 0).Add(-windowBefore-greatest), time.Unix(at, 0).Add(windowAfter+greatest)
	for instant := begin; !instant.After(end); instant = instant.Add(time.Hour) {
		_, offset := instant.In(loc).Zone()
		offsets = append(strconv.AppendInt(offsets, int64(offset), 10), ' ')
	}
	return window{at, string(offsets)}
}

// shift is how far the offsets of the window are apart: a wall time is shown again, or was passed over, within
// that time. step is how finely the oracle has to look.
func (w window) shift() (shift, step time.Duration) {
	var low, high int
	step = time.Minute
	for i, text := range strings.Fields(w.offsets) {
		offset, _ := strconv.Atoi(text)
		if i == 0 {
			low, high = offset, offset
		}
		low, high = min(low, offset), max(high, offset)
		if offset%60 != 0 || w.at%60 != 0 {
			step = time.Second
		}
	}
	return time.Duration(high-low) * time.Second, step
}

// span is the instants after the first and up to the second, for which the oracle is asked.
func (w window) span() (time.Time, time.Time) {
	shift, _ := w.shift()
	return time.Unix(w.at, 0).Add(-windowBefore), time.Unix(w.at, 0).Add(windowAfter + shift)
}

// expect is the oracle's ticks of all transitionExpressions.
func (w window) expect(loc *time.Location) [][]time.Time {
	shift, step := w.shift()
	begin, end := w.span()
	seen := walk(loc, begin.Add(-shift-time.Minute).Truncate(step), end, step)
	var lists [][]time.Time
	for _, text := range transitionExpressions {
		list := newOracleCron(text).fires(seen, step)
		lists = append(lists, slices.DeleteFunc(list, func(at time.Time) bool { return !at.After(begin) }))
	}
	return lists
}

// Every transition of every zone from 1970 to 2037 (and Kwajalein's of 1969), against the oracle; the short form takes
// 20 zones. Where zones agree for a day on both sides of a transition, the oracle walks once for all of them; what it
// says is held against each.
func TestTimetable_AgreesWithTheOracleAroundEveryTransitionOfEveryZone(t *testing.T) {
	t.Parallel()
	from := time.Date(1969, 9, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	expected := map[window][][]time.Time{}
	zones, transitions, ticks := 0, 0, 0
	for _, name := range testkit.Sample(t, 20, zoneNames(t)) {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		tables := compileAll(t, transitionExpressions, name)
		zones++
		for _, at := range transitionsOf(loc, from, until) {
			transitions++
			w := newWindow(loc, at)
			if _, ok := expected[w]; !ok {
				expected[w] = w.expect(loc)
			}
			for i, table := range tables {
				ticks += len(expected[w][i])
				begin, end := w.span()
				got := ticksOf(table, begin, end)
				if diff := firstDifference(got, expected[w][i]); diff != "" {
					t.Errorf("%s, %s, around %s: %s", name, transitionExpressions[i], time.Unix(at, 0).UTC(), diff)
				}
				for _, minutes := range []int64{0, 11, 25, 50} { // also asked from within an hour that comes again
					probe := time.Unix(at+minutes*60, 0)
					tick, _ := table.Next(probe)
					n := slices.IndexFunc(expected[w][i], probe.Before)
					if n >= 0 && !tick.At.Equal(expected[w][i][n]) {
						t.Errorf("%s, %s, after %s: %s", name, transitionExpressions[i], probe.UTC(), tick.At)
					}
				}
			}
		}
	}
	t.Logf("%d zones, %d transitions (%d different), %d ticks", zones, transitions, len(expected), ticks)
	if zones < testkit.Amount(20, 590) || transitions < testkit.Amount(500, 30_000) {
		t.Errorf("looked at %d transitions of %d zones only", transitions, zones)
	}
}

func compileAll(t *testing.T, expressions []string, zone string) []*Timetable {
	t.Helper()
	var tables []*Timetable
	for _, text := range expressions {
		table, err := Compile(Spec{Rules: []Rule{{Cron: text}}, Timezone: zone}, task.Ref{}, time.Time{})
		if err != nil {
			t.Fatalf("%s in %s: %v", text, zone, err)
		}
		tables = append(tables, table)
	}
	return tables
}

// ticksOf is the ticks after one time up to and including another.
func ticksOf(table *Timetable, after, until time.Time) []time.Time {
	var list []time.Time
	for {
		tick, ok := table.Next(after)
		if !ok || tick.At.After(until) {
			return list
		}
		list = append(list, tick.At)
		if !tick.At.After(after) {
			return list // wrong, and it would go on for ever
		}
		after = tick.At
	}
}

func firstDifference(got, want []time.Time) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("the oracle also ticks at %s", want[i].UTC())
		case i >= len(want):
			return fmt.Sprintf("ticks at %s, the oracle does not any more", got[i].UTC())
		case !got[i].Equal(want[i]):
			return fmt.Sprintf("ticks at %s, the oracle at %s", got[i].UTC(), want[i].UTC())
		}
	}
	return ""
}

// After 2037 most zones go by a rule for all years. Leap years end in it after 365 days, if one believes
// ZoneBounds.
func TestTimetable_GoesOnAfter2037(t *testing.T) {
	t.Parallel()
	for _, name := range zoneNames(t) {
		table := compileAll(t, []string{"30 2 * * *"}, name)[0]
		loc := table.Location()
		for _, year := range []int{2024, 2028, 2040, 2096, 2100, 2400} {
			from := time.Date(year, 12, 29, 0, 0, 0, 0, loc)
			got := ticksOf(table, from, time.Date(year+1, 1, 4, 0, 0, 0, 0, loc))
			if len(got) != 6 {
				t.Errorf("%s at the end of %d: %v", name, year, got)
			}
		}
	}
}

func TestCompile_TakesNamesOfZonesOnly(t *testing.T) {
	t.Parallel()
	for _, name := range append(zoneNames(t), "") {
		if _, err := loadZone(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"America/./New_York", "America//New_York", "America/././New_York", "./UTC", "UTC/", "UTC/.", "/UTC", "//UTC",
		"../UTC", "America/../UTC", `Etc\UTC`, "Local", "localtime", "posix/UTC", "right/UTC", "posixrules",
		"america/new_york", "UTC\x00", "UTC\n", " UTC", "Etc/UTC/UTC/UTC", "America",
		"tzdata.zi", "zone.tab", "Europe/Berlin?", "Köln", strings.Repeat("A", 100_000),
	} {
		if _, err := loadZone(name); task.CodeOf(err) != task.CodeInvalid || len(err.Error()) > 300 {
			t.Errorf("%.40q: %.400v", name, err)
		}
	}
}

func TestZoneCache_KeepsABoundedNumber(t *testing.T) {
	t.Parallel()
	var c zoneCache
	for i := range 3 * zonesLimit {
		name, loaded := strconv.Itoa(i), &zone{loc: time.UTC}
		if c.add(name, loaded) != loaded {
			t.Fatalf("zone %d is another one", i)
		}
		if z, ok := c.get(name); !ok || z != loaded {
			t.Fatalf("zone %d is not there", i)
		}
	}
	count := 0
	c.byName.Range(func(any, any) bool { count++; return true })
	if count > zonesLimit {
		t.Errorf("%d zones are cached", count)
	}
}
