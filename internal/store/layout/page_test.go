package layout

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fillSets makes groups of sets in Redis, and returns their keys and all of their entries as they should be read.
func fillSets(t *testing.T, l *Layout, groups [][]int, entry func(i int) Entry) (keys [][]lua.ZSetKey, all []Entry) {
	t.Helper()
	pipe := l.DB.Pipeline()
	for p, sizes := range groups {
		keys = append(keys, nil)
		for i, size := range sizes {
			key := lua.ZSetKey(l.Keys.Partition(p).Ready(fmt.Sprint(i)))
			keys[p] = append(keys[p], key)
			for range size {
				e := entry(len(all))
				pipe.ZAdd(t.Context(), string(key), redis.Z{Score: float64(e.Score), Member: e.Member})
				all = append(all, e)
			}
		}
	}
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)
	slices.SortFunc(all, newerFirst)
	return keys, all
}

// readAll reads all entries in pages of n.
func readAll(t *testing.T, l *Layout, keys [][]lua.ZSetKey, n int) []Entry {
	t.Helper()
	var all []Entry
	var from *Entry
	for {
		page, more, err := l.ReadEntries(t.Context(), keys, from, n)
		testkit.Must(t, err)
		if len(page) > n || more && len(page) < n {
			t.Fatalf("a page of %d has %d entries; more follow: %v", n, len(page), more)
		}
		all = append(all, page...)
		if !more {
			return all
		}
		from = &all[len(all)-1]
	}
}

func TestReadEntries_ReadsSetsAsIfTheyWereOne(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
	many := make([]int, 2*readSets+1)
	for i := range many {
		many[i] = i % 3
	}
	for name, groups := range map[string][][]int{
		"one":             {{100}},
		"empty ones":      {{0, 0}, {0}, {0, 5, 0}},
		"one holds most":  {{300, 1, 1}, {1}},
		"many":            {many, {40, 7}},
		"uneven":          {{5}, {5}, {5}, {5}, {200}, {5, 90}},
		"nothing":         {},
		"of equal length": {{50, 50, 50}, {50, 50}},
	} {
		for _, scores := range []int{1, 20, 10_000} { // with one, only the names tell the order
			t.Run(fmt.Sprint(name, " of ", scores), func(t *testing.T) {
				testkit.Must(t, l.DB.FlushAll(t.Context()).Err())
				keys, want := fillSets(t, l, groups, func(i int) Entry {
					return Entry{
						Score:  float64(1795000000000+rand.IntN(scores)) + float64(rand.IntN(3))/16,
						Member: fmt.Sprintf("default:%d-%d", rand.IntN(1000), i),
					}
				})
				for _, n := range []int{1, 7, 1000} {
					if n == 1 && len(want) > 200 {
						continue
					}
					if diff := cmp.Diff(want, readAll(t, l, keys, n)); diff != "" {
						t.Errorf("in pages of %d (-want +got):\n%s", n, diff)
					}
				}
			})
		}
	}
}

