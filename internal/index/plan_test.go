package index

import (
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

func (s *store) add(rows []Row) {
	slices.SortFunc(rows, Order{}.Compare)
	for some := range slices.Chunk(rows, SegmentRows) {
		if s.segments == nil {
			s.segments = map[int][]Row{}
		}
		s.next++
		s.segments[s.next] = some
		summary := Summarize(some)
		summary.Number = s.next
		s.kept = append(s.kept, summary)
		s.written += len(some)
	}
}

// tidy follows the plan until the index is good.
func (s *store) tidy(t *testing.T, live Live, lives func(Row) bool) {
	t.Helper()
	for steps := 0; ; steps++ {
		plan, checks := Plan(s.kept, live)
		if len(plan) == 0 {
			return
		}
		if steps > 1000 {
			t.Fatal("the plan comes to no end")
		}
		var rows []Row
		for _, summary := range plan {
			rows = append(rows, s.segments[summary.Number]...)
			delete(s.segments, summary.Number)
			s.kept = slices.DeleteFunc(s.kept, func(k Summary) bool { return k.Number == summary.Number })
		}
		if checks {
			rows = slices.DeleteFunc(rows, func(r Row) bool { return !lives(r) })
		}
		s.add(rows)
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
	var s store
	const n = 100_000
	all := func(Row) bool { return true }
	for some := range slices.Chunk(waitingRows(n), 256) {
		s.add(some)
		s.tidy(t, Live{Waiting: n}, all)
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
