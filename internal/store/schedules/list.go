package schedules

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// List reads the schedules of a namespace, sorted by name. A page may have fewer schedules than limit, even none, and not
// be the last: read on until NextCursor is empty. Errors: CodeInvalid for the cursor, CodeUnavailable.
func (s *Schedules) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return Page{}, layout.InvalidCursor()
	}
	after := string(raw)
	var page Page
	for seen := 0; ; {
		refs, more, err := s.readRefs(ctx, f.Namespace, after, limit)
		if err != nil {
			return Page{}, err
		}
		found, err := s.getEach(ctx, refs)
		if err != nil {
			return Page{}, err
		}
		for _, sched := range found {
			if f.matches(sched) && len(page.Schedules) < limit {
				page.Schedules, after = append(page.Schedules, sched), sched.ID
			}
		}
		full := len(page.Schedules) == limit
		if !full && len(refs) > 0 {
			after = refs[len(refs)-1].ID
		}
		seen += len(refs)
		if !more && (!full || after == refs[len(refs)-1].ID) {
			break
		}
		if full || seen >= layout.ScanBudget {
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(after))
			break
		}
	}
	page.Schedules, err = s.countEach(ctx, page.Schedules)
	return page, err
}

func (f Filter) matches(sched schedule.Schedule) bool {
	for name, value := range f.Labels {
		if got, found := sched.Labels[name]; !found || got != value {
			return false
		}
	}
	return (f.Owner == "" || f.Owner == sched.Owner) && (f.Paused == nil || *f.Paused != sched.PausedAt.IsZero())
}

// readRefs reads the names of up to limit schedules of a namespace whose ids come after the given one, over all
// partitions, sorted by id. more is false if no names follow.
func (s *Schedules) readRefs(ctx context.Context, namespace, after string, limit int) (_ []task.Ref, more bool, _ error) {
	pipe := s.l.DB.Pipeline()
	found := make([]interface{ Val() []string }, s.l.Partitions())
	for p := range found {
		by := &redis.ZRangeBy{Min: "(" + namespace + ":" + after, Max: "(" + namespace + ";", Count: int64(limit)}
		found[p] = pipe.ZRangeByLex(ctx, string(s.l.Keys.Partition(p).Schedules()), by)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, false, layout.Unavailable(err)
	}
	var refs []task.Ref
	for _, members := range found {
		more = more || len(members.Val()) == limit
		refs = append(refs, parseRefs(members.Val())...)
	}
	slices.SortFunc(refs, func(a, b task.Ref) int { return cmp.Compare(a.ID, b.ID) })
	if len(refs) > limit {
		return refs[:limit], true, nil
	}
	return refs, more, nil
}

// parseRefs parses members of the set of schedules. Members that are not names of schedules are left out.
func parseRefs(members []string) []task.Ref {
	refs := make([]task.Ref, 0, len(members))
	for _, m := range members {
		if ref, err := task.ParseRef(m); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// getEach reads many schedules in one round trip, without their counts. Schedules that do not exist or cannot be read are
// left out.
func (s *Schedules) getEach(ctx context.Context, refs []task.Ref) ([]schedule.Schedule, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	found := make([]interface{ Val() map[string]string }, len(refs))
	for i, ref := range refs {
		found[i] = pipe.HGetAll(ctx, string(s.l.KeysOf(ref).Schedule(ref)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, layout.Unavailable(err)
	}
	all := make([]schedule.Schedule, 0, len(refs))
	for i, h := range found {
		if len(h.Val()) == 0 {
			continue
		}
		sched, err := codec.DecodeSchedule(refs[i], h.Val())
		if err != nil {
			s.l.Log.ErrorContext(ctx, "skipping unreadable schedule", "schedule", refs[i].String(), "error", err)
			continue
		}
		all = append(all, sched)
	}
	return all, nil
}

// eachChunk is how many schedules Each reads in one round trip.
const eachChunk = 500

// Each calls do with every schedule of a namespace, without its counts, partition by partition, sorted by name in each.
// The namespace "*" is all namespaces. Error: CodeUnavailable; context.Canceled or CodeUnavailable if ctx ends.
func (s *Schedules) Each(ctx context.Context, namespace string, do func(schedule.Schedule)) error {
	for p := range s.l.Partitions() {
		low, high := "-", "+"
		if namespace != "*" {
			low, high = "["+namespace+":", "("+namespace+";"
		}
		for {
			page := &redis.ZRangeBy{Min: low, Max: high, Count: eachChunk}
			members, err := s.l.DB.ZRangeByLex(ctx, string(s.l.Keys.Partition(p).Schedules()), page).Result()
			if err != nil {
				return layout.Unavailable(err)
			}
			found, err := s.getEach(ctx, parseRefs(members))
			if err != nil {
				return err
			}
			for _, sched := range found {
				if err := ctx.Err(); err != nil {
					return layout.Unavailable(err)
				}
				do(sched)
			}
			if len(members) < eachChunk {
				break
			}
			low = "(" + members[len(members)-1]
		}
	}
	return nil
}
