package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// store keeps rows in segments as a leader does.
type store struct {
	segments map[int][]Row
	kept     []Summary
	next     int
	written  int // rows
}

func (s *store) add(rows []Row) { s.addChecked(rows, 0) }

func (s *store) addChecked(rows []Row, at int64) {
	slices.SortFunc(rows, Order{}.Compare)
	for some := range Segments(rows) {
		if s.segments == nil {
			s.segments = map[int][]Row{}
		}
		s.next++
		s.segments[s.next] = some
		summary, _ := Pack(some)
		summary.Number, summary.Checked = s.next, at
		s.kept = append(s.kept, summary)
		s.written += len(some)
	}
}

// tidy follows the plan until the index is good, at a time before all tasks are due.
func (s *store) tidy(t *testing.T, live Live, lives func(Row) bool) {
	t.Helper()
	s.tidyAt(t, 0, live, lives)
}

func (s *store) tidyAt(t *testing.T, now int64, live Live, lives func(Row) bool) {
	t.Helper()
	for steps := 0; ; steps++ {
		plan := Plan(s.kept, live, now)
		if len(plan.Segments) == 0 {
			return
		}
		if steps > 1000 {
			t.Fatal("the plan comes to no end")
		}
		var rows []Row
		for _, summary := range plan.Segments {
			rows = append(rows, s.segments[summary.Number]...)
			delete(s.segments, summary.Number)
			s.kept = slices.DeleteFunc(s.kept, func(k Summary) bool { return k.Number == summary.Number })
		}
		if plan.Before > 0 {
			rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Due < plan.Before && !lives(r) })
		}
		s.addChecked(rows, now)
	}
}

func (s *store) rows() (n int) {
	for _, rows := range s.segments {
		n += len(rows)
	}
	return n
}

func TestPlan_KeepsFewSegmentsOfTheSameTimes(t *testing.T) {
	t.Parallel()
	var s, untidy store
	const n = 50_000
	all := func(Row) bool { return true }
	for some := range slices.Chunk(waitingRows(n), 256) {
		untidy.add(slices.Clone(some))
		s.add(some)
		s.tidy(t, Live{Waiting: n}, all)
		if Scattered(s.kept) {
			t.Fatalf("%d segments of %d rows count as scattered", len(s.kept), s.rows())
		}
	}
	if !Scattered(untidy.kept) {
		t.Errorf("%d segments of %d rows do not count as scattered", len(untidy.kept), untidy.rows())
	}
	if s.rows() != n {
		t.Errorf("%d of %d rows are left", s.rows(), n)
	}
	if got := len(deepest(s.kept)); got > depthLimit+smallLimit {
		t.Errorf("%d segments have rows of the same time", got)
	}
	if len(s.segments) > 2*n/SegmentRows {
		t.Errorf("there are %d segments", len(s.segments))
	}
	t.Logf("%d segments, each row was written %.1f times", len(s.segments), float64(s.written)/n)
}

func TestPlan_ComesToAnEndWithManyRowsOfOneTime(t *testing.T) {
	t.Parallel()
	var s store
	rows := waitingRows(100_000)
	for i := range rows {
		rows[i].Due = noon
	}
	for some := range slices.Chunk(rows, 1000) {
		s.add(some)
		s.tidy(t, Live{Waiting: len(rows)}, func(Row) bool { return true })
	}
	if s.rows() != len(rows) {
		t.Errorf("%d rows are left", s.rows())
	}
}

func TestPlan_LeavesOutWhatIsGone(t *testing.T) {
	t.Parallel()
	var s store
	rows := waitingRows(50_000)
	s.add(slices.Clone(rows))
	s.tidy(t, Live{Waiting: len(rows)}, func(Row) bool { return true })
	random := rand.New(rand.NewPCG(13, 14))
	gone := map[string]bool{}
	for _, r := range rows {
		gone[r.Ref.ID] = random.IntN(10) > 0
	}
	live := 0
	for _, r := range rows {
		if !gone[r.Ref.ID] {
			live++
		}
	}
	s.tidy(t, Live{Waiting: live}, func(r Row) bool { return !gone[r.Ref.ID] })
	if s.rows() < live || s.rows() > 2*live+sparedRows {
		t.Errorf("%d rows are left of %d tasks", s.rows(), live)
	}
	if s.tidy(t, Live{Waiting: 0}, func(Row) bool { return false }); s.rows() > sparedRows {
		t.Errorf("%d rows are left of no task", s.rows())
	}
}

func TestPlan_LeavesOutTasksThatWereDue(t *testing.T) {
	t.Parallel()
	var s store
	rows := waitingRows(100_000)
	lives := map[string]bool{}
	half := noon + 43200e3
	for i, r := range rows {
		lives[r.Ref.ID] = r.Due >= half || i%50 == 0 // some wait on though they are due
	}
	s.add(slices.Clone(rows))
	before := s.rows()
	s.tidyAt(t, half, Live{Waiting: len(rows)}, func(r Row) bool { return lives[r.Ref.ID] })
	dead := 0
	for _, segment := range s.segments {
		for _, r := range segment {
			if !lives[r.Ref.ID] {
				dead++
			}
		}
	}
	if dead > overdueRows+len(s.segments)*blockRows {
		t.Errorf("%d rows of tasks that have run are left of %d", dead, before)
	}
	written := s.written
	if s.tidyAt(t, half+1, Live{Waiting: len(rows)}, func(Row) bool { return false }); s.written != written {
		t.Error("rows were checked again at once")
	}
}

func TestSegments_AreBoundedInBytes(t *testing.T) {
	t.Parallel()
	rows := waitingRows(3000)
	for i := range rows {
		rows[i].Labels = []string{fmt.Sprintf("path=%0400d", i), fmt.Sprintf("query=%0300d", i)}
	}
	slices.SortFunc(rows, Order{}.Compare)
	n := 0
	for some := range Segments(rows) {
		_, blocks := Pack(some)
		if len(blocks) > SegmentBlocks {
			t.Errorf("a segment has %d blocks", len(blocks))
		}
		for _, block := range blocks {
			n += len(collect(t, [][]byte{block}, Filter{}))
			if len(block) > blockBytes+1000 {
				t.Errorf("a block has %d bytes", len(block))
			}
		}
	}
	if n != len(rows) {
		t.Errorf("%d of %d rows are packed", n, len(rows))
	}
}
