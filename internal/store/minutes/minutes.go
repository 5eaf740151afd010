// Package minutes keeps in Redis what nodes have counted, by minute and by hour. All of it is in partition 0, and
// nothing there adds to what is stored: each write says all that is known, so that it can be repeated.
//
//	each node, every 2 s             its row of the minute, in a hash for each minute
//	the leader of partition 0,       what waited and ran at the end of a minute, in the same hash
//	once a minute                    the minutes that ended a minute ago, of all rows: into one hash, unless they are
//	                                 there; then it deletes the rows
//	                                 the hours that are over, of their minutes, in the same way
//
// Two leaders that do it at the same time read the same rows, and the first write holds. A leader leaves a minute open
// if it cannot read all rows, and an hour if it cannot read all minutes: a newer release has written them, and closes
// them when it leads. Rows expire after a little more than an hour.
package minutes

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/lua"
)

const (
	// closeAfter is how long after its end a minute is closed: nodes have written their rows by then, and stopped.
	closeAfter = rollup.Span
	// rowsKept is how long rows are kept if no leader closes their minute.
	rowsKept = rollup.MinutesKept * rollup.Span
	// openMinutes is how many of the newest minutes usually have rows: the present one, and those that are not closed yet.
	openMinutes = 4
	// ahead is how far beyond the present time a minute may be: the clocks of nodes differ a little. Others are from
	// before a jump of Redis's clock.
	ahead = 5 * time.Minute
)

// sample is the field with what the leader has seen at the end of a minute. It is no id of a node.
const sample = rollup.Rest

// Minutes are the minutes and hours of one installation.
type Minutes struct {
	l          *layout.Layout
	unreadable sync.Once // logs that there is something that this release cannot read
}

// New returns the minutes of an installation.
func New(l *layout.Layout) *Minutes { return &Minutes{l: l} }

func (m *Minutes) keys() lua.Partition { return m.l.Keys.Partition(0) }

// rows is the key of the rows of a minute.
func (m *Minutes) rows(at time.Time) string { return string(m.keys().Minute(field(at))) }

