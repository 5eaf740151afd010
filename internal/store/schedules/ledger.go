package schedules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// gaps are the outcomes of ticks that did not run although no rule excluded them.
var gaps = []schedule.Outcome{schedule.Missed, schedule.SkippedOverlap, schedule.Replaced}

// Ledger reads a schedule's records, the newest ticks first. A page may have fewer records than limit and not be the last:
// read on until NextCursor is empty. Records that cannot be read are left out under any context, and redisx.LeavingOut
// notes them.
// Errors: schedule.CodeNotFound, CodeInvalid for the cursor, CodeUnavailable.
func (s *Schedules) Ledger(ctx context.Context, ref task.Ref, f LedgerFilter, limit int, cursor string) (LedgerPage, error) {
	sched, _, err := s.Read(ctx, ref)
	if err != nil {
		return LedgerPage{}, err
	}
	from, err := layout.ParseCursor(layout.LedgerEntries, cursor)
	if err != nil {
		return LedgerPage{}, err
	}
	if from == nil && !f.Until.IsZero() {
		from = &layout.Entry{Score: float64(f.Until.UnixMilli() + 1)}
	}
	page := LedgerPage{ForgottenUntil: sched.ForgottenUntil}
	for {
		found, last, err := s.entriesAfter(ctx, ref, from, f.membersFor(limit))
		if err != nil {
			return LedgerPage{}, err
		}
		for _, e := range found {
			if !f.Since.IsZero() && e.Tick.UnixMilli() < f.Since.UnixMilli() {
				return page, nil
			}
			if !f.wants(e) {
				continue
			}
			if len(page.Entries) == limit {
				page.NextCursor = from.Cursor(layout.LedgerEntries)
				return page, nil
			}
			page.Entries, from = append(page.Entries, e), positionOf(e)
		}
		if last == nil {
			return page, nil
		}
		from = last
	}
}

// wants reports whether a page has that entry, as far as that does not depend on its time.
func (f LedgerFilter) wants(e schedule.Entry) bool {
	return (!f.Gaps || slices.Contains(gaps, e.Outcome)) && (!f.HasTask || e.HasTask)
}

// membersFor is how many members of a ledger are read at once for a page with limit entries, and one that says that more
// follow.
func (f LedgerFilter) membersFor(limit int) int {
	if f.Gaps || f.HasTask {
		return layout.ScanChunk
	}
	return min(limit+1, layout.ScanChunk)
}

// entriesAfter reads the entries of up to n members of a ledger that come after from, newest first; from nil is the start.
// last is the position of the last one, or nil if no entries follow. Error: CodeUnavailable.
func (s *Schedules) entriesAfter(ctx context.Context, ref task.Ref, from *layout.Entry, n int) (entries []schedule.Entry, last *layout.Entry, _ error) {
	ledger := [][]lua.ZSetKey{{lua.ZSetKey(s.l.KeysOf(ref).Ledger(ref))}}
	members, more, err := s.l.ReadEntries(ctx, ledger, from, n)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range members {
		packed, err := codec.DecodeLedger(m.Member, int64(m.Score))
		if err != nil { // doctor names it
			redisx.LeaveOut(ctx, "schedule %s: %v", ref, err)
			last = &m
			continue
		}
		last = positionOf(packed[0])
		for _, e := range slices.Backward(packed) {
			if from == nil || comesAfter(e, *from) { // from may be in the middle of a chunk
				entries = append(entries, e)
			}
		}
	}
	if !more {
		last = nil
	}
	return entries, last, nil
}

// comesAfter reports whether an entry comes after a position in the order of pages.
func comesAfter(e schedule.Entry, from layout.Entry) bool {
	tick := float64(e.Tick.UnixMilli())
	return tick < from.Score || tick == from.Score && codec.EncodeEntry(e) < from.Member
}

// positionOf is the position of an entry in the order of pages: that of the record of one tick, even if it is in a chunk. A
// chunk that begins at this tick is not after it, since its text is greater than the name of a tick.
func positionOf(e schedule.Entry) *layout.Entry {
	return &layout.Entry{Score: float64(e.Tick.UnixMilli()), Member: codec.EncodeEntry(e)}
}

