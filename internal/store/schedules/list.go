package schedules

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/text"
	"github.com/dts-sched/dts/lua"
)

// List reads the schedules of a namespace, sorted by name; "*" is all namespaces. A page may have fewer schedules
// than limit, even none, and not be the last, as one of tasks: read on until NextCursor is empty. Errors: CodeInvalid
// for the cursor, CodeUnavailable.
func (s *Schedules) List(ctx context.Context, f Filter, limit int, cursor string) (Page, error) {
	after, err := layout.ParseNameCursor(layout.ScheduleNames, cursor)
	if err != nil {
		return Page{}, err
	}
	var page Page
	var now time.Time
	var refs []task.Ref
	var more bool
	var portions layout.Portions
	for scan := s.l.NewScan(limit, 0, true); ; {
		names := min(scan.Next(), layout.ScanChunk) // of each partition, as nobody knows where the first ones are
		err := s.l.WithNow(ctx, 0, &now, func() (err error) {
			refs, more, err = s.readRefs(ctx, f, after, names)
			return err
		})
		if err != nil {
			return Page{}, err
		}
		matched, last, err := s.match(ctx, f, now, refs, limit-len(page.Schedules), scan, &portions)
		if err != nil {
			return Page{}, err
		}
		page.Schedules = append(page.Schedules, matched...)
		scan.Read(last)
		if last > 0 {
			after = f.position(refs[last-1])
		}
		if last == len(refs) && !more {
			break
		}
		if len(page.Schedules) == limit || last < len(refs) || portions.Full() || scan.Over() {
			page.NextCursor = layout.NameCursor(layout.ScheduleNames, after)
			break
		}
	}
	return page, s.follow(ctx, page.Schedules, RecentInList, false, now)
}

// match reads schedules and returns those that match the filter, up to limit of them, until the page is full or that
// takes long. last is how many names it went through: one at least, unless there are none.
func (s *Schedules) match(
	ctx context.Context, f Filter, now time.Time, refs []task.Ref, limit int, scan *layout.Scan, portions *layout.Portions,
) (matched []schedule.Schedule, last int, _ error) {
	until := scan.Until()
	for last < len(refs) && (last == 0 || clock.Now().Before(until)) {
		chunk := refs[last:min(len(refs), last+portions.Next(layout.ReadChunk))]
		found, err := s.getEach(ctx, chunk, f.fields())
		if err != nil {
			return nil, 0, err
		}
		for _, one := range found {
			last++
			if one == nil {
				continue
			}
			matches := f.matches(one.Schedule, now)
			portions.Read(one.bytes, matches)
			if !matches {
				continue
			}
			matched = append(matched, one.Schedule)
			if len(matched) == limit || portions.Full() {
				return matched, last, nil
			}
		}
	}
	return matched, last, nil
}

// conditionFields are the fields of a schedule's hash that say in which conditions it is, beside those of the
// schedule.
var conditionFields = []string{"tracked", "succeeded", "missed", "ends"}

// fields are the fields of a schedule's hash that the filter needs.
func (f Filter) fields() []string {
	if f.Condition == "" {
		return codec.ScheduleFields
	}
	return slices.Concat(codec.ScheduleFields, conditionFields)
}

// matches reports whether a schedule with the fields that the filter needs matches it at that time of Redis.
func (f Filter) matches(sched schedule.Schedule, now time.Time) bool {
	for name, value := range f.Labels {
		if got, found := sched.Labels[name]; !found || got != value {
			return false
		}
	}
	return strings.HasPrefix(sched.ID, f.Prefix) && (f.Owner == "" || f.Owner == sched.Owner) &&
		(f.Paused == nil || *f.Paused != sched.PausedAt.IsZero()) &&
		(f.Workflow == "" || f.Workflow == text.WorkflowOf(sched.Task)) &&
		(f.Condition == "" || sched.Has(f.Condition, now, cmp.Or(f.StaleAfter, schedule.StaleAfter)))
}

// position is what a cursor has of the last schedule of a page: its id, or its whole name in a list of all
// namespaces.
func (f Filter) position(ref task.Ref) string {
	if f.Namespace == everyNamespace {
		return ref.String()
	}
	return ref.ID
}

// everyNamespace as the namespace of a list means all of them.
const everyNamespace = "*"

