package minutes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/layout"
)

// Closable returns the minutes that are to be closed at a time: from one on, as far as their rows are kept, those
// that ended long enough ago.
func Closable(from, now time.Time) (first, end time.Time) {
	end = now.Add(-closeAfter).Truncate(rollup.Span).UTC()
	first = end.Add(-rowsKept + 2*rollup.Span)
	if from.After(first) {
		first = from
	}
	return first, end
}

// Close closes minutes, from one on before another one. It reports whether there was one to close, and until where
// minutes are closed: end, or the first minute that it leaves to a newer release, which can read all of its rows. A
// minute that is closed stays as it is. Error: CodeUnavailable; the minutes can be closed again then.
func (m *Minutes) Close(ctx context.Context, from, end time.Time) (closed bool, until time.Time, _ error) {
	all := span(from, end)
	if len(all) == 0 {
		return false, end, nil
	}
	pipe := m.l.DB.Pipeline()
	rows := m.readRows(ctx, pipe, all)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return false, from, layout.Unavailable(err)
	}
	pipe = m.l.DB.Pipeline()
	until = end
	var merged []string
	for _, at := range all {
		parts, newer := m.decode(ctx, maps.Values(rows[at].Val()))
		switch {
		case newer && at.Before(until):
			until = at
		case !newer && len(parts) > 0:
			pipe.HSetNX(ctx, string(m.keys().Minutes()), field(at), rollup.Encode(merge(at, parts), rollup.MinuteBytes))
			merged = append(merged, m.rows(at))
		}
	}
	if len(merged) == 0 {
		return false, until, nil
	}
	if _, err := pipe.Exec(ctx); err != nil { // a Redis that is full refuses the minutes, and would delete the rows
		return true, from, unavailable(err)
	}
	return true, until, unavailable(m.l.DB.Del(ctx, merged...).Err())
}

// CloseHours closes the hours of which all minutes are closed, as those before end are, and then deletes minutes
// and hours beyond those that are kept, or from before a jump of Redis's clock, at the time now. Error:
// CodeUnavailable; it can be repeated then.
func (m *Minutes) CloseHours(ctx context.Context, end, now time.Time) error {
	pipe := m.l.DB.Pipeline()
	minuteNames, hourNames := pipe.HKeys(ctx, string(m.keys().Minutes())), pipe.HKeys(ctx, string(m.keys().Hours()))
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	minutes, hours := minuteNames.Val(), hourNames.Val()
	for hour, fields := range openHours(minutes, hours, end, now) {
		if err := m.closeHour(ctx, hour, fields); err != nil {
			return err
		}
	}
	pipe = m.l.DB.Pipeline()
	if old := outdated(minutes, now, rollup.MinutesKept); len(old) > 0 {
		pipe.HDel(ctx, string(m.keys().Minutes()), old...)
	}
	if old := outdated(hours, now, rollup.HoursKept); len(old) > 0 {
		pipe.HDel(ctx, string(m.keys().Hours()), old...)
	}
	if pipe.Len() == 0 {
		return nil
	}
	_, err := pipe.Exec(ctx)
	return unavailable(err)
}

// openHours returns the minutes of the hours that are over at end and not closed, if these are among the hours that are
// kept. In an idle installation, minutes are kept for longer than hours.
func openHours(minutes, hours []string, end, now time.Time) map[time.Time][]string {
	open := make(map[time.Time][]string)
	all := slices.Clone(hours)
	for _, name := range minutes {
		at, ok := timeOf(name)
		hour := at.Truncate(time.Hour)
		if ok && !hour.Add(time.Hour).After(end) && !slices.Contains(hours, field(hour)) {
			if open[hour] == nil {
				all = append(all, field(hour))
			}
			open[hour] = append(open[hour], name)
		}
	}
	for _, name := range outdated(all, now, rollup.HoursKept) {
		if at, ok := timeOf(name); ok {
			delete(open, at)
		}
	}
	return open
}

// outdated returns the names of all times but the newest, and of those that lie ahead, or are none. Age alone deletes
// nothing: the clock may have jumped ahead for a moment.
func outdated(names []string, now time.Time, kept int) []string {
	var good, old []string
	for _, name := range names {
		if at, ok := timeOf(name); ok && at.Sub(now) <= ahead {
			good = append(good, name)
		} else {
			old = append(old, name)
		}
	}
	slices.SortFunc(good, func(a, b string) int {
		later, _ := timeOf(b)
		earlier, _ := timeOf(a)
		return later.Compare(earlier)
	})
	return append(old, good[min(kept, len(good)):]...)
}

// closeHour closes an hour that has those minutes, unless a newer release has written one of them. Error:
// CodeUnavailable.
func (m *Minutes) closeHour(ctx context.Context, hour time.Time, fields []string) error {
	values, err := m.l.DB.HMGet(ctx, string(m.keys().Minutes()), fields...).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	var texts []string
	for _, value := range values {
		if text, ok := value.(string); ok {
			texts = append(texts, text)
		}
	}
	parts, newer := m.decode(ctx, slices.Values(texts))
	if newer {
		return nil
	}
	whole := rollup.Merge(hour, time.Hour, rollup.HourCauses, parts...)
	return unavailable(m.l.DB.HSetNX(ctx, string(m.keys().Hours()), field(hour), rollup.Encode(whole,
		rollup.HourBytes)).Err())
}
