package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

// shelf keeps segments, as Redis does.
type shelf struct {
	segments  [][][]byte // the blocks, by the number of the segment less 1
	summaries []Summary
	reads     int
}

func (s *shelf) add(t testing.TB, rows []Row) {
	t.Helper()
	packed, blocks := Pack(rows)
	s.segments = append(s.segments, blocks)
	summary, err := DecodeSummary(len(s.segments), packed.Encode())
	if err != nil {
		t.Fatal(err)
	}
	s.summaries = append(s.summaries, summary)
}

func (s *shelf) read(_ context.Context, some []Block) (texts [][]byte, _ error) {
	for _, b := range some {
		texts = append(texts, s.segments[b.Segment.Number-1][b.Place])
	}
	s.reads += len(some)
	return texts, nil
}

func TestSearch_ReturnsWhatAllRowsSorted(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10))
	var kept shelf
	var all []Row
	for i := range 60 {
		rows := randomRows(random, 1+random.IntN(pickInt(random, 40, 40, 40, 1200)), i%2 == 0)
		if i%5 == 0 && i > 0 { // some rows are in two segments
			again := rows[0]
			again.Queue, again.Due = "another", again.Due+1
			rows = append(rows, again)
			if last := all[len(all)-1]; (last.Ended == 0) == (rows[0].Ended == 0) {
				rows = append(rows, last)
			}
		}
		kept.add(t, rows)
		all = append(all, rows...)
	}
	for range 200 {
		f, o, n := randomFilter(random), Order{By: By(random.IntN(5)), Asc: random.IntN(2) == 0}, random.IntN(30)
		var want []Row
		for _, r := range all {
			if f.Matches(r) {
				want = append(want, r)
			}
		}
		want = o.Best(want, 0)
		var after *Position
		if random.IntN(2) == 0 && len(want) > 0 {
			at := random.IntN(len(want))
			p := o.PositionOf(want[at])
			after, want = &p, slices.DeleteFunc(want[at+1:], func(r Row) bool { return o.PositionOf(r) == p })
		}
		want = o.Best(slices.Clone(want), n)
		got, err := Search(t.Context(), kept.summaries, f, o, after, n, kept.read)
		for i := range got {
			got[i].Segment = 0
		}
		if err != nil || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v %+v after %+v, %d of them: got %d, want %d (%v)", f, o, after, n, len(got), len(want), err)
		}
	}
}

func TestSomeOfEach_ReturnsAllRowsOrEnough(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(13, 14))
	var kept shelf
	var all []Row
	for i := range 40 {
		rows := randomRows(random, 1+random.IntN(pickInt(random, 40, 1200)), i%2 == 0)
		kept.add(t, rows)
		if i%4 == 0 { // as a segment that is being replaced
			kept.add(t, rows)
		}
		all = append(all, rows...)
	}
	for range 100 {
		filters, n := []Filter{randomFilter(random), randomFilter(random), {}}, 1+random.IntN(300)
		found, err := SomeOfEach(t.Context(), kept.summaries, filters, n, kept.read)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range filters {
			got := Order{}.Best(found[i], 0)
			want := len(Order{}.Best(slices.DeleteFunc(slices.Clone(all), func(r Row) bool { return !f.Matches(r) }), 0))
			if slices.ContainsFunc(got, func(r Row) bool { return !f.Matches(r) }) || len(got) < min(n, want) {
				t.Fatalf("%+v, %d of them: got %d of %d rows", f, n, len(got), want)
			}
		}
	}
}

func TestSomeOfEach_ReadsFewBlocks(t *testing.T) {
	t.Parallel()
	var kept shelf
	for some := range slices.Chunk(waitingRows(20000), 4000) {
		kept.add(t, some)
	}
	filters := []Filter{{}, {States: []task.State{task.Failed}}}
	if _, err := SomeOfEach(t.Context(), kept.summaries, filters, 100, kept.read); err != nil || kept.reads != 1 {
		t.Errorf("it read %d blocks for 100 of 20000 rows, want 1 (%v)", kept.reads, err)
	}
}

func TestSearch_ReadsFewBlocks(t *testing.T) {
	t.Parallel()
	var kept shelf
	rows := waitingRows(20000)
	for i := range rows {
		if i%5000 == 0 {
			rows[i].Type = "rare"
		}
	}
	slices.SortFunc(rows, Order{}.Compare)
	for some := range slices.Chunk(rows, 4000) {
		kept.add(t, some)
	}
	for _, f := range []Filter{{}, {Queue: "queue-3"}, {Type: "rare"}, {Due: Range{noon, noon + 1000}}} {
		for _, after := range []*Position{nil, {Key: noon + 40000e3}} {
			kept.reads = 0
			if _, err := Search(t.Context(), kept.summaries, f, Order{}, after, 50, kept.read); err != nil {
				t.Fatal(err)
			}
			if kept.reads > readsAtOnce {
				t.Errorf("%+v: it read %d of %d blocks", f, kept.reads, len(promising(kept.summaries, Filter{}, Order{}, nil)))
			}
		}
	}
}

func TestSearch_TellsErrors(t *testing.T) {
	t.Parallel()
	var kept shelf
	kept.add(t, waitingRows(10))
	broken := errors.New("no connection")
	_, err := Search(t.Context(), kept.summaries, Filter{}, Order{}, nil, 5,
		func(context.Context, []Block) ([][]byte, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	kept.segments[0][0] = kept.segments[0][0][:40]
	if _, err = Search(t.Context(), kept.summaries, Filter{}, Order{}, nil, 5, kept.read); !errors.Is(err, ErrUnreadable) {
		t.Errorf("got %v", err)
	}
}

func TestDecodeSummary_RefusesDamage(t *testing.T) {
	t.Parallel()
	packed, _ := Pack(randomRows(rand.New(rand.NewPCG(11, 12)), 2000, false))
	b := packed.Encode()
	for n := range b {
		if _, err := DecodeSummary(1, b[:n]); !errors.Is(err, ErrUnreadable) {
			t.Fatalf("the first %d bytes of %d: got %v", n, len(b), err)
		}
	}
}

func TestHasLabels_KnowsAllAndSeldomOthers(t *testing.T) {
	t.Parallel()
	rows := waitingRows(2000)
	for i := range rows {
		rows[i].Labels = []string{fmt.Sprint("order=", i)}
	}
	set, wrong := EncodeLabels(rows), 0
	for i := range 2000 {
		if !HasLabels(set, []string{fmt.Sprint("order=", i)}) {
			t.Fatalf("the label of row %d is missing", i)
		}
		if HasLabels(set, []string{fmt.Sprint("order=", 5000+i)}) {
			wrong++
		}
	}
	if wrong > 60 {
		t.Errorf("it took %d of 2000 other labels for its own", wrong)
	}
	if HasLabels(EncodeLabels(waitingRows(5)), []string{"a=b"}) {
		t.Error("rows without labels have one")
	}
}