// namesAfter is the range of the names that come after a position: those of a namespace have the prefix of the
// filter.
func (f Filter) namesAfter(after string) (low, high string) {
	switch {
	case f.Namespace != everyNamespace && f.Prefix == "":
		return "(" + f.Namespace + ":" + after, "(" + f.Namespace + ";"
	case f.Namespace != everyNamespace && after < f.Prefix:
		return "[" + f.Namespace + ":" + f.Prefix, "(" + f.Namespace + ":" + f.Prefix + "\xff"
	case f.Namespace != everyNamespace:
		return "(" + f.Namespace + ":" + after, "(" + f.Namespace + ":" + f.Prefix + "\xff"
	case after == "":
		return "-", "+"
	}
	return "(" + after, "+"
}

// readRefs reads the names of up to limit schedules of a namespace that come after a position, over all partitions,
// sorted by name. more is false if no names follow.
func (s *Schedules) readRefs(
	ctx context.Context, f Filter, after string, limit int,
) (_ []task.Ref, more bool, _ error) {
	pipe := s.l.DB.Pipeline()
	found := make([]interface{ Val() []string }, s.l.Partitions())
	misplaced := make([]func(), s.l.Partitions())
	low, high := f.namesAfter(after)
	for p := range found {
		by := &redis.ZRangeBy{Min: low, Max: high, Count: int64(limit)}
		found[p] = pipe.ZRangeByLex(ctx, string(s.l.Keys.Partition(p).Schedules()), by)
		misplaced[p] = s.lookForMisplaced(ctx, pipe, p)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, false, layout.Unavailable(err)
	}
	var refs []task.Ref
	for p, members := range found {
		misplaced[p]()
		more = more || len(members.Val()) == limit
		refs = append(refs, layout.RefsOf(members.Val())...)
	}
	slices.SortFunc(refs, func(a, b task.Ref) int { return cmp.Compare(a.String(), b.String()) })
	if len(refs) > limit {
		return refs[:limit], true, nil
	}
	return refs, more, nil
}

// Named returns the names of up to limit schedules of some namespaces whose ids begin with a prefix, sorted. Error:
// CodeUnavailable.
func (s *Schedules) Named(ctx context.Context, namespaces []string, prefix string, limit int) ([]task.Ref, error) {
	set := func(p int) string { return string(s.l.Keys.Partition(p).Schedules()) }
	return s.l.Named(ctx, set, namespaces, prefix, limit)
}

// lookForMisplaced reads, under redisx.LeavingOut, whether a set of schedules has a member with another score than 0,
// as somebody has written it. Then Redis does not find all members by name. note says so once the pipeline was sent.
func (s *Schedules) lookForMisplaced(ctx context.Context, pipe redis.Pipeliner, p int) (note func()) {
	if !redisx.LeavesOut(ctx) {
		return func() {}
	}
	key := string(s.l.Keys.Partition(p).Schedules())
	first, last := pipe.ZRangeWithScores(ctx, key, 0, 0), pipe.ZRangeWithScores(ctx, key, -1, -1)
	return func() {
		for _, z := range slices.Concat(first.Val(), last.Val()) {
			if z.Score != 0 {
				redisx.LeaveOut(ctx, "%s has a member with the score %g, so that others may not be found", key, z.Score)
			}
		}
	}
}

// stored is a schedule with the size in bytes of what Redis keeps of it.
type stored struct {
	schedule.Schedule
	bytes int
}

