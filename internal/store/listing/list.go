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
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
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

// isPlain reports whether the filter asks for nothing but what the sorted sets of the states tell: tasks of one
// namespace that have ended, or all that are queued or run.
func isPlain(f tasks.Filter) bool {
	if f.Namespace == everyNamespace || len(f.States) == 0 || slices.Contains(f.States, task.Scheduled) {
		return false
	}
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
	s := &search{Listing: x, filter: filterOf(f), order: f.Sort, portion: func() int { return readAtOnce }}
	busy := s.wants(task.Queued) || s.wants(task.Running)
	noted := len(f.States) == 0 || slices.ContainsFunc(f.States, isNoted)
	parts, err := x.readKept(ctx, x.partitionsOf(f), s.wants(task.Scheduled), busy, noted)
	if err != nil {
		return nil, err
	}
	s.missing, s.unbuilt = missing(parts, x.l.HasOlder())
	return s, s.begin(ctx, parts)
}

// isNoted reports whether a task can be noted, and not in the sets of those that are queued or run.
func isNoted(s task.State) bool { return s != task.Queued && s != task.Running }

// search reads a page of a list with a filter. Errors: errReplaced, CodeUnavailable, CodeUnreadable.
func (x *Listing) search(ctx context.Context, f tasks.Filter, limit int, after *index.Position) (tasks.Page, error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return tasks.Page{}, err
	}
	return s.page(ctx, f, limit, after)
}

// page reads a page of a list with a filter that was prepared. Errors: those of search.
func (s *search) page(ctx context.Context, f tasks.Filter, limit int, after *index.Position) (tasks.Page, error) {
	page := tasks.Page{Missing: s.missing}
	if s.unbuilt && after == nil && readsWithout(f) {
		return s.tasks.List(ctx, f, limit, "")
	}
	var portions layout.Portions
	s.portion = func() int {
		if f.Brief { // such tasks are small
			return min(layout.ReadChunk, limit-len(page.Tasks))
		}
		return min(portions.Next(layout.ReadChunk), limit-len(page.Tasks))
	}
	read := func(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
		return s.tasks.ReadListed(ctx, f, refs)
	}
	end, err := s.each(ctx, after, limit, read, func(found []task.Task, rows []index.Row) (enough bool) {
		for _, t := range found {
			portions.Read(len(t.Payload)+layout.TextBytes(t.Result)+layout.TextBytes(t.Error), true)
		}
		page.Tasks = append(page.Tasks, found...)
		position := s.order.PositionOf(rows[len(rows)-1])
		after = &position
		return len(page.Tasks) >= limit || portions.Full()
	})
	if err == nil && !end {
		page.NextCursor = cursorOf(s.order, *after)
	}
	return page, err
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
		Schedule: f.Schedule, Causes: causesOf(f.Error), Labels: index.Labels(f.Labels),
		Created: rangeOf(f.Created), Due: rangeOf(f.Due), Ended: rangeOf(f.Ended),
		OnlyEnded: f.Sort.By == index.Ended || f.Sort.By == index.Took,
	}
}

// causesOf are the parts of shapes that a part of an error stands for: itself, and its own shape.
func causesOf(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text, rollup.Shape(text)}
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

// missing says which tasks a list may lack; "" if none. hasOlder: nodes live that note no tasks. unbuilt: there is no
// whole index.
func missing(parts []part, hasOlder bool) (which string, unbuilt bool) {
	if hasOlder {
		return "tasks, as there is no index of lists while nodes of an earlier release live", true
	}
	done, of, more := 0, 0, ""
	for _, p := range parts {
		if p.more != "" {
			more = p.more
		}
		if p.revision == 0 {
			return "tasks, as no leader has begun to build the index of lists", true
		}
		if p.isBehind() {
			return "tasks that changed lately, as a new leader has yet to look at the index of lists", true
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