// History reads the revisions of a schedule before the present one that are kept, newest first. A schedule that does not
// exist has none. Those that cannot be read are left out under any context, and redisx.LeavingOut notes them: they are
// holes of a timeline, as revisions have consecutive numbers. Errors: CodeUnavailable; CodeUnreadable for the whole.
func (s *Schedules) History(ctx context.Context, ref task.Ref) ([]schedule.Revision, error) {
	entries, err := s.l.DB.LRange(ctx, string(s.l.KeysOf(ref).History(ref)), 0, -1).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	revisions := make([]schedule.Revision, 0, len(entries))
	for _, e := range entries {
		revision, err := codec.DecodeRevision(ref, e)
		if err == nil {
			revisions = append(revisions, revision)
		} else {
			redisx.LeaveOut(ctx, "%v", err)
		}
	}
	return revisions, nil
}

// HistoryPage reads the revisions of a schedule, whose present one is given, that come before another one, newest first. more is false if
// no revisions follow. Those that cannot be read are left out under any context, and redisx.LeavingOut notes them. Under
// it, the page of a key of the wrong type is empty. Error: CodeUnavailable.
func (s *Schedules) HistoryPage(ctx context.Context, ref task.Ref, present, before int) (page []schedule.Revision, more bool, _ error) {
	key := string(s.l.KeysOf(ref).History(ref))
	i, err := s.indexBefore(ctx, ref, max(0, present-before), before)
	switch {
	case redisx.LeaveOutKey(ctx, key, err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	var portions layout.Portions
	for {
		n := portions.Next(layout.ReadChunk)
		entries, err := s.l.DB.LRange(ctx, key, int64(i), int64(i+n-1)).Result()
		switch {
		case redisx.LeaveOutKey(ctx, key, err):
			return nil, false, nil
		case err != nil:
			return nil, false, layout.Unavailable(err)
		}
		for _, e := range entries {
			revision, err := codec.DecodeRevision(ref, e)
			if err != nil {
				redisx.LeaveOut(ctx, "%v", err)
				continue
			}
			if revision.Number >= before { // the schedule was changed meanwhile
				continue
			}
			if portions.Full() {
				return page, true, nil
			}
			page = append(page, revision)
			portions.Read(len(e), true)
			before = revision.Number
		}
		if len(entries) < n {
			return page, false, nil
		}
		i += n
	}
}

// indexBefore returns the index in a history of the newest revision before another one. It is i, as the newest revision is the one before the
// present one and there are no gaps; and less, if doctor has put some aside. Error: CodeUnavailable.
func (s *Schedules) indexBefore(ctx context.Context, ref task.Ref, i, before int) (int, error) {
	if i == 0 {
		return 0, nil
	}
	key := string(s.l.KeysOf(ref).History(ref))
	kept, err := s.l.DB.LLen(ctx, key).Result()
	if err != nil {
		return 0, layout.Unavailable(err)
	}
	for i = min(i, int(kept)); i > 0; i-- {
		entry, err := s.l.DB.LIndex(ctx, key, int64(i-1)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, layout.Unavailable(err)
		}
		if revision, err := codec.DecodeRevision(ref, entry); err == nil && revision.Number >= before {
			break
		}
	}
	return i, nil
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
// zero from is the oldest record. Those that cannot be read are left out under any context, and redisx.LeavingOut notes
// them: an audit has gaps there. Error: CodeUnavailable.
func (s *Schedules) LedgerEntries(ctx context.Context, ref task.Ref, from, until time.Time) ([]schedule.Entry, error) {
	key := string(s.l.KeysOf(ref).Ledger(ref))
	low, high := int64(math.MinInt64), until.UnixMilli()
	if !from.IsZero() {
		low = from.UnixMilli()
	}
	pipe := s.l.DB.ReadTogether() // one moment: a chunk may be split at any time
	before := pipe.ZRevRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: fmt.Sprintf("(%d", low), Count: 1})
	within := pipe.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: strconv.FormatInt(low, 10), Max: strconv.FormatInt(high, 10)})
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, layout.Unavailable(err)
	}
	entries := make([]schedule.Entry, 0, len(within.Val()))
	for _, z := range slices.Concat(before.Val(), within.Val()) { // the member before may be a chunk that reaches into the range
		packed, err := codec.DecodeLedger(codec.Text(z.Member), int64(z.Score))
		if err != nil {
			redisx.LeaveOut(ctx, "schedule %s: %v", ref, err)
			continue
		}
		for _, e := range packed {
			if tick := e.Tick.UnixMilli(); low <= tick && tick <= high {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}
