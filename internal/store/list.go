package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	scanChunk  = 500     // entries looked at in one round, when filters throw away what was found
	readChunk  = 50      // tasks read at once: a task may be some hundred kB
	pageBytes  = 4 << 20 // payloads and results in one page, give or take a chunk; it ends early where they are large
	scanBudget = 20_000  // entries looked at in one request; a page may come out short, with a cursor to go on
)

// entry is a member of a sorted set with its score: a task and the time of its state.
type entry struct {
	score  int64
	member string
}

// newerFirst orders entries as lists show them.
func newerFirst(a, b entry) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.member, a.member))
}

// List reads tasks, newest first by the time of their state: due, queued, started or finished. A task that
// changes state between two pages may be seen twice or not at all. A page can be shorter than limit, even
// empty, and not be the last one: go on until NextCursor is empty. Error: CodeInvalid for the cursor.
func (s *Store) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	from, err := parseListCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	sets := s.listSets(f)
	var page Page
	for seen, chunk := 0, limit; ; chunk = max(limit, scanChunk) {
		entries, more, err := s.readEntries(ctx, sets, from, chunk)
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
		if len(page.Tasks) >= limit || seen >= scanBudget || last < len(entries) {
			page.NextCursor = from.cursor()
			return page, nil
		}
	}
}

// listSets are the sorted sets in which tasks of the wanted states are.
func (s *Store) listSets(f Filter) []lua.ZSetKey {
	states := f.States
	if len(states) == 0 {
		states = task.States
	}
	var sets []lua.ZSetKey
	for p := range s.partitions {
		if f.Schedule != "" && p != s.PartitionOf(task.Ref{Namespace: f.Namespace, ID: f.Schedule}) {
			continue
		}
		k := s.keys.Partition(p)
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

// readEntries reads the newest n entries of all sets together that come after from. more says whether there
// may be others behind them.
func (s *Store) readEntries(ctx context.Context, sets []lua.ZSetKey, from *entry, n int) (_ []entry, more bool, _ error) {
	score, member := "", ""
	if from != nil {
		score, member = strconv.FormatInt(from.score, 10), from.member
	}
	calls := make([]lua.ReadPage, len(sets))
	for i, set := range sets {
		calls[i] = lua.ReadPage{ZSet: set, Score: score, Member: member, Limit: n}
	}
	var all []entry
	for _, page := range redisx.RunEach[lua.ReadPageReply](ctx, s.db, calls) {
		if page.Err != nil {
			return nil, false, unavailable(page.Err)
		}
		more = more || len(page.Reply.Entries) == n
		for _, e := range page.Reply.Entries {
			all = append(all, entry{score: int64(e.Score), member: e.Member})
		}
	}
	slices.SortFunc(all, newerFirst)
	if len(all) > n {
		return all[:n], true, nil
	}
	return all, more, nil
}

// match reads the tasks of entries and keeps those that the filter wants, up to want of them and up to pageBytes. last
// is how many entries were used up.
func (s *Store) match(ctx context.Context, f Filter, entries []entry, want int) (matched []task.Task, last int, _ error) {
	bytes := 0
	for chunk := range slices.Chunk(entries, readChunk) {
		tasks, err := s.getEach(ctx, f.refs(chunk))
		if err != nil {
			return nil, 0, err
		}
		byMember := make(map[string]task.Task, len(tasks))
		for _, t := range tasks {
			byMember[t.Ref.String()] = t
		}
		for _, e := range chunk {
			last++
			t, found := byMember[e.member]
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
func (f Filter) refs(entries []entry) []task.Ref {
	refs := make([]task.Ref, 0, len(entries))
	for _, e := range entries {
		if ref, err := task.ParseRef(e.member); err == nil && ref.Namespace == f.Namespace && f.named(ref) {
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

// cursor is the entry as a page hands it out: opaque, and safe in a URL.
func (e entry) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(e.score, 10) + " " + e.member))
}

func parseListCursor(cursor string) (*entry, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // no cursor is a cursor too: the start
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	score, member, ok := strings.Cut(string(raw), " ")
	n, errScore := strconv.ParseInt(score, 10, 64)
	if err != nil || !ok || errScore != nil {
		return nil, task.Invalid("cursor", "is not a cursor that a list has given out")
	}
	return &entry{score: n, member: member}, nil
}
