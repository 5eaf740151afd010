package listing

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// everyNamespace as the namespace of a filter means all of them.
const everyNamespace = "*"

// List reads tasks, in the order of the filter, newest first by default. A page may have fewer tasks than limit, even
// none, and not be the last. A task that changes between two pages may be on both or on neither. Errors: CodeInvalid
// for the cursor and for the namespace, CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) List(ctx context.Context, f tasks.Filter, limit int, cursor string) (tasks.Page, error) {
	if isPlain(f) {
		return x.tasks.List(ctx, f, limit, cursor)
	}
	if cursor != "" && !isOwn(cursor) && readsWithout(f) {
		return x.tasks.List(ctx, f, limit, cursor)
	}
	after, err := parseCursor(f.Sort, cursor)
	if err != nil {
		return tasks.Page{}, err
	}
	return again(x, func() (tasks.Page, error) { return x.search(ctx, f, limit, after) })
}

// searchTries is how often a list begins again because segments that it had found were replaced.
const searchTries = 5

// again does what uses the index until no segment is replaced meanwhile. Error: CodeUnavailable after some tries.
func again[T any](x *Listing, try func() (T, error)) (T, error) {
	for range searchTries {
		result, err := try()
		if !errors.Is(err, errReplaced) {
			return result, err
		}
		x.forget()
	}
	var none T
	return none, task.Errorf(task.CodeUnavailable, "the index of lists changes all the time: try again")
}

// isPlain reports whether the filter asks for nothing but what the sorted sets of the states tell.
func isPlain(f tasks.Filter) bool {
	return f.Queue == "" && f.Type == "" && f.Owner == "" && f.Node == "" && f.Schedule == "" && readsWithout(f)
}

// readsWithout reports whether the list can do without the index, though it takes longer.
func readsWithout(f tasks.Filter) bool {
	return len(f.Labels) == 0 && f.Error == "" && f.Created == tasks.Span{} && f.Due == tasks.Span{} &&
		f.Ended == tasks.Span{} && f.Sort == index.Order{}
}

// forget has the index be read again.
func (x *Listing) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.known)
}

// prepare reads what a list with a filter needs before it searches the index. Errors: CodeUnavailable, CodeUnreadable.
func (x *Listing) prepare(ctx context.Context, f tasks.Filter) (*search, error) {
	s := &search{Listing: x, filter: filterOf(f), order: f.Sort}
	busy := s.wants(task.Queued) || s.wants(task.Running)
	parts, err := x.readParts(ctx, x.partitionsOf(f), s.wants(task.Scheduled), busy)
	if err != nil {
		return nil, err
	}
	s.missing, s.unbuilt = missing(parts)
	return s, s.begin(ctx, parts)
}

// search reads a page of a list with a filter. Errors: errReplaced, CodeUnavailable, CodeUnreadable.
func (x *Listing) search(ctx context.Context, f tasks.Filter, limit int, after *index.Position) (tasks.Page, error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return tasks.Page{}, err
	}
	page := tasks.Page{Missing: s.missing}
	if s.missing != "" && after == nil && readsWithout(f) {
		return x.tasks.List(ctx, f, limit, "")
	}
	var portions layout.Portions
	full := func() bool { return len(page.Tasks) >= limit || portions.Full() }
	for {
		rows, more, err := s.next(ctx, after, limit-len(page.Tasks))
		if err != nil {
			return page, err
		}
		for len(rows) > 0 && !full() {
			some := s.first(rows, min(portions.Next(layout.ReadChunk), limit-len(page.Tasks)))
			rows = rows[len(some):]
			found, err := s.confirm(ctx, some, x.reader(f))
			if err != nil {
				return page, err
			}
			for _, t := range found {
				portions.Read(len(t.Payload)+layout.TextBytes(t.Result)+layout.TextBytes(t.Error), true)
			}
			page.Tasks = append(page.Tasks, found...)
			position := s.order.PositionOf(some[len(some)-1])
			after = &position
		}
		switch {
		case !more && len(rows) == 0:
			return page, nil
		case full():
			page.NextCursor = cursorOf(s.order, *after)
			return page, nil
		}
	}
}

// reader reads the tasks of a page.
func (x *Listing) reader(f tasks.Filter) func(context.Context, []task.Ref) ([]task.Task, error) {
	if f.Brief {
		return x.tasks.Briefs
	}
	return x.tasks.GetEach
}