// What was not read on, as it did not belong to the page, follows although the rest has been read to its end meanwhile.
func TestReadEntries_ForgetsNothingThatItDidNotReadOn(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
	keys, want := fillSets(t, l, [][]int{{60}, {50}, {0}, {0}, {0}}, func(i int) Entry {
		score := 1000 - i
		if i < 49 { // of the first partition, whose others are the oldest
			score = 2000 - i
		} else if i < 60 {
			score = 100 - i
		}
		return Entry{Score: float64(score), Member: fmt.Sprint("default:", i)}
	})
	if diff := cmp.Diff(want, readAll(t, l, keys, 100)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadEntries_ReadsAllOfRandomLayouts(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
	for range 60 {
		testkit.Must(t, l.DB.FlushAll(t.Context()).Err())
		groups := make([][]int, 1+rand.IntN(8))
		for p := range groups {
			groups[p] = []int{rand.IntN(80), rand.IntN(5)}
		}
		keys, want := fillSets(t, l, groups, func(i int) Entry {
			return Entry{Score: float64(i/(1+rand.IntN(40))*7 + rand.IntN(200)), Member: fmt.Sprint("default:", i)}
		})
		n := 1 + rand.IntN(120)
		if diff := cmp.Diff(want, readAll(t, l, keys, n)); diff != "" {
			t.Fatalf("%v in pages of %d (-want +got):\n%s", groups, n, diff)
		}
	}
}

func TestReadEntries_OfManySetsReadsLittleMoreThanThePage(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
	sizes := slices.Repeat([]int{50}, 2*readSets)
	keys, want := fillSets(t, l, [][]int{sizes, sizes}, func(i int) Entry {
		return Entry{Score: float64(rand.Int64N(1_000_000)), Member: fmt.Sprint("default:", i)}
	})
	_, _, err := l.ReadEntries(t.Context(), keys, nil, 1) // from now on, Redis has the script
	testkit.Must(t, err)
	testkit.Must(t, l.DB.ConfigResetStat(t.Context()).Err())
	page, _, err := l.ReadEntries(t.Context(), keys, nil, 50)
	if diff := cmp.Diff(want[:50], page); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	calls := func(command string) (n int) {
		line := l.DB.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_"+command]
		_, err := fmt.Sscanf(line, "calls=%d,", &n)
		testkit.Must(t, err)
		return n
	}
	scripts, firsts, others := calls("evalsha"), calls("zrange"), calls("zrevrange")
	if scripts != 4 || firsts != 400 || others > 4*50 {
		t.Errorf("%d scripts read %d first members and %d times others, want 4, 400 and fewer than 200", scripts, firsts, others)
	}
}

// pipelines is a hook that notes how many commands, and how many arguments in all, each pipeline has, and how many
// entries read_page.lua returns in all of them.
type pipelines struct {
	commands, args []int
	entries        int
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		args := 0
		for _, cmd := range cmds {
			args += len(cmd.Args())
		}
		p.commands, p.args = append(p.commands, len(cmds)), append(p.args, args)
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if run, ok := cmd.(*redis.Cmd); ok && err == nil {
				reply, _ := run.Slice()
				entries, _ := reply[0].([]any)
				p.entries += len(entries) / 2 // each has a score
			}
		}
		return err
	}
}

// Redis serves nobody else during a pipeline.
func TestReadEntries_ReadsFewSetsInARoundTrip(t *testing.T) {
	t.Parallel()
	const script = 7 // arguments of a run that are no further sets
	for name, c := range map[string]struct{ partitions, sets, entries, trips int }{
		"as usual":       {16, 10, 500, 1},
		"many sets":      {16, 1000, 500, 18},
		"many entries":   {16, 10, 5000, 3},
		"of a partition": {1, 10, 20_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
			keys := make([][]lua.ZSetKey, c.partitions)
			for p := range keys {
				for i := range c.sets {
					keys[p] = append(keys[p], lua.ZSetKey(l.Keys.Partition(p).Ready(fmt.Sprint(i))))
				}
			}
			_, _, err := l.ReadEntries(t.Context(), keys[:1], nil, 1) // from now on, Redis has the script
			testkit.Must(t, err)
			var sent pipelines
			l.DB.AddHook(&sent)
			entries, more, err := l.ReadEntries(t.Context(), keys, nil, c.entries)
			if len(entries) > 0 || more || err != nil || len(sent.args) != c.trips {
				t.Errorf("%d entries, more %v, in %d round trips, want %d: %v", len(entries), more, len(sent.args), c.trips, err)
			}
			sets := 0
			for i, args := range sent.args {
				n := args - (script-1)*sent.commands[i] // the first set of each run is among them
				if sets += n; n > 1000 {
					t.Errorf("%d sets in a round trip", n)
				}
			}
			if sets != c.partitions*c.sets {
				t.Errorf("%d sets were read, want %d", sets, c.partitions*c.sets)
			}
		})
	}
}

