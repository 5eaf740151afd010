package minutes

import (
	"cmp"
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

// Close closes minutes, from one on before another one, and reports whether there was one to close. A minute that
// is closed stays as it is. Error: CodeUnavailable; the minutes can be closed again then.
func (m *Minutes) Close(ctx context.Context, from, end time.Time) (closed bool, _ error) {
	all := span(from, end)
	if len(all) == 0 {
		return false, nil
	}
	pipe := m.l.DB.Pipeline()
	rows := m.readRows(ctx, pipe, all)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return false, layout.Unavailable(err)
	}
	pipe = m.l.DB.Pipeline()
	var merged []string
	for _, at := range all {
		if minute, there := m.merge(ctx, at, rows[at].Val()); there {
			pipe.HSetNX(ctx, string(m.keys().Minutes()), field(at), rollup.Encode(minute, rollup.MinuteBytes))
			merged = append(merged, m.rows(at))
		}
	}
	if len(merged) == 0 {
		return false, nil
	}
	if _, err := pipe.Exec(ctx); err != nil { // a Redis that is full refuses the minutes, and would delete the rows
		return true, unavailable(err)
	}
	return true, unavailable(m.l.DB.Del(ctx, merged...).Err())
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
	for hour, fields := range openHours(minutes, hours, end) {
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

// openHours returns the minutes of the hours that are over at end and not closed.
func openHours(minutes, hours []string, end time.Time) map[time.Time][]string {
	open := make(map[time.Time][]string)
	for _, name := range minutes {
		at, ok := timeOf(name)
		hour := at.Truncate(time.Hour)
		if ok && !hour.Add(time.Hour).After(end) && !slices.Contains(hours, field(hour)) {
			open[hour] = append(open[hour], name)
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

// closeHour closes an hour that has those minutes. Error: CodeUnavailable.
func (m *Minutes) closeHour(ctx context.Context, hour time.Time, fields []string) error {
	values, err := m.l.DB.HMGet(ctx, string(m.keys().Minutes()), fields...).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	texts := make(map[string]string, len(fields))
	for i, value := range values {
		if text, ok := value.(string); ok {
			texts[fields[i]] = text
		}
	}
	whole := rollup.Merge(hour, time.Hour, rollup.HourCauses, m.decodeFrom(ctx, texts, hour)...)
	return unavailable(m.l.DB.HSetNX(ctx, string(m.keys().Hours()), field(hour), rollup.Encode(whole,
		rollup.HourBytes)).Err())
}

// decodeFrom reads those of the minutes or hours that are not before a time, oldest first.
func (m *Minutes) decodeFrom(ctx context.Context, texts map[string]string, from time.Time) []rollup.Minute {
	var all []rollup.Minute
	for _, name := range slices.Collect(maps.Keys(texts)) {
		if at, ok := timeOf(name); !ok || at.Before(from) {
			continue
		}
		if minute, err := rollup.Decode([]byte(texts[name])); m.readable(ctx, err) {
			all = append(all, minute)
		}
	}
	slices.SortFunc(all, func(a, b rollup.Minute) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	return all
}