// search is one list with a filter.
type search struct {
	*Listing
	filter   index.Filter
	missing  string // which tasks the list may lack; "" for none
	unbuilt  bool   // there is no whole index
	order    index.Order
	loose    []index.Row // that match, of tasks that the index may not have, sorted
	segments []index.Summary
	homes    []int // the partitions of the segments, by their places
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
	for refs := range slices.Chunk(slices.DeleteFunc(parseRefs(members), s.isElsewhere), looseChunk) {
		rows, err := rowsOf(ctx, s.l, s.tasks, refs)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if s.filter.Matches(r) {
				s.loose = append(s.loose, r)
			}
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
		wanted[i] = field{s.homes[i], summary.Number}
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

// read reads segments by their places, in one round trip. Errors: errReplaced, CodeUnavailable.
func (s *search) read(ctx context.Context, places []index.Summary) ([][]byte, error) {
	wanted := make([]field, len(places))
	for i, p := range places {
		wanted[i] = field{s.homes[p.Number], s.segments[p.Number].Number}
	}
	texts, err := readFields(ctx, s.l, wanted, func(k lua.Partition) string { return string(k.ListedRows()) })
	for _, text := range texts {
		if text == nil {
			return nil, errReplaced
		}
	}
	return texts, err
}

// confirm reads the tasks of rows, and returns those that are as their rows say, in order. Error: CodeUnavailable.
func (s *search) confirm(
	ctx context.Context, rows []index.Row, read func(context.Context, []task.Ref) ([]task.Task, error),
) ([]task.Task, error) {
	members := make([]string, len(rows))
	for i, r := range rows {
		members[i] = r.Ref.String()
	}
	found, err := read(ctx, parseRefs(members))
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
		if there && now.State == r.State && s.order.PositionOf(now) == s.order.PositionOf(r) && s.filter.Matches(now) {
			confirmed = append(confirmed, t)
			delete(present, r.Ref) // a task can have several rows
		}
	}
	return confirmed, nil
}

// partitionsOf are the partitions that can have tasks of the filter.
func (x *Listing) partitionsOf(f tasks.Filter) []int {
	if f.Schedule != "" && f.Namespace != everyNamespace {
		return []int{x.l.PartitionOf(task.Ref{Namespace: f.Namespace, ID: f.Schedule})}
	}
	all := make([]int, x.l.Partitions())
	for p := range all {
		all[p] = p
	}
	return all
}

func filterOf(f tasks.Filter) index.Filter {
	if f.Namespace == everyNamespace {
		f.Namespace = ""
	}
	return index.Filter{
		Namespace: f.Namespace, States: f.States, Queue: f.Queue, Type: f.Type, Owner: f.Owner, Node: f.Node,
		Schedule: f.Schedule, Cause: f.Error, Labels: index.Labels(f.Labels),
		Created: rangeOf(f.Created), Due: rangeOf(f.Due), Ended: rangeOf(f.Ended),
	}
}

func rangeOf(s tasks.Span) index.Range {
	ms := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return index.Range{From: ms(s.Since), Until: ms(s.Until)}
}

// missing says which tasks a list may lack; "" if none. unbuilt: there is no whole index.
func missing(parts []part) (which string, unbuilt bool) {
	done, of, more := 0, 0, ""
	for _, p := range parts {
		if p.more != "" {
			more = p.more
		}
		if p.built == builtLater {
			return "tasks, as there is no index of lists while nodes of an earlier release live", true
		}
		if d, n := p.unbuilt(); n > 0 {
			done, of = done+d, of+n
		}
	}
	if of > 0 {
		const text = "tasks from before the index of lists, which is being built: %d %% of it is there"
		return fmt.Sprintf(text, 100*done/of), true
	}
	return more, false
}

// The cursor of a list with a filter says how the list is sorted, so that another one refuses it.
const cursorMark = "="

func cursorOf(o index.Order, p index.Position) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s%d %t %d %s", cursorMark, o.By, o.Asc, p.Key, p.Ref))
}

// isOwn reports whether a cursor is of a list that used the index.
func isOwn(cursor string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	return err == nil && strings.HasPrefix(string(raw), cursorMark)
}

// parseCursor reads what cursorOf returned; "" is nil, the start. Error: CodeInvalid.
func parseCursor(o index.Order, cursor string) (*index.Position, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // nil is the start
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	rest, marked := strings.CutPrefix(string(raw), fmt.Sprintf("%s%d %t ", cursorMark, o.By, o.Asc))
	if err != nil || !marked {
		return nil, layout.InvalidCursor()
	}
	var p index.Position
	var member string
	if _, err := fmt.Sscanf(rest, "%d %s", &p.Key, &member); err != nil {
		return nil, layout.InvalidCursor()
	}
	if p.Ref, err = task.ParseRef(member); err != nil {
		return nil, layout.InvalidCursor()
	}
	return &p, nil
}