// What lies behind is read on where there is more of it than elsewhere, and not all of it at once.
func TestReadEntries_ReadsOnByAFewTimesAsMuch(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
	groups := slices.Repeat([][]int{{0}}, 16)
	groups[3], groups[9] = []int{1000}, []int{1000}
	keys, want := fillSets(t, l, groups, func(i int) Entry {
		return Entry{Score: float64(i % 1000), Member: fmt.Sprint("default:", i)}
	})
	_, _, err := l.ReadEntries(t.Context(), keys, nil, 1) // from now on, Redis has the script
	testkit.Must(t, err)
	var sent pipelines
	l.DB.AddHook(&sent)
	page, more, err := l.ReadEntries(t.Context(), keys, nil, 500)
	if diff := cmp.Diff(want[:500], page); diff != "" || !more || err != nil {
		t.Fatalf("more %v, %v (-want +got):\n%s", more, err, diff)
	}
	if sent.entries < 500 || sent.entries > 800 {
		t.Errorf("Redis sent %d entries for 500", sent.entries)
	}
}

func TestBacklog_CountsFewSetsInARoundTrip(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0), partitions: 2}
	var names []any
	for i := range countsAtOnce {
		names = append(names, fmt.Sprint("q", i))
	}
	for p := range l.partitions {
		testkit.Must(t, l.DB.SAdd(t.Context(), string(l.Keys.Partition(p).Backlog()), names...).Err())
		last := string(l.Keys.Partition(p).Ready(fmt.Sprint("q", countsAtOnce-1)))
		testkit.Must(t, l.DB.ZAdd(t.Context(), last, redis.Z{Score: 1, Member: "default:a"}).Err())
	}
	var sent pipelines
	l.DB.AddHook(&sent)
	counts, err := l.Backlog(t.Context())
	if want := map[string]int{fmt.Sprint("q", countsAtOnce-1): 2}; !maps.Equal(counts, want) || err != nil {
		t.Errorf("got %v, %v, want %v", counts, err, want)
	}
	if slices.Max(sent.commands) > 1000 {
		t.Errorf("pipelines of %v commands", sent.commands)
	}
}

// A member may be gone by the time the next page begins after it.
func TestReadEntries_GoesOnAfterAMemberThatIsGone(t *testing.T) {
	t.Parallel()
	l := &Layout{DB: redistest.Start(t).DB(t), Keys: lua.NewKeyspace("", 0)}
	keys, all := fillSets(t, l, [][]int{{10, 10}}, func(i int) Entry { return Entry{Score: 5, Member: fmt.Sprint("default:", 100+i)} })
	for _, key := range keys[0] {
		testkit.Must(t, l.DB.ZRem(t.Context(), string(key), all[6].Member).Err())
	}
	page, more, err := l.ReadEntries(t.Context(), keys, &all[6], 3)
	if diff := cmp.Diff(all[7:10], page); diff != "" || !more || err != nil {
		t.Errorf("more %v, %v (-want +got):\n%s", more, err, diff)
	}
}

// skipUnlessCI skips a test that cannot run on this machine. In CI on Linux, scripts/ensure-test-tools has installed what it needs.
func skipUnlessCI(t *testing.T, format string, args ...any) {
	t.Helper()
	if runtime.GOOS == "linux" && os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// In the order of English, an a is before a B, and punctuation counts for little.
func TestReadEntries_OrdersByBytesWhateverTheLocaleOfRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	locales := t.TempDir()
	if said, err := exec.Command("localedef", "-i", "en_US", "-f", "UTF-8", filepath.Join(locales, "en_US.UTF-8")).CombinedOutput(); err != nil {
		skipUnlessCI(t, "there is no locale to test with: %v\n%s", err, said)
	}
	db := redistest.Start(t, redistest.Environment("LOCPATH="+locales, "LC_ALL=en_US.UTF-8")).DB(t)
	if inLocale, err := db.Eval(t.Context(), "return 'a' < 'B'", nil).Bool(); err != nil || !inLocale {
		skipUnlessCI(t, "Redis does not compare by the locale: %v", err)
	}
	l := &Layout{DB: db, Keys: lua.NewKeyspace("", 0)}
	names := []string{"a", "B", "a-b", "aa", "A_b", "b", "Aa", "ab", "a.c", "Z", "_", "0"}
	keys, want := fillSets(t, l, [][]int{{6, 6}}, func(i int) Entry { return Entry{Score: 5, Member: "default:" + names[i]} })
	for _, n := range []int{1, 5} {
		if diff := cmp.Diff(want, readAll(t, l, keys, n)); diff != "" {
			t.Errorf("in pages of %d (-want +got):\n%s", n, diff)
		}
	}
}
