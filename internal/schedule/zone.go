package schedule

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // so that every machine knows every zone

	"github.com/dts-sched/dts/internal/task"
)

// zone turns times of a wall clock into instants by one rule: a wall time comes at the first instant at which the
// zone's clock shows it or a later one. So one that is jumped over comes at the jump, and one that is shown twice
// comes the first time.
//
// Wall times are seconds since 1970-01-01 00:00 on the wall clock, instants are Unix seconds.
type zone struct {
	loc    *time.Location
	recent atomic.Pointer[stretch] // the last one that was asked for; most questions are about the present
}

// stretch is a span of instants [start, end) with one offset from UTC.
type stretch struct {
	start, end, offset int64
	// from is the instant from which on the clock shows what it has never shown before: start, or later if
	// the clock was put back at start. It may be beyond end.
	from int64
}

// zones keeps what was loaded: loading reads a file.
var zones sync.Map // of *zone, by name

// loadZone finds a zone by its IANA name; "" is UTC.
func loadZone(name string) (*zone, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	if !isZoneName(name) {
		return nil, task.Invalid("timezone", "%q is not the name of a time zone, such as Europe/Berlin or UTC", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, task.Invalid("timezone", "%q is not a time zone that is known here; write one such as Europe/Berlin", name)
	}
	z, _ := zones.LoadOrStore(name, &zone{loc: loc})
	return z.(*zone), nil
}

// isZoneName refuses what LoadLocation would accept but means something else on every machine, or counts leap seconds.
func isZoneName(name string) bool {
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "Local", "localtime", "posixrules", "posix", "right":
		return false
	}
	return len(name) < 64
}

// at is the stretch that an instant is in.
func (z *zone) at(instant int64) *stretch {
	if s := z.recent.Load(); s != nil && s.start <= instant && instant < s.end {
		return s
	}
	s := z.bounds(instant)
	s.from = max(s.start, z.shownBefore(s.start)-s.offset)
	z.recent.Store(&s)
	return &s
}

// bounds is at, but for from.
func (z *zone) bounds(instant int64) stretch {
	t := time.Unix(instant, 0).In(z.loc)
	_, offset := t.Zone()
	s := stretch{start: math.MinInt64 / 2, end: math.MaxInt64 / 2, offset: int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= instant { // ZoneBounds takes every year for 365 days long where it goes by a rule for all years
		day, _ := divide(instant, secondsADay)
		s.end = (day + 1) * secondsADay
	}
	return s
}

// maxOffset is more than any zone was ever away from UTC (16 hours, Manila before 1844).
const maxOffset = secondsADay

// shownBefore is the wall time up to which, itself not included, the clock has shown something before that instant.
// What ended two days earlier cannot have shown more than what came after it.
func (z *zone) shownBefore(instant int64) int64 {
	shown := int64(math.MinInt64 / 2)
	for end := instant; end > instant-2*maxOffset && end > math.MinInt64/2; {
		s := z.bounds(end - 1)
		shown = max(shown, end+s.offset)
		end = s.start
	}
	return shown
}

// shown is the highest wall time that the clock has shown up to an instant.
func (z *zone) shown(instant int64) int64 {
	s := z.at(instant)
	return max(instant, s.from-1) + s.offset
}

// instantOf is the first instant at which the clock shows that wall time or a later one.
func (z *zone) instantOf(wall int64) int64 {
	if s := z.recent.Load(); s != nil && s.from <= wall-s.offset && wall-s.offset < s.end {
		return wall - s.offset
	}
	for s := z.at(wall - maxOffset); ; s = z.at(s.end) {
		if instant := max(s.start, wall-s.offset); instant < s.end {
			return instant
		}
	}
}

// wall is what the clock shows at an instant.
func (z *zone) wall(instant int64) int64 { return instant + z.at(instant).offset }
