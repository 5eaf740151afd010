package tasks

import (
	"context"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	readChunk = 50      // tasks read at once: a task may be some hundred kB
	pageBytes = 4 << 20 // payloads and results in one page, give or take a chunk; it ends early where they are large
)

// List reads tasks, newest first by the time of their state: due, queued, started or finished. A task that
// changes state between two pages may be seen twice or not at all. A page can be shorter than limit, even
// empty, and not be the last one: go on until NextCursor is empty. Error: CodeInvalid for the cursor.
func (s *Tasks) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	from, err := layout.ParseCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	sets := s.listSets(f)
	var page Page
	for seen, chunk := 0, limit; ; chunk = max(limit, layout.ScanChunk) {
		entries, more, err := s.l.ReadEntries(ctx, sets, from, chunk)
		if err != nil {
			return Page{}, err
		}
		matched, last, err := s.match(ctx, f, entries, limit-len(page.Tasks))
		if err != nil {
			return Page{}, err
		}
		page.Tasks = append(page.Tasks, matched...)
		seen += len(entries)
		exhausted := !more && last == len(entries)
		if last > 0 {
			from = &entries[last-1]
		}
		if exhausted {
			return page, nil
		}
		if len(page.Tasks) >= limit || seen >= layout.ScanBudget || last < len(entries) {
			page.NextCursor = from.Cursor()
			return page, nil
		}
	}
}

// listSets are the sorted sets in which tasks of the wanted states are.
func (s *Tasks) listSets(f Filter) []lua.ZSetKey {
	states := f.States
	if len(states) == 0 {
		states = task.States
	}
	var sets []lua.ZSetKey
	for p := range s.l.Partitions() {
		if f.Schedule != "" && p != s.l.PartitionOf(task.Ref{Namespace: f.Namespace, ID: f.Schedule}) {
			continue
		}
		k := s.l.Keys.Partition(p)
		for _, state := range states {
			switch state {
			case task.Scheduled:
				sets = append(sets, lua.ZSetKey(k.Wheel()))
			case task.Queued:
				sets = append(sets, lua.ZSetKey(k.Queued()))
			case task.Running:
				sets = append(sets, lua.ZSetKey(k.Running()))
			default:
				sets = append(sets, lua.ZSetKey(k.Index(f.Namespace, state)))
			}
		}
	}
	return sets
}

// match reads the tasks of entries and keeps those that the filter wants, up to want of them and up to pageBytes. last
// is how many entries were used up.
func (s *Tasks) match(ctx context.Context, f Filter, entries []layout.Entry, want int) (matched []task.Task, last int, _ error) {
	bytes := 0
	for chunk := range slices.Chunk(entries, readChunk) {
		tasks, err := s.GetEach(ctx, f.refs(chunk))
		if err != nil {
			return nil, 0, err
		}
		byMember := make(map[string]task.Task, len(tasks))
		for _, t := range tasks {
			byMember[t.Ref.String()] = t
		}
		for _, e := range chunk {
			last++
			t, found := byMember[e.Member]
			if !found || !f.matches(t) {
				continue
			}
			matched = append(matched, t)
			bytes += len(t.Payload) + len(t.Result)
			if len(matched) == want {
				return matched, last, nil
			}
		}
		if bytes >= pageBytes {
			return matched, last, nil
		}
	}
	return matched, last, nil
}

// refs are the tasks among entries that may match, as far as their names tell.
func (f Filter) refs(entries []layout.Entry) []task.Ref {
	refs := make([]task.Ref, 0, len(entries))
	for _, e := range entries {
		if ref, err := task.ParseRef(e.Member); err == nil && ref.Namespace == f.Namespace && f.named(ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// named says whether a task's name is as the filter wants it.
func (f Filter) named(ref task.Ref) bool {
	return f.Schedule == "" || strings.HasPrefix(ref.ID, f.Schedule+"@")
}

func (f Filter) matches(t task.Task) bool {
	wants := func(want, is string) bool { return want == "" || want == is }
	return (len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		wants(f.Queue, t.Queue) && wants(f.Type, t.Type) && wants(f.Owner, t.Owner) && wants(f.Node, t.Node) && f.named(t.Ref)
}
