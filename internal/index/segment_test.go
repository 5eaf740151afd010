package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/task"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).UnixMilli()

// randomRows are rows of all kinds that wait, or have ended.
func randomRows(random *rand.Rand, n int, waits bool) []Row {
	ids := rand.NewChaCha8([32]byte{1})
	rows := make([]Row, n)
	for i := range rows {
		r := Row{
			Ref: task.Ref{Namespace: pick(random, "default", "team-a"), ID: ulid.MustNew(uint64(noon+int64(i)), ids).String()},
			Kind: Kind{State: task.Scheduled, Queue: pick(random, "default", "low"), Type: pick(random, "http", "shell"),
				Owner: pick(random, "", "ops")},
			Created: noon + int64(i), Due: noon + random.Int64N(1e8),
		}
		switch random.IntN(4) {
		case 0:
			r.Ref.ID = fmt.Sprintf("order-%d", i)
			r.Labels = Labels(map[string]string{"order": fmt.Sprint(i), "app": pick(random, "x", "y")})
		case 1:
			r.Ref.ID = fmt.Sprintf("nightly@2026%04dT000000Z", i)
		}
		if !waits {
			r.State, r.Node = task.State(pick(random, string(task.Succeeded), string(task.Failed))), pick(random, "n1", "n2")
			r.Due = noon + random.Int64N(1000)
			r.Ended, r.Took = r.Due+random.Int64N(100)-1, random.Int64N(5000)
			if r.State == task.Failed {
				r.Cause = pick(random, "order # not found", "HTTP 503", "timeout after #s")
			}
		}
		rows[i] = r
	}
	return rows
}

func pickInt(random *rand.Rand, numbers ...int) int { return numbers[random.IntN(len(numbers))] }

func pick(random *rand.Rand, texts ...string) string { return texts[random.IntN(len(texts))] }

func collect(t testing.TB, blocks [][]byte, f Filter) (rows []Row) {
	t.Helper()
	for _, block := range blocks {
		for r, err := range Rows(block, f) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func pack(rows []Row) [][]byte {
	_, blocks := Pack(rows)
	return blocks
}

func TestRows_ReadsWhatPackPacks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 500, 2000} {
		for _, waits := range []bool{true, false} {
			rows := randomRows(random, n, waits)
			got := collect(t, pack(rows), Filter{})
			slices.SortFunc(rows, Order{}.Compare)
			if len(got) != n || n > 0 && !reflect.DeepEqual(got, rows) {
				t.Errorf("%d rows, waiting %v: got %d other ones", n, waits, len(got))
			}
		}
	}
}

func TestRows_FindsWhatTheFilterMatches(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for _, waits := range []bool{true, false} {
		rows := randomRows(random, 700, waits)
		slices.SortFunc(rows, Order{}.Compare)
		blocks := pack(rows)
		for range 300 {
			f := randomFilter(random)
			var want []Row
			for _, r := range rows {
				if f.Matches(r) {
					want = append(want, r)
				}
			}
			if got := collect(t, blocks, f); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: got %d rows, want %d", f, len(got), len(want))
			}
		}
	}
}

func randomFilter(random *rand.Rand) Filter {
	var f Filter
	f.Namespace = pick(random, "", "", "default", "team-a")
	f.Queue = pick(random, "", "", "default", "low")
	f.Type = pick(random, "", "", "http")
	f.Owner = pick(random, "", "", "ops")
	f.Node = pick(random, "", "", "", "n2")
	f.Schedule = pick(random, "", "", "", "nightly")
	if cause := pick(random, "", "", "", "http 5", "ORDER"); cause != "" {
		f.Causes = []string{"nothing", cause}
	}
	f.OnlyEnded = random.IntN(8) == 0
	if random.IntN(3) == 0 {
		f.Labels = []string{"app=x"}
	}
	if random.IntN(9) == 0 {
		f.Labels = append(f.Labels, fmt.Sprint("order=", random.IntN(300)))
	}
	if random.IntN(4) == 0 {
		f.States = []task.State{task.Scheduled, task.Failed}
	}
	for _, r := range []*Range{&f.Created, &f.Due, &f.Ended} {
		if random.IntN(5) == 0 {
			r.From = noon + random.Int64N(500)
		}
		if random.IntN(5) == 0 {
			r.Until = noon + random.Int64N(1e8)
		}
	}
	return f
}

func TestRows_RefusesDamage(t *testing.T) {
	t.Parallel()
	block := pack(randomRows(rand.New(rand.NewPCG(5, 6)), 50, false))[0]
	for n := range block {
		var last error
		for _, err := range Rows(block[:n], Filter{}) {
			last = err
		}
		if !errors.Is(last, ErrUnreadable) {
			t.Fatalf("the first %d bytes of %d: got %v", n, len(block), last)
		}
	}
	block[0]++
	for _, err := range Rows(block, Filter{}) {
		if !errors.Is(err, ErrUnreadable) {
			t.Errorf("a newer version: got %v", err)
		}
	}
}

// waitingRows are n tasks as most are that wait: with ids that DTS drew, due within a day.
func waitingRows(n int) []Row {
	random, ids := rand.New(rand.NewPCG(7, 8)), rand.NewChaCha8([32]byte{2})
	rows := make([]Row, n)
	for i := range rows {
		created := noon + int64(i)
		rows[i] = Row{
			Ref:     task.Ref{Namespace: "default", ID: ulid.MustNew(uint64(created-1), ids).String()},
			Kind:    Kind{State: task.Scheduled, Queue: fmt.Sprint("queue-", i%8), Type: fmt.Sprint("type-", i%5)},
			Created: created, Due: created + random.Int64N(86400e3),
		}
	}
	return rows
}

func TestPack_TakesAtMost22BytesForATaskThatWaits(t *testing.T) {
	t.Parallel()
	rows := waitingRows(SegmentRows)
	bytesOf := func() float64 {
		summary, blocks := Pack(rows)
		return float64(len(summary.Encode())+len(slices.Concat(blocks...))) / float64(len(rows))
	}
	if each := bytesOf(); each > 22 {
		t.Errorf("got %.1f bytes", each)
	}
	for i := range rows {
		rows[i].Labels = []string{fmt.Sprintf("order=%d", 1e6+i)}
	}
	set := float64(len(EncodeLabels(rows))) / float64(len(rows))
	t.Logf("with one label that differs: %.1f bytes, and %.1f of the set of labels", bytesOf(), set)
}

func BenchmarkRows(b *testing.B) {
	blocks := pack(waitingRows(SegmentRows))
	for _, f := range []Filter{{}, {Queue: "queue-3"}, {Queue: "none"}} {
		b.Run(fmt.Sprint("queue ", f.Queue), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rows := 0
				for _, block := range blocks {
					for _, err := range Rows(block, f) {
						if err != nil {
							b.Fatal(err)
						}
						rows++
					}
				}
			}
		})
	}
}
