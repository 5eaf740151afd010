package tasks

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// List reads tasks, newest first by the time of their state: due, queued, started or finished. A task that changes state
// between two pages may be on both or on neither. A page may have fewer tasks than limit, even none, and not be the
// last: it ends early after layout.ScanBudget entries and after layout.PageTime. Read on until NextCursor is empty.
// Errors: CodeInvalid for the cursor, CodeUnavailable.
func (s *Tasks) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	from, err := layout.ParseCursor(layout.TaskEntries, cursor)
	if err != nil {
		return Page{}, err
	}
	groups, err := s.listSets(ctx, f)
	if err != nil {
		return Page{}, err
	}
	var page Page
	var portions layout.Portions
	for scan := s.l.NewScan(limit, countSets(groups), from == nil); ; {
		entries, more, err := s.l.ReadEntries(ctx, groups, from, scan.Next())
		if err != nil {
			return Page{}, err
		}
		matched, last, err := s.match(ctx, f, entries, limit-len(page.Tasks), scan, &portions)
		if err != nil {
			return Page{}, err
		}
		page.Tasks = append(page.Tasks, matched...)
		scan.Read(last)
		if !more && last == len(entries) {
			return page, nil
		}
		from = &entries[last-1]
		if len(page.Tasks) >= limit || last < len(entries) || portions.Full() || scan.Over() {
			page.NextCursor = from.Cursor(layout.TaskEntries)
			return page, nil
		}
	}
}

func countSets(groups [][]lua.ZSetKey) (n int) {
	for _, sets := range groups {
		n += len(sets)
	}
	return n
}

// listSets are the sorted sets that hold the tasks of the filter's states, for each partition. Error: CodeUnavailable.
func (s *Tasks) listSets(ctx context.Context, f Filter) ([][]lua.ZSetKey, error) {
	states := f.States
	if len(states) == 0 {
		states = task.States
	}
	partitions := s.listPartitions(f)
	var ready map[int][]lua.ReadyKey
	if slices.Contains(states, task.Scheduled) {
		var err error
		if ready, err = s.l.ReadySets(ctx, partitions, f.Queue); err != nil {
			return nil, err
		}
	}
	namespaces, err := s.listNamespaces(ctx, f.Namespace, states)
	if err != nil {
		return nil, err
	}
	groups := make([][]lua.ZSetKey, len(partitions))
	for i, p := range partitions {
		for _, set := range ready[p] {
			groups[i] = append(groups[i], lua.ZSetKey(set))
		}
		for _, state := range states {
			groups[i] = append(groups[i], setsOf(s.l.Keys.Partition(p), namespaces, state)...)
		}
	}
	return groups, nil
}

// everyNamespace as the namespace of a filter means all of them.
const everyNamespace = "*"

// listedNamespaces is of how many namespaces a list of all of them can have tasks that have ended.
const listedNamespaces = 100

// listNamespaces are the namespaces of which tasks in some states are listed. Errors: CodeInvalid for the namespace if
// there are too many, CodeUnavailable.
func (s *Tasks) listNamespaces(ctx context.Context, namespace string, states []task.State) ([]string, error) {
	if namespace != everyNamespace || !slices.ContainsFunc(states, task.State.Final) {
		return []string{namespace}, nil
	}
	known, err := s.l.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	if len(known) > listedNamespaces {
		return nil, task.Invalid("namespace", "there are %d namespaces: name one, or the states scheduled, queued and running",
			len(known))
	}
	var names []string
	for _, n := range known {
		names = append(names, n.Name)
	}
	return names, nil
}

// setsOf are the sorted sets of a partition that hold the tasks in a state. Those of scheduled tasks that are ready are
// in others.
func setsOf(k lua.Partition, namespaces []string, state task.State) []lua.ZSetKey {
	switch state {
	case task.Scheduled:
		return []lua.ZSetKey{lua.ZSetKey(k.Wheel())}
	case task.Queued:
		return []lua.ZSetKey{lua.ZSetKey(k.Queued())}
	case task.Running:
		return []lua.ZSetKey{lua.ZSetKey(k.Running())}
	}
	var sets []lua.ZSetKey
	for _, namespace := range namespaces {
		sets = append(sets, lua.ZSetKey(k.Index(namespace, state)))
	}
	return sets
}