// getEach reads many schedules in one round trip, without their counts, from those fields of their hashes. Schedules
// that do not exist or cannot be read are nil, which redisx.LeavingOut notes of the latter.
func (s *Schedules) getEach(ctx context.Context, refs []task.Ref, fields []string) ([]*stored, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	found := make([]*redis.SliceCmd, len(refs))
	for i, ref := range refs {
		found[i] = pipe.HMGet(ctx, string(s.l.KeysOf(ref).Schedule(ref)), fields...)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	all := make([]*stored, len(refs))
	var absent []task.Ref
	for i, values := range found {
		h := valuesOf(fields, values.Val())
		if len(h) == 0 {
			absent = append(absent, refs[i])
			continue
		}
		sched, err := decode(refs[i], h)
		if err != nil {
			redisx.LeaveOut(ctx, "%v", err)
			s.l.Log.ErrorContext(ctx, "skipping unreadable schedule", "schedule", refs[i].String(), "error", err)
			continue
		}
		sched.Track, _ = codec.DecodeTrack(h)
		all[i] = &stored{Schedule: sched}
		for _, value := range h {
			all[i].bytes += len(value)
		}
	}
	return all, s.noteLost(ctx, absent)
}

// noteLost notes, under redisx.LeavingOut, those of some listed schedules that have lost their definitions. Those
// that were deleted meanwhile are listed no more. Error: CodeUnavailable.
func (s *Schedules) noteLost(ctx context.Context, refs []task.Ref) error {
	if !redisx.LeavesOut(ctx) {
		return nil
	}
	of := make(map[int][]task.Ref)
	for _, ref := range refs {
		p := s.l.PartitionOf(ref)
		of[p] = append(of[p], ref)
	}
	for _, p := range slices.Sorted(maps.Keys(of)) {
		if err := s.noteLostIn(ctx, s.l.Keys.Partition(p), of[p]); err != nil {
			return err
		}
	}
	return nil
}

// noteLostIn is noteLost for schedules of one partition, as a transaction has keys of one server.
func (s *Schedules) noteLostIn(ctx context.Context, k lua.Partition, refs []task.Ref) error {
	pipe := s.l.DB.ReadTogether() // one moment: a schedule may be created or deleted at any time
	exist, listed := make([]*redis.IntCmd, len(refs)), make([]*redis.FloatCmd, len(refs))
	for i, ref := range refs {
		exist[i] = pipe.Exists(ctx, string(k.Schedule(ref)))
		listed[i] = pipe.ZScore(ctx, string(k.Schedules()), ref.String())
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	for i, ref := range refs {
		if exist[i].Val() == 0 && listed[i].Err() == nil { // the error of one that is not listed is redis.Nil
			redisx.LeaveOut(ctx, "schedule %s has lost its definition", ref)
		}
	}
	return nil
}

// eachChunk is how many names of schedules Each reads in one round trip.
const eachChunk = 500

// Each calls do with every schedule of a namespace, without its counts, partition by partition, sorted by name in
// each. The namespace "*" is all namespaces. Error: CodeUnavailable; context.Canceled or CodeUnavailable if ctx ends.
func (s *Schedules) Each(ctx context.Context, namespace string, do func(schedule.Schedule)) error {
	return s.each(ctx, namespace, codec.ScheduleFields, do)
}

// EachTracked is Each for schedules with their newest ends, and when a tick was missed last.
func (s *Schedules) EachTracked(ctx context.Context, namespace string, do func(schedule.Schedule)) error {
	return s.each(ctx, namespace, slices.Concat(codec.ScheduleFields, conditionFields), do)
}

// each is Each for schedules with some fields of their hashes.
func (s *Schedules) each(ctx context.Context, namespace string, fields []string, do func(schedule.Schedule)) error {
	pipe, misplaced := s.l.DB.Pipeline(), make([]func(), s.l.Partitions())
	for p := range misplaced {
		misplaced[p] = s.lookForMisplaced(ctx, pipe, p)
	}
	if pipe.Len() > 0 {
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return layout.Unavailable(err)
		}
	}
	for p := range s.l.Partitions() {
		misplaced[p]()
		low, high := Filter{Namespace: namespace}.namesAfter("")
		for {
			page := &redis.ZRangeBy{Min: low, Max: high, Count: eachChunk}
			members, err := s.l.DB.ZRangeByLex(ctx, string(s.l.Keys.Partition(p).Schedules()), page).Result()
			if redisx.LeaveOutKey(ctx, string(s.l.Keys.Partition(p).Schedules()), err) || redisx.IsPassedOver(err) {
				break
			}
			if err != nil {
				return layout.Unavailable(err)
			}
			if err := s.readEach(ctx, layout.RefsOf(members), fields, do); err != nil {
				return err
			}
			if len(members) < eachChunk {
				break
			}
			low = "(" + members[len(members)-1]
		}
	}
	return nil
}

// readEach calls do with schedules. It reads few of them at once if they are large.
func (s *Schedules) readEach(
	ctx context.Context, refs []task.Ref, fields []string, do func(schedule.Schedule),
) error {
	var portions layout.Portions
	for len(refs) > 0 {
		n := portions.Next(len(refs))
		found, err := s.getEach(ctx, refs[:n], fields)
		if err != nil {
			return err
		}
		for _, one := range found {
			if err := ctx.Err(); err != nil {
				return layout.Unavailable(err)
			}
			if one != nil {
				portions.Read(one.bytes, true)
				do(one.Schedule)
			}
		}
		refs = refs[n:]
	}
	return nil
}
