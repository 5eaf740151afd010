package listing

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

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
	loose    []index.Row // that match, of tasks that the index may not have, sorted
	segments []index.Summary
	homes    []int      // the partitions of the segments, by their places
	portion  func() int // how many tasks are read at once
	stale    []int      // rows that were out of date, by the places of their segments
	sifts    bool       // most of the rows that were looked at last were out of date
}

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

// begin reads the tasks that the index may not have, and which segments have labels of the filter.
func (s *search) begin(ctx context.Context, parts []part) error {
	var members []string
	for _, p := range parts {
		members = append(members, p.refs...)
	}
	chunks := slices.Collect(slices.Chunk(slices.DeleteFunc(parseRefs(members), s.isElsewhere), looseChunk))
	found := make([][]index.Row, len(chunks))
	err := calls.Each(readsAtOnce, chunks, func(i int, refs []task.Ref) (err error) {
		found[i], err = rowsOf(ctx, s.l, s.tasks, refs)
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range slices.Concat(found...) {
		if r.Fresh = true; s.filter.Matches(r) {
			s.loose = append(s.loose, r)
		}
	}
	s.loose = s.order.Best(s.loose, 0)
	for _, p := range parts {
		for _, summary := range p.segments {
			if summary.MayMatch(s.filter) {
				s.segments, s.homes = append(s.segments, summary), append(s.homes, p.number)
			}
		}
	}
	if len(s.filter.Labels) == 0 {
		return nil
	}
	return s.keepLabelled(ctx)
}

// readsAtOnce is how many round trips a list makes at once. What else is done in Redis needs connections, too.
const readsAtOnce = 4

// looseChunk is how many tasks that the index may not have are read in one round trip.
const looseChunk = 500

// isElsewhere reports whether a task is in another namespace or of another schedule.
func (s *search) isElsewhere(ref task.Ref) bool {
	return s.filter.Namespace != "" && ref.Namespace != s.filter.Namespace ||
		s.filter.Schedule != "" && !strings.HasPrefix(ref.ID, s.filter.Schedule+"@")
}

// keepLabelled keeps the segments that may have rows with the labels of the filter. Error: CodeUnavailable.
func (s *search) keepLabelled(ctx context.Context) error {
	wanted := make([]field, len(s.segments))
	for i, summary := range s.segments {
		wanted[i] = field{s.homes[i], strconv.Itoa(summary.Number)}
	}
	sets, err := readFields(ctx, s.l, wanted, func(k lua.Partition) string { return string(k.ListedLabels()) })
	if err != nil {
		return err
	}
	var segments []index.Summary
	var homes []int
	for i, set := range sets {
		if index.HasLabels(set, s.filter.Labels) {
			segments, homes = append(segments, s.segments[i]), append(homes, s.homes[i])
		}
	}
	s.segments, s.homes = segments, homes
	return nil
}

// next returns the next rows that match, about n, and whether there may be more.
func (s *search) next(ctx context.Context, after *index.Position, n int) (rows []index.Row, more bool, _ error) {
	n += n/8 + 8 // some may be out of date
	rows, err := index.Search(ctx, s.places(), s.filter, s.order, after, n, s.read)
	if err != nil {
		return nil, false, publicError(err)
	}
	more = len(rows) >= n
	for _, r := range s.loose {
		if s.order.IsAfter(r, after) {
			rows = append(rows, r)
		}
	}
	rows = s.order.Best(rows, 0)
	if first := s.order.Best(slices.Clone(rows), n); len(first) < len(rows) {
		return first, true, nil
	}
	return rows, more, nil
}

// first returns the first n of rows that are sorted, and all rows of the last task.
func (s *search) first(rows []index.Row, n int) []index.Row {
	n = min(n, len(rows))
	for n < len(rows) && s.order.PositionOf(rows[n]) == s.order.PositionOf(rows[n-1]) {
		n++
	}
	return rows[:n]
}

// places are the segments with their places as numbers.
func (s *search) places() []index.Summary {
	places := make([]index.Summary, len(s.segments))
	for i, summary := range s.segments {
		places[i] = summary
		places[i].Number = i
	}
	return places
}

func publicError(err error) error {
	if errors.Is(err, index.ErrUnreadable) {
		return &task.Error{Code: task.CodeUnreadable, Message: err.Error(), Err: err}
	}
	return err
}

// read is readAny if all blocks are there. Errors: errReplaced, CodeUnavailable.
func (s *search) read(ctx context.Context, some []*index.Block) ([][]byte, error) {
	texts, err := s.readAny(ctx, some)
	if err == nil && slices.ContainsFunc(texts, func(text []byte) bool { return text == nil }) {
		return nil, errReplaced
	}
	return texts, err
}

// readAny reads blocks of segments that have their places as numbers, in one round trip. One that is gone is nil.
// Error: CodeUnavailable.
func (s *search) readAny(ctx context.Context, some []*index.Block) ([][]byte, error) {
	wanted := make([]field, len(some))
	for i, b := range some {
		wanted[i] = field{s.homes[b.Number], blockName(s.segments[b.Number].Number, b.Place)}
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
			home := s.homes[place]
			found[home] = append(found[home], strconv.Itoa(s.segments[place].Number))
		}
	}
	for home, segments := range found {
		s.l.DB.Publish(ctx, string(s.l.Keys.Wake(home)), layout.StaleWake+strings.Join(segments, " "))
	}
}

// confirm reads the tasks of rows, and returns those that are as their rows say, in order. Error: CodeUnavailable.
func (s *search) confirm(
	ctx context.Context, rows []index.Row, read func(context.Context, []task.Ref) ([]task.Task, error),
) ([]task.Task, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	found, err := read(ctx, parseRefs(namesOf(rows)))
	if err != nil {
		return nil, err
	}
	present := make(map[task.Ref]task.Task, len(found))
	for _, t := range found {
		present[t.Ref] = t
	}
	var confirmed []task.Task
	for _, r := range rows {
		t, there := present[r.Ref]
		// The cause belongs to the end that the row has.
		now := index.NewRow(t, r.Cause)
		same := now.State == r.State && now.Ended == r.Ended && s.order.PositionOf(now) == s.order.PositionOf(r)
		same = same || now.State == task.Unreadable // which has no times
		if !r.Fresh && !(there && same) {
			s.stale[r.Segment]++
		}
		if there && (same || r.Fresh) && s.filter.Matches(now) {
			confirmed = append(confirmed, t)
			delete(present, r.Ref) // a task can have several rows
		}
	}
	return confirmed, nil
}

// namesOf are the names of the tasks of rows.
func namesOf(rows []index.Row) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Ref.String()
	}
	return names
}