// field is the name of a minute or an hour.
func field(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// timeOf reads a field; ok is false if it is none.
func timeOf(field string) (_ time.Time, ok bool) {
	ms, err := strconv.ParseInt(field, 10, 64)
	return time.UnixMilli(ms).UTC(), err == nil
}

// Write writes rows of a node. Error: CodeUnavailable; some may be written then.
func (m *Minutes) Write(ctx context.Context, node string, rows []rollup.Row) error {
	pipe := m.l.DB.Pipeline()
	for _, r := range rows {
		pipe.HSet(ctx, m.rows(r.Minute.At), node, rollup.Encode(r.Minute, rollup.MinuteBytes))
		pipe.PExpire(ctx, m.rows(r.Minute.At), rowsKept)
	}
	_, err := pipe.Exec(ctx)
	return unavailable(err)
}

// WriteSample writes what waited and ran at the end of a minute, unless that is known. Error: CodeUnavailable.
func (m *Minutes) WriteSample(ctx context.Context, seen rollup.Minute) error {
	pipe := m.l.DB.Pipeline()
	pipe.HSetNX(ctx, m.rows(seen.At), sample, rollup.Encode(seen, rollup.MinuteBytes))
	pipe.PExpire(ctx, m.rows(seen.At), rowsKept)
	_, err := pipe.Exec(ctx)
	return unavailable(err)
}

// Read returns the minutes from one on until now, oldest first. Those in which nothing happened are missing. What
// cannot be read is left out. It takes two round trips. Error: CodeUnavailable.
func (m *Minutes) Read(ctx context.Context, from, now time.Time) ([]rollup.Minute, error) {
	all := span(from, now.Add(time.Nanosecond))
	fields := make([]string, len(all))
	for i, at := range all {
		fields[i] = field(at)
	}
	open := all[max(len(all)-openMinutes, 0):]
	pipe := m.l.DB.TxPipeline() // a minute is either closed or open
	rows := m.readRows(ctx, pipe, open)
	closed := pipe.HMGet(ctx, string(m.keys().Minutes()), fields...)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	if err := closed.Err(); redisx.IsPassedOver(err) { // all minutes are on that server
		return nil, layout.Unavailable(err)
	}
	found := make(map[time.Time]rollup.Minute, len(all))
	for i, value := range closed.Val() {
		if text, ok := value.(string); ok {
			if minute, _ := m.decode(ctx, slices.Values([]string{text})); len(minute) > 0 {
				found[all[i]] = minute[0]
			}
		}
	}
	m.addRows(ctx, found, rows)
	if err := m.readUnclosed(ctx, found, all[:len(all)-len(open)]); err != nil {
		return nil, err
	}
	var minutes []rollup.Minute
	for _, at := range all {
		if minute, known := found[at]; known {
			minutes = append(minutes, minute)
		}
	}
	return minutes, nil
}

// readUnclosed adds minutes that nobody has closed in time. Error: CodeUnavailable.
func (m *Minutes) readUnclosed(ctx context.Context, found map[time.Time]rollup.Minute, all []time.Time) error {
	var missing []time.Time
	for _, at := range all {
		if _, known := found[at]; !known {
			missing = append(missing, at)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	keys := make([]string, len(missing)) // of one partition
	for i, at := range missing {
		keys[i] = m.rows(at)
	}
	if n, err := m.l.DB.Exists(ctx, keys...).Result(); err != nil || n == 0 {
		return unavailable(err)
	}
	pipe := m.l.DB.Pipeline()
	rows := m.readRows(ctx, pipe, missing)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	m.addRows(ctx, found, rows)
	return nil
}

// readRows adds to a pipeline what reads the rows of minutes.
func (m *Minutes) readRows(ctx context.Context, pipe redis.Pipeliner,
	minutes []time.Time) map[time.Time]*redis.MapStringStringCmd {
	rows := make(map[time.Time]*redis.MapStringStringCmd, len(minutes))
	for _, at := range minutes {
		rows[at] = pipe.HGetAll(ctx, m.rows(at))
	}
	return rows
}

// addRows adds the minutes that have rows and are not known yet.
func (m *Minutes) addRows(
	ctx context.Context, found map[time.Time]rollup.Minute, rows map[time.Time]*redis.MapStringStringCmd,
) {
	for at, cmd := range rows {
		if _, known := found[at]; known {
			continue
		}
		if parts, _ := m.decode(ctx, maps.Values(cmd.Val())); len(parts) > 0 {
			found[at] = merge(at, parts)
		}
	}
}

// merge returns the minute of rows.
func merge(at time.Time, rows []rollup.Minute) rollup.Minute {
	return rollup.Merge(at, rollup.Span, rollup.MinuteCauses, rows...)
}

// decode returns those of the texts that this release can read. newer says that a newer release has written another
// one. That there are others is logged once.
func (m *Minutes) decode(ctx context.Context, texts iter.Seq[string]) (all []rollup.Minute, newer bool) {
	for text := range texts {
		minute, err := rollup.Decode([]byte(text))
		if err == nil {
			all = append(all, minute)
			continue
		}
		newer = newer || errors.Is(err, rollup.ErrNewer)
		m.unreadable.Do(func() {
			m.l.Log.WarnContext(ctx, "leaving out counts of minutes; this is not logged again", slog.Any("error", err))
		})
	}
	return all, newer
}

// Hours returns the hours from one on that are closed, oldest first. Error: CodeUnavailable.
func (m *Minutes) Hours(ctx context.Context, from time.Time) ([]rollup.Minute, error) {
	texts, err := m.l.DB.HGetAll(ctx, string(m.keys().Hours())).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(m.keys().Hours()), err) {
		return nil, layout.Unavailable(err)
	}
	maps.DeleteFunc(texts, func(name, _ string) bool { at, ok := timeOf(name); return !ok || at.Before(from) })
	hours, _ := m.decode(ctx, maps.Values(texts))
	slices.SortFunc(hours, func(a, b rollup.Minute) int { return a.At.Compare(b.At) })
	return hours, nil
}

// span returns the begins of the minutes from one on, before the one that has not begun at a time.
func span(from, until time.Time) []time.Time {
	var all []time.Time
	for at := from.Truncate(rollup.Span).UTC(); at.Before(until); at = at.Add(rollup.Span) {
		all = append(all, at)
	}
	return all
}

func unavailable(err error) error {
	if err != nil {
		return layout.Unavailable(err)
	}
	return nil
}
