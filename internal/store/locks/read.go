package locks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Page is a part of a list of locks.
type Page struct {
	Locks      []Lock
	NextCursor string // "" on the last page
}

// Get reads one lock. Errors: CodeNotFound if nobody holds it, CodeUnreadable, CodeUnavailable.
func (s *Locks) Get(ctx context.Context, ref task.Ref) (Lock, error) {
	ctx, left := redisx.LeavingOut(ctx)
	found, err := s.getEach(ctx, []task.Ref{ref})
	if err != nil {
		return Lock{}, err
	}
	if texts := left.Texts(); len(texts) > 0 {
		return Lock{}, &task.Error{Code: task.CodeUnreadable, Message: texts[0]}
	}
	if len(found) == 0 {
		return Lock{}, task.Errorf(CodeNotFound, "nobody holds a lock %q", ref.ID)
	}
	return found[0], nil
}

// List reads up to limit of the locks of a namespace that are held, by name, from a cursor on. A page can be shorter than limit and
// not be the last. Errors: CodeInvalid for the cursor, CodeUnavailable.
func (s *Locks) List(ctx context.Context, namespace string, limit int, cursor string) (Page, error) {
	after, err := layout.ParseNameCursor(layout.LockNames, cursor)
	if err != nil {
		return Page{}, err
	}
	refs, err := s.readRefs(ctx, namespace, after)
	if err != nil {
		return Page{}, err
	}
	var page Page
	if len(refs) > limit {
		refs = refs[:limit]
		page.NextCursor = layout.NameCursor(layout.LockNames, refs[limit-1].ID)
	}
	page.Locks, err = s.getEach(ctx, refs)
	return page, err
}

// readRefs reads the names after the given one of the locks of a namespace, in order. The sets are in another order, so all of them
// are read: there are at most contract.LocksLimit names in each.
func (s *Locks) readRefs(ctx context.Context, namespace, after string) ([]task.Ref, error) {
	pipe := s.l.DB.Pipeline()
	found := make([]interface{ Val() []string }, s.l.Partitions())
	for p := range found {
		found[p] = pipe.ZRange(ctx, string(s.l.Keys.Partition(p).Locks()), 0, -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	var refs []task.Ref
	for _, members := range found {
		for _, m := range members.Val() {
			ref, err := task.ParseRef(m)
			if err == nil && ref.Namespace == namespace && ref.ID > after {
				refs = append(refs, ref)
			}
		}
	}
	slices.SortFunc(refs, func(a, b task.Ref) int { return strings.Compare(a.ID, b.ID) })
	return refs, nil
}

// getEach reads many locks in one round trip. Those that nobody holds are left out, and those that cannot be read, which
// redisx.LeavingOut notes.
func (s *Locks) getEach(ctx context.Context, refs []task.Ref) ([]Lock, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	found := make([]interface{ Val() map[string]string }, len(refs))
	for i, ref := range refs {
		found[i] = pipe.HGetAll(ctx, string(s.l.KeysOf(ref).Lock(ref)))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	all := make([]Lock, 0, len(refs))
	for i, h := range found {
		if len(h.Val()) == 0 {
			continue
		}
		lock, err := decode(refs[i], h.Val())
		if err != nil {
			redisx.LeaveOut(ctx, "lock %s cannot be read: %v", refs[i], err)
			s.l.Log.ErrorContext(ctx, "skipping unreadable lock", "lock", refs[i].String(), "error", err)
			continue
		}
		all = append(all, lock)
	}
	return all, nil
}

// decode reads what acquire_lock.lua wrote.
func decode(ref task.Ref, h map[string]string) (Lock, error) {
	numbers := map[string]int64{}
	for _, field := range []string{"fence", "since", "expires", "ttl"} {
		n, err := strconv.ParseInt(h[field], 10, 64)
		if err != nil {
			return Lock{}, fmt.Errorf("%s: %w", field, err)
		}
		if n < 1 {
			return Lock{}, fmt.Errorf("%s is %d", field, n)
		}
		numbers[field] = n
	}
	return Lock{
		Ref: ref, Holder: h["holder"], Fence: numbers["fence"], Since: time.UnixMilli(numbers["since"]).UTC(),
		Expires: time.UnixMilli(numbers["expires"]).UTC(), TTL: time.Duration(numbers["ttl"]) * time.Millisecond, Note: h["note"],
	}, nil
}
