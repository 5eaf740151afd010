package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// gaps are the outcomes of ticks that did not run as they should have, though nothing excluded them.
var gaps = []schedule.Outcome{schedule.Missed, schedule.SkippedOverlap, schedule.Replaced}

// Ledger reads a schedule's records, the newest ticks first. A page can be shorter than limit and not be the last one:
// go on until NextCursor is empty. Errors: CodeScheduleNotFound, CodeInvalid for the cursor.
func (s *Store) Ledger(ctx context.Context, ref task.Ref, f LedgerFilter, limit int, cursor string) (LedgerPage, error) {
	is, _, err := s.ReadSchedule(ctx, ref)
	if err != nil {
		return LedgerPage{}, err
	}
	from, err := parseListCursor(cursor)
	if err != nil {
		return LedgerPage{}, err
	}
	if from == nil && !f.Until.IsZero() {
		from = &entry{score: f.Until.UnixMilli() + 1}
	}
	sets := []lua.ZSetKey{lua.ZSetKey(s.partitionOf(ref).Ledger(ref))}
	page := LedgerPage{KnownFrom: is.KnownFrom}
	for {
		found, more, err := s.readEntries(ctx, sets, from, scanChunk)
		if err != nil {
			return LedgerPage{}, err
		}
		for _, e := range found {
			if !f.Since.IsZero() && e.score < f.Since.UnixMilli() {
				return page, nil
			}
			record, err := decodeEntry(e.member, e.score)
			if err != nil {
				return LedgerPage{}, err
			}
			if f.Gaps && !slices.Contains(gaps, record.Outcome) {
				continue
			}
			if len(page.Entries) == limit {
				page.NextCursor = from.cursor()
				return page, nil
			}
			page.Entries, from = append(page.Entries, record), &e
		}
		if !more {
			return page, nil
		}
		from = &found[len(found)-1]
	}
}

// History reads the revisions of a schedule before the present one, newest first, as far as they are kept.
// Error: CodeUnavailable.
func (s *Store) History(ctx context.Context, ref task.Ref) ([]schedule.Revision, error) {
	entries, err := s.db.LRange(ctx, string(s.partitionOf(ref).History(ref)), 0, -1).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	revisions := make([]schedule.Revision, len(entries))
	for i, e := range entries {
		if revisions[i], err = decodeRevision(ref, e); err != nil {
			return nil, err
		}
	}
	return revisions, nil
}

// KnownFrom reads up to when the ledger of a schedule has forgotten its records; zero: it has forgotten nothing.
// Error: CodeUnavailable.
func (s *Store) KnownFrom(ctx context.Context, ref task.Ref) (time.Time, error) {
	field, err := s.db.HGet(ctx, string(s.partitionOf(ref).Schedule(ref)), "known").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return time.Time{}, unavailable(err)
	}
	return fromMS(number(field)), nil
}

// LedgerEntries reads all records of a schedule from one time until another, both included, oldest first. The zero
// from means the oldest record. Error: CodeUnavailable.
func (s *Store) LedgerEntries(ctx context.Context, ref task.Ref, from, until time.Time) ([]schedule.Entry, error) {
	low := "-inf"
	if !from.IsZero() {
		low = strconv.FormatInt(from.UnixMilli(), 10)
	}
	found, err := s.db.ZRangeByScoreWithScores(ctx, string(s.partitionOf(ref).Ledger(ref)), &redis.ZRangeBy{
		Min: low, Max: strconv.FormatInt(until.UnixMilli(), 10),
	}).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	entries := make([]schedule.Entry, len(found))
	for i, z := range found {
		if entries[i], err = decodeEntry(text(z.Member), int64(z.Score)); err != nil {
			return nil, err
		}
	}
	return entries, nil
}