// listPartitions are the partitions that can have tasks of the filter.
func (s *Tasks) listPartitions(f Filter) []int {
	if f.Schedule != "" && f.Namespace != everyNamespace {
		return []int{s.l.PartitionOf(task.Ref{Namespace: f.Namespace, ID: f.Schedule})}
	}
	all := make([]int, s.l.Partitions())
	for p := range all {
		all[p] = p
	}
	return all
}

// match reads the tasks of entries and returns those that match the filter, up to limit of them, until the page is full
// or that takes long. last is how many entries it went through: one at least, unless there are none.
func (s *Tasks) match(
	ctx context.Context, f Filter, entries []layout.Entry, limit int, scan *layout.Scan, portions *layout.Portions,
) (matched []task.Task, last int, _ error) {
	until := scan.Until()
	for last < len(entries) && (last == 0 || clock.Now().Before(until)) {
		chunk := entries[last:min(len(entries), last+layout.ReadChunk)]
		refs, err := s.selectRefs(ctx, f, f.refs(chunk))
		if err != nil {
			return nil, 0, err
		}
		for len(refs) > 0 {
			portion := refs[:min(len(refs), portions.Next(layout.ReadChunk))]
			refs = refs[len(portion):]
			tasks, err := s.ReadListed(ctx, f, portion)
			if err != nil {
				return nil, 0, err
			}
			for _, t := range tasks {
				if !f.matches(t) {
					continue
				}
				matched = append(matched, t)
				portions.Read(len(t.Payload)+layout.TextBytes(t.Result)+layout.TextBytes(t.Error), true)
				if len(matched) == limit || portions.Full() {
					isLast := func(e layout.Entry) bool { return e.Member == t.Ref.String() }
					return matched, last + 1 + slices.IndexFunc(chunk, isLast), nil
				}
			}
		}
		last += len(chunk)
	}
	return matched, last, nil
}

// selectRefs returns those of the refs whose tasks match the filter. It reads no payloads; and nothing at all, if the filter asks
// for nothing that a task's name or the set that lists it does not tell.
func (s *Tasks) selectRefs(ctx context.Context, f Filter, refs []task.Ref) ([]task.Ref, error) {
	if f.Queue == "" && f.Type == "" && f.Owner == "" && f.Node == "" {
		return refs, nil
	}
	tasks, err := s.getEach(ctx, s.l.DB, refs, true)
	if err != nil {
		return nil, err
	}
	selected := refs[:0]
	for _, t := range tasks {
		if f.matches(t) {
			selected = append(selected, t.Ref)
		}
	}
	return selected, nil
}

// refs are the names among entries that match the filter; the tasks may still not match.
func (f Filter) refs(entries []layout.Entry) []task.Ref {
	refs := make([]task.Ref, 0, len(entries))
	for _, e := range entries {
		if ref, err := task.ParseRef(e.Member); err == nil && f.inNamespace(ref) && f.matchesName(ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// inNamespace reports whether a task is in the namespace of the filter.
func (f Filter) inNamespace(ref task.Ref) bool {
	return f.Namespace == everyNamespace || f.Namespace == ref.Namespace
}

// matchesName reports whether a task belongs to the filter's schedule, which its name tells.
func (f Filter) matchesName(ref task.Ref) bool {
	return f.Schedule == "" || ref.IsTickOf(f.Schedule)
}

// matches reports whether a task matches the filter. What of it cannot be read matches, so that no list leaves it out in silence: the set that
// lists it tells its state.
func (f Filter) matches(t task.Task) bool {
	matches := func(want, value string) bool { return want == "" || want == value }
	ofState := t.State == task.Unreadable || (len(f.States) == 0 || slices.Contains(f.States, t.State)) && matches(f.Node, t.Node)
	ofDefinition := t.Type == "" || matches(f.Queue, t.Queue) && matches(f.Type, t.Type) && matches(f.Owner, t.Owner)
	return ofState && ofDefinition && f.matchesName(t.Ref)
}
