package store

import (
	"cmp"
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
	is, _, err := s.existing(ctx, ref)
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

// History reads the revisions of a schedule that are remembered, the newest first. Error: CodeScheduleNotFound.
func (s *Store) History(ctx context.Context, ref task.Ref) ([]schedule.Revision, error) {
	is, _, err := s.existing(ctx, ref)
	if err != nil {
		return nil, err
	}
	older, err := s.older(ctx, ref)
	present := schedule.Revision{
		Number: is.Revision, Definition: is.Definition, Span: schedule.Span{From: is.UpdatedAt, Until: is.EndedAt},
	}
	return append([]schedule.Revision{present}, older...), err
}

// older reads the revisions before the present one, the newest first.
func (s *Store) older(ctx context.Context, ref task.Ref) ([]schedule.Revision, error) {
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

// line is the timetables that decided and decide about the schedule's ticks.
func (s *Store) line(ctx context.Context, is schedule.Schedule) (schedule.Timeline, error) {
	older, err := s.older(ctx, is.Ref)
	if err != nil {
		return nil, err
	}
	return schedule.Line(is, older)
}

// Rollback makes an earlier revision's definition the present one again; it becomes a revision of its own. Errors:
// CodeScheduleNotFound, CodeRevisionNotFound, CodeScheduleChanged, CodeInvalid.
func (s *Store) Rollback(ctx context.Context, ref task.Ref, revision, ifMatch int) (Put, error) {
	history, err := s.History(ctx, ref)
	if err != nil {
		return Put{}, err
	}
	for _, r := range history {
		if r.Number == revision {
			return s.PutSchedule(ctx, r.Definition, PutOptions{IfMatch: cmp.Or(ifMatch, history[0].Number)})
		}
	}
	return Put{}, task.Errorf(task.CodeRevisionNotFound, "schedule %q does not remember a revision %d; it remembers %d to %d",
		ref.ID, revision, history[len(history)-1].Number, history[0].Number)
}

// Audit compares the ticks that the schedule's definitions name from from to until (both included; zero: all that can
// be said) with its ledger. Errors: CodeScheduleNotFound; CodeInvalid for a range of too many ticks.
func (s *Store) Audit(ctx context.Context, ref task.Ref, from, until time.Time) (schedule.Report, error) {
	is, now, err := s.existing(ctx, ref)
	if err != nil {
		return schedule.Report{}, err
	}
	line, err := s.line(ctx, is)
	if err != nil {
		return schedule.Report{}, err
	}
	if until.IsZero() || until.After(now) {
		until = now
	}
	entries, err := s.entries(ctx, ref, from, until)
	if err != nil {
		return schedule.Report{}, err
	}
	if from.After(until) {
		return schedule.Report{}, task.Invalid("from", "is after the end of the range, %s", until.Format(time.RFC3339))
	}
	known, err := s.knownFrom(ctx, is, line) // after the records were read, lest some were forgotten in between
	if err != nil {
		return schedule.Report{}, err
	}
	asked := from
	if from.Before(is.CreatedAt) { // there was nothing
		from = is.CreatedAt
	}
	if asked.IsZero() && !known.Before(from) {
		from = known.Add(time.Millisecond)
	}
	report, more := schedule.Check(schedule.Evidence{
		Timeline: line, Entries: entries, From: from, Until: until, Cursor: is.Cursor, Now: now, KnownFrom: known, Paused: !is.PausedAt.IsZero(),
	})
	if more {
		return report, task.Invalid("to", "there are more than %d ticks from %s on: ask for a shorter range", schedule.AuditLimit, from.Format(time.RFC3339))
	}
	if asked.IsZero() && !known.IsZero() { // the range was made to fit, but people shall know
		report.ForgottenUntil = known
	}
	return report, nil
}

// knownFrom is up to when the ledger, or the history, has forgotten what was.
func (s *Store) knownFrom(ctx context.Context, is schedule.Schedule, line schedule.Timeline) (time.Time, error) {
	field, err := s.db.HGet(ctx, string(s.partitionOf(is.Ref).Schedule(is.Ref)), "known").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return time.Time{}, unavailable(err)
	}
	known := fromMS(number(field))
	if first := line[0].From; first.After(is.CreatedAt) && first.After(known) {
		known = first
	}
	return known, nil
}

// entries reads a schedule's records of a time, both ends included.
func (s *Store) entries(ctx context.Context, ref task.Ref, from, until time.Time) ([]schedule.Entry, error) {
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
