package schedules

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// gaps are the outcomes of ticks that did not run although no rule excluded them.
var gaps = []schedule.Outcome{schedule.Missed, schedule.SkippedOverlap, schedule.Replaced}

// Ledger reads a schedule's records, the newest ticks first. A page may have fewer records than limit and not be the last:
// read on until NextCursor is empty. Errors: CodeScheduleNotFound, CodeInvalid for the cursor, CodeUnavailable.
func (s *Schedules) Ledger(ctx context.Context, ref task.Ref, f LedgerFilter, limit int, cursor string) (LedgerPage, error) {
	sched, _, err := s.Read(ctx, ref)
	if err != nil {
		return LedgerPage{}, err
	}
	from, err := layout.ParseCursor(cursor)
	if err != nil {
		return LedgerPage{}, err
	}
	if from == nil && !f.Until.IsZero() {
		from = &layout.Entry{Score: f.Until.UnixMilli() + 1}
	}
	sets := []lua.ZSetKey{lua.ZSetKey(s.l.KeysOf(ref).Ledger(ref))}
	page := LedgerPage{ForgottenUntil: sched.ForgottenUntil}
	for {
		found, more, err := s.l.ReadEntries(ctx, sets, from, layout.ScanChunk)
		if err != nil {
			return LedgerPage{}, err
		}
		for _, e := range found {
			if !f.Since.IsZero() && e.Score < f.Since.UnixMilli() {
				return page, nil
			}
			record, err := codec.DecodeEntry(e.Member, e.Score)
			if err != nil {
				return LedgerPage{}, err
			}
			if f.Gaps && !slices.Contains(gaps, record.Outcome) {
				continue
			}
			if len(page.Entries) == limit {
				page.NextCursor = from.Cursor()
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

// History reads the revisions of a schedule before the present one that are kept, newest first. A schedule that does not
// exist has none. Error: CodeUnavailable.
func (s *Schedules) History(ctx context.Context, ref task.Ref) ([]schedule.Revision, error) {
	entries, err := s.l.DB.LRange(ctx, string(s.l.KeysOf(ref).History(ref)), 0, -1).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	revisions := make([]schedule.Revision, len(entries))
	for i, e := range entries {
		if revisions[i], err = codec.DecodeRevision(ref, e); err != nil {
			return nil, err
		}
	}
	return revisions, nil
}

// ForgottenUntil reads the time up to which the ledger of a schedule has forgotten its records; the zero time if it has
// forgotten none. Error: CodeUnavailable.
func (s *Schedules) ForgottenUntil(ctx context.Context, ref task.Ref) (time.Time, error) {
	field, err := s.l.DB.HGet(ctx, string(s.l.KeysOf(ref).Schedule(ref)), "known").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return time.Time{}, layout.Unavailable(err)
	}
	return codec.FromMS(codec.Number(field)), nil
}

// LedgerEntries reads all records of a schedule whose ticks lie between from and until, both included, oldest first. The
// zero from is the oldest record. Error: CodeUnavailable.
func (s *Schedules) LedgerEntries(ctx context.Context, ref task.Ref, from, until time.Time) ([]schedule.Entry, error) {
	low := "-inf"
	if !from.IsZero() {
		low = strconv.FormatInt(from.UnixMilli(), 10)
	}
	found, err := s.l.DB.ZRangeByScoreWithScores(ctx, string(s.l.KeysOf(ref).Ledger(ref)), &redis.ZRangeBy{
		Min: low, Max: strconv.FormatInt(until.UnixMilli(), 10),
	}).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	entries := make([]schedule.Entry, len(found))
	for i, z := range found {
		if entries[i], err = codec.DecodeEntry(codec.Text(z.Member), int64(z.Score)); err != nil {
			return nil, err
		}
	}
	return entries, nil
}
