package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// ListSchedules reads the schedules of a namespace, by name. A page can be shorter than limit, even empty, and not be
// the last one: go on until NextCursor is empty. Error: CodeInvalid for the cursor.
func (s *Store) ListSchedules(ctx context.Context, f ScheduleFilter, limit int, cursor string) (SchedulePage, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return SchedulePage{}, task.Invalid("cursor", "is not a cursor that a list has given out")
	}
	after := string(raw)
	var page SchedulePage
	for seen := 0; ; {
		refs, more, err := s.scheduleRefs(ctx, f.Namespace, after, limit)
		if err != nil {
			return SchedulePage{}, err
		}
		found, err := s.getSchedules(ctx, refs)
		if err != nil {
			return SchedulePage{}, err
		}
		for _, is := range found {
			if f.matches(is) && len(page.Schedules) < limit {
				page.Schedules, after = append(page.Schedules, is), is.ID
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
		if full || seen >= scanBudget {
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(after))
			break
		}
	}
	page.Schedules, err = s.countEach(ctx, page.Schedules)
	return page, err
}

func (f ScheduleFilter) matches(is schedule.Schedule) bool {
	for name, value := range f.Labels {
		if is.Labels[name] != value {
			return false
		}
	}
	return (f.Owner == "" || f.Owner == is.Owner) && (f.Paused == nil || *f.Paused != is.PausedAt.IsZero())
}

// scheduleRefs reads the names of up to limit schedules of a namespace that come after one, over all partitions. more
// says whether there may be others behind them.
func (s *Store) scheduleRefs(ctx context.Context, namespace, after string, limit int) (_ []task.Ref, more bool, _ error) {
	pipe := s.db.Pipeline()
	found := make([]interface{ Val() []string }, s.partitions)
	for p := range found {
		by := &redis.ZRangeBy{Min: "(" + namespace + ":" + after, Max: "(" + namespace + ";", Count: int64(limit)}
		found[p] = pipe.ZRangeByLex(ctx, string(s.keys.Partition(p).Schedules()), by)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, false, unavailable(err)
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

// parseRefs reads members of the set of schedules; what is no name of one is left out.
func parseRefs(members []string) []task.Ref {
	refs := make([]task.Ref, 0, len(members))
	for _, m := range members {
		if ref, err := task.ParseRef(m); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// getSchedules reads many schedules in one round trip, without their counts; those that are gone or cannot be read are
// left out.
func (s *Store) getSchedules(ctx context.Context, refs []task.Ref) ([]schedule.Schedule, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.db.Pipeline()
	found := make([]interface{ Val() map[string]string }, len(refs))
	for i, ref := range refs {
		found[i] = pipe.HGetAll(ctx, string(s.partitionOf(ref).Schedule(ref)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable(err)
	}
	all := make([]schedule.Schedule, 0, len(refs))
	for i, h := range found {
		if len(h.Val()) == 0 {
			continue
		}
		is, err := decodeSchedule(refs[i], h.Val())
		if err != nil {
			s.log.ErrorContext(ctx, "passing over a schedule", "schedule", refs[i].String(), "error", err)
			continue
		}
		all = append(all, is)
	}
	return all, nil
}

// forecastPage is how many schedules a forecast reads at once.
const forecastPage = 500

// Forecast counts the coming ticks of all schedules of a namespace ("*": of every one), minute by minute. Paused ones
// do not count.
func (s *Store) Forecast(ctx context.Context, namespace string, hours int) (schedule.Forecast, error) {
	now, err := s.db.Time(ctx).Result()
	if err != nil {
		return schedule.Forecast{}, unavailable(err)
	}
	f := schedule.NewForecast(now.UTC().Truncate(time.Minute), hours*60)
	err = s.eachSchedule(ctx, namespace, func(is schedule.Schedule) {
		if !is.PausedAt.IsZero() || !is.EndedAt.IsZero() {
			return
		}
		if table, err := schedule.Compile(is.Spec, is.Ref, is.CreatedAt); err == nil {
			f.Add(is.Ref, table, now)
		}
	})
	if err != nil {
		return schedule.Forecast{}, err
	}
	return f.Forecast(), nil
}

// eachSchedule reads all schedules of a namespace, "*" for every one, partition by partition.
func (s *Store) eachSchedule(ctx context.Context, namespace string, do func(schedule.Schedule)) error {
	for p := range s.partitions {
		low, high := "-", "+"
		if namespace != "*" {
			low, high = "["+namespace+":", "("+namespace+";"
		}
		for {
			members, err := s.db.ZRangeByLex(ctx, string(s.keys.Partition(p).Schedules()), &redis.ZRangeBy{Min: low, Max: high, Count: forecastPage}).Result()
			if err != nil {
				return unavailable(err)
			}
			found, err := s.getSchedules(ctx, parseRefs(members))
			if err != nil {
				return err
			}
			for _, is := range found {
				if err := ctx.Err(); err != nil {
					return unavailable(err)
				}
				do(is)
			}
			if len(members) < forecastPage {
				break
			}
			low = "(" + members[len(members)-1]
		}
	}
	return nil
}

// Next is the ticks after a time (zero: now, or the last one that was decided) and the coming change of the clocks.
// Error: CodeScheduleNotFound.
func (s *Store) Next(ctx context.Context, ref task.Ref, after time.Time, count int) (schedule.Preview, error) {
	is, now, err := s.existing(ctx, ref)
	if err != nil {
		return schedule.Preview{}, err
	}
	table, err := schedule.Compile(is.Spec, ref, is.CreatedAt)
	if err != nil {
		return schedule.Preview{}, err
	}
	if after.IsZero() {
		after = now
	}
	preview := table.Preview(after, count)
	if !is.EndedAt.IsZero() {
		preview.Ticks, preview.Transition = nil, nil
	}
	if is.MaxRuns > 0 {
		preview.Ticks = upToRuns(preview.Ticks, is.MaxRuns-is.Runs)
	}
	return preview, nil
}

// upToRuns is the ticks up to the one with which a schedule has run so often.
func upToRuns(ticks []schedule.Upcoming, runs int) []schedule.Upcoming {
	for i, t := range ticks {
		if runs <= 0 {
			return ticks[:i]
		}
		if !t.Excluded {
			runs--
		}
	}
	return ticks
}
