package listing

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// search is one list with a filter.
type search struct {
	*Listing
	filter   index.Filter
	missing  string // which tasks the list may lack; "" for none
	unbuilt  bool   // there is no whole index
	order    index.Order
	loose    *looseRows
	segments []index.Summary // with their places here as numbers
	homes    []home          // of the segments, by their places
	portion  func() int      // how many tasks are read at once
	stale    []int           // rows that were out of date, by the places of their segments
	sifts    bool            // most of the rows that were looked at last were out of date
}

// looseRows are the rows of tasks that the index may not have. Who needs them first reads them for all.
type looseRows struct {
	refs  []task.Ref
	begun atomic.Bool
	ended chan struct{} // closed when the rest is known
	rows  []index.Row
	err   error
}

// home is where a segment is in Redis.
type home struct{ partition, number int }

// mostRows is up to how many rows are searched for at once, if so many are out of date.
const mostRows = 4096

// each gives the tasks that match after a position to take, in order and some at once, until take has enough, none is
// left, or it has taken as long as a page may. It looks for about n. end: none is left. rows are those that were looked
// at for these tasks: more of them, as some are out of date. Errors: errReplaced, CodeUnavailable, CodeUnreadable.
func (s *search) each(
	ctx context.Context, after *index.Position, n int, read func(context.Context, []task.Ref) ([]task.Task, error),
	take func(found []task.Task, rows []index.Row) (enough bool),
) (end bool, _ error) {
	until := clock.Now().Add(s.l.PageTime)
	s.stale = make([]int, len(s.segments))
	defer s.report(ctx)
	for {
		rows, more, err := s.next(ctx, after, n)
		if err != nil {
			return false, err
		}
		for len(rows) > 0 {
			some, asked, err := s.choose(ctx, rows)
			if err != nil {
				return false, err
			}
			rows = rows[len(some):]
			found, err := s.confirm(ctx, asked, read)
			if err != nil {
				return false, err
			}
			s.sifts = 2*len(found) < len(some)
			position := s.order.PositionOf(some[len(some)-1])
			after = &position
			if take(found, some) || clock.Now().After(until) {
				return !more && len(rows) == 0, nil
			}
		}
		if !more {
			return true, nil
		}
		n = max(n, min(2*n, mostRows)) // many are out of date
	}
}

// siftedAtOnce is of how many tasks the states are read in one round trip, if most rows are out of date.
const siftedAtOnce = 1024

// choose returns the first of some rows, and of these the ones whose tasks are to be read: all, or if most were out of
// date lately, those that are not. Error: CodeUnavailable.
func (s *search) choose(ctx context.Context, rows []index.Row) (some, asked []index.Row, _ error) {
	n := s.portion()
	if some = s.first(rows, n); !s.sifts {
		return some, some, nil
	}
	some = s.first(rows, siftedAtOnce)
	found, err := s.confirm(ctx, some, s.tasks.CheapBriefs)
	if err != nil {
		return nil, nil, err
	}
	present := make(map[task.Ref]bool, len(found))
	for _, t := range found {
		present[t.Ref] = true
	}
	for i, r := range some {
		if present[r.Ref] {
			n--
		}
		if n == 0 {
			some = s.first(rows, i+1)
			break
		}
	}
	gone := func(r index.Row) bool { return !present[r.Ref] }
	return some, slices.DeleteFunc(slices.Clone(some), gone), nil
}

func (s *search) wants(state task.State) bool {
	return len(s.filter.States) == 0 || slices.Contains(s.filter.States, state)
}

// begin chooses the segments that can have rows that match. Error: CodeUnavailable.
func (s *search) begin(ctx context.Context, parts []part) error {
	var members []string
	for _, p := range parts {
		members = append(members, p.refs...)
		for _, summary := range p.segments {
			if summary.MayMatch(s.filter) {
				s.add(summary, home{p.number, summary.Number})
			}
		}
	}
	s.loose = &looseRows{refs: slices.DeleteFunc(parseRefs(members), s.isElsewhere), ended: make(chan struct{})}
	if len(s.filter.Labels) == 0 {
		return nil
	}
	return calls.Try(
		func() error { _, err := s.looseRows(ctx); return err },
		func() error { return s.keepLabelled(ctx) },
	)
}

// add adds a segment.
func (s *search) add(summary index.Summary, at home) {
	summary.Number = len(s.segments)
	s.segments, s.homes = append(s.segments, summary), append(s.homes, at)
}

// looseRows returns the rows of tasks that the index may not have. Error: CodeUnavailable.
func (s *search) looseRows(ctx context.Context) ([]index.Row, error) {
	l := s.loose
	if l.begun.CompareAndSwap(false, true) {
		defer close(l.ended)
		l.rows, l.err = s.readLoose(ctx, l.refs)
	} else {
		<-l.ended
	}
	return l.rows, l.err
}

func (s *search) readLoose(ctx context.Context, refs []task.Ref) ([]index.Row, error) {
	chunks := slices.Collect(slices.Chunk(refs, looseChunk))
	found := make([][]index.Row, len(chunks))
	err := calls.Each(readsAtOnce, chunks, func(i int, refs []task.Ref) (err error) {
		found[i], err = rowsOf(ctx, s.l, s.tasks, refs, len(s.filter.Causes) > 0)
		return err
	})
	rows := slices.Concat(found...)
	for i := range rows {
		rows[i].Fresh = true
	}
	return rows, err
}

// readsAtOnce is how many round trips a list makes at once. What else is done in Redis needs connections, too.
const readsAtOnce = 4

// looseChunk is how many tasks that the index may not have are read in one round trip.
const looseChunk = 500

// isElsewhere reports whether a task is in another namespace or of another schedule.
func (s *search) isElsewhere(ref task.Ref) bool {
	return s.filter.Namespace != "" && ref.Namespace != s.filter.Namespace ||
		s.filter.Schedule != "" && !ref.IsTickOf(s.filter.Schedule)
}

// keepLabelled keeps the segments that may have rows with the labels of the filter. Error: CodeUnavailable.
func (s *search) keepLabelled(ctx context.Context) error {
	wanted := make([]field, len(s.homes))
	for i, h := range s.homes {
		wanted[i] = field{h.partition, strconv.Itoa(h.number)}
	}
	sets, err := readFields(ctx, s.l, wanted, func(k lua.Partition) string { return string(k.ListedLabels()) })
	if err != nil {
		return err
	}
	segments, homes := s.segments, s.homes
	s.segments, s.homes = nil, nil
	for i, set := range sets {
		if index.HasLabels(set, s.filter.Labels) {
			s.add(segments[i], homes[i])
		}
	}
	return nil
}

// next returns the next rows that match, about n, and whether there may be more.
func (s *search) next(ctx context.Context, after *index.Position, n int) (rows []index.Row, more bool, _ error) {
	n = withStale(n)
	var loose []index.Row
	err := calls.Try(
		func() (err error) {
			rows, err = index.Search(ctx, s.segments, s.filter, s.order, after, n, s.read)
			return publicError(err)
		},
		func() (err error) { loose, err = s.looseRows(ctx); return err },
	)
	if err != nil {
		return nil, false, err
	}
	more = len(rows) >= n
	for _, r := range loose {
		if s.filter.Matches(r) && s.order.IsAfter(r, after) {
			rows = append(rows, r)
		}
	}
	rows = s.order.Best(rows, 0)
	if first := s.order.Best(slices.Clone(rows), n); len(first) < len(rows) {
		return first, true, nil
	}
	return rows, more, nil
}

// withStale is how many rows to look for, to find about n tasks: some may be out of date.
func withStale(n int) int { return n + n/8 + 8 }

// first returns the first n of rows that are sorted, and all rows of the last task.
func (s *search) first(rows []index.Row, n int) []index.Row {
	n = min(n, len(rows))
	for n < len(rows) && s.order.PositionOf(rows[n]) == s.order.PositionOf(rows[n-1]) {
		n++
	}
	return rows[:n]
}

func publicError(err error) error {
	if errors.Is(err, index.ErrUnreadable) {
		return &task.Error{Code: task.CodeUnreadable, Message: err.Error(), Err: err}
	}
	return err
}

// read is readAny if all blocks are there. Errors: errReplaced, CodeUnavailable.
func (s *search) read(ctx context.Context, some []index.Block) ([][]byte, error) {
	texts, err := s.readAny(ctx, some)
	if err == nil && slices.ContainsFunc(texts, func(text []byte) bool { return text == nil }) {
		return nil, errReplaced
	}
	return texts, err
}

// readAny reads blocks of segments that have their places as numbers, in one round trip. One that is gone is nil.
// Error: CodeUnavailable.
func (s *search) readAny(ctx context.Context, some []index.Block) ([][]byte, error) {
	wanted := make([]field, len(some))
	for i, b := range some {
		at := s.homes[b.Segment.Number]
		wanted[i] = field{at.partition, blockName(at.number, b.Place)}
	}
	return readFields(ctx, s.l, wanted, func(k lua.Partition) string { return string(k.ListedRows()) })
}

// staleReported is how many rows of a segment must be out of date for a list to tell its leader.
const staleReported = 64

// report tells leaders which segments have many rows that are out of date. If it is lost, a later list tells it.
func (s *search) report(ctx context.Context) {
	found := make(map[int][]string) // by partition
	for place, n := range s.stale {
		if n >= staleReported {
			at := s.homes[place]
			found[at.partition] = append(found[at.partition], strconv.Itoa(at.number))
		}
	}
	for partition, segments := range found {
		s.l.DB.Publish(ctx, string(s.l.Keys.Wake(partition)), layout.StaleWake+strings.Join(segments, " "))
	}
}

// confirm reads the tasks of rows, and returns those that are as their rows say, in order. Error: CodeUnavailable.
func (s *search) confirm(
	ctx context.Context, rows []index.Row, read func(context.Context, []task.Ref) ([]task.Task, error),
) ([]task.Task, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	found, err := read(ctx, refsOf(rows))
	return s.compare(rows, byRef(found)), err
}

// compare returns those of some tasks that are as their rows say, in the order of the rows, and takes them away.
func (s *search) compare(rows []index.Row, present map[task.Ref]task.Task) (confirmed []task.Task) {
	for _, r := range rows {
		t, there := present[r.Ref]
		// The cause belongs to the end that the row has.
		now := index.NewRow(t, r.Cause)
		same := now.State == r.State && now.Ended == r.Ended &&
			(now.Damaged() || s.order.PositionOf(now) == s.order.PositionOf(r))
		same = same || now.State == task.Unreadable // which has no end
		if !r.Fresh && !(there && same) {
			s.stale[r.Segment]++
		}
		if there && (same || r.Fresh) && s.filter.Matches(now) {
			confirmed = append(confirmed, t)
			delete(present, r.Ref) // a task can have several rows
		}
	}
	return confirmed
}

// refsOf are the names of the tasks of rows, each once.
func refsOf(rows []index.Row) []task.Ref {
	refs, seen := make([]task.Ref, 0, len(rows)), make(map[task.Ref]bool, len(rows))
	for _, r := range rows {
		if !seen[r.Ref] {
			seen[r.Ref] = true
			refs = append(refs, r.Ref)
		}
	}
	return refs
}

func byRef(all []task.Task) map[task.Ref]task.Task {
	found := make(map[task.Ref]task.Task, len(all))
	for _, t := range all {
		found[t.Ref] = t
	}
	return found
}

// namesOf are the names of the tasks of rows.
func namesOf(rows []index.Row) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Ref.String()
	}
	return names
}
