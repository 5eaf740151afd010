package schedule

import (
	"math"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // zones are the same on a machine without a database of its own

	"github.com/dts-sched/dts/internal/task"
)

// zone maps wall times to instants by one rule: the instant of a wall time is the first one at which the clock of the zone
// shows that time or a later one. So a wall time that the clock skips has the instant of the jump, and a wall time that
// the clock shows twice has the first of its two instants.
//
// Wall times are in seconds since 1970-01-01 00:00 on the wall clock. Instants are in Unix seconds.
type zone struct {
	loc    *time.Location
	recent atomic.Pointer[stretch] // the last result of at, a cache: most calls are about the present
}

// stretch is a span of instants, from start up to but not including end, with one offset from UTC in seconds.
type stretch struct {
	start, end, offset int64
	// from is the first instant at which the clock shows a wall time later than any before: start, or a later instant
	// if the clock was put back at start. It may be after end.
	from int64
}

// zonesLimit is how many zones are cached. There are 598 names; a file system that ignores case has more spellings of
// each.
const zonesLimit = 1000

// zones caches the loaded zones by name, because loading one reads a file.
var zones zoneCache

// zoneCache holds up to zonesLimit zones. When it is full, it forgets all.
type zoneCache struct {
	byName sync.Map // map[string]*zone
	count  atomic.Int32
}

func (c *zoneCache) get(name string) (*zone, bool) {
	z, ok := c.byName.Load(name)
	if !ok {
		return nil, false
	}
	return z.(*zone), true
}

// add returns the zone that is cached from now on.
func (c *zoneCache) add(name string, loaded *zone) *zone {
	if c.count.Add(1) > zonesLimit {
		c.byName.Clear()
		c.count.Store(1)
	}
	z, _ := c.byName.LoadOrStore(name, loaded)
	return z.(*zone)
}

// loadZone returns the zone of an IANA name; "" is UTC. It returns a *task.Error for an unknown name.
func loadZone(name string) (*zone, error) {
	if z, ok := zones.get(name); ok {
		return z, nil
	}
	if !isZoneName(name) {
		const text = "%q is not the name of a time zone; write an IANA name such as Europe/Berlin, or UTC"
		return nil, task.Invalid("timezone", text, task.Cut(name, zoneNameLimit))
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, task.Invalid("timezone", "%q is not a known time zone; write an IANA name such as Europe/Berlin, or UTC", name)
	}
	return zones.add(name, &zone{loc: loc}), nil
}

const zoneNameLimit = 64 // bytes; the longest name has 32

// zoneName is the form of all names of IANA: Etc/GMT+1, America/Port-au-Prince, America/North_Dakota/Beulah.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*){0,2}$`)

// isZoneName reports whether a name has the form of one of IANA, or is "" for UTC. It returns false for others that
// time.LoadLocation accepts: those that differ from machine to machine (Local, localtime), those that count leap seconds
// (right/UTC), and paths to the same file (America/./New_York).
func isZoneName(name string) bool {
	return name == "" || name != "Local" && len(name) <= zoneNameLimit && zoneName.MatchString(name)
}

// at returns the stretch that contains an instant.
func (z *zone) at(instant int64) *stretch {
	if s := z.recent.Load(); s != nil && s.start <= instant && instant < s.end {
		return s
	}
	s := z.bounds(instant)
	s.from = max(s.start, z.shownBefore(s.start)-s.offset)
	z.recent.Store(&s)
	return &s
}

// bounds returns the stretch that contains an instant, without its from.
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
	if s.end <= instant { // in years that a general rule describes, ZoneBounds ends a leap year after 365 days
		day, _ := divide(instant, secondsADay)
		s.end = (day + 1) * secondsADay
	}
	return s
}

// maxOffset, in seconds, is more than the offset of any zone at any time; the largest was 16 hours (Manila before 1844).
const maxOffset = secondsADay

// shownBefore returns the wall time one second after the latest one that the clock has shown before an instant. It looks
// back two days: a stretch that ended earlier cannot have shown a later wall time than the stretches after it.
func (z *zone) shownBefore(instant int64) int64 {
	shown := int64(math.MinInt64 / 2)
	for end := instant; end > instant-2*maxOffset && end > math.MinInt64/2; {
		s := z.bounds(end - 1)
		shown = max(shown, end+s.offset)
		end = s.start
	}
	return shown
}

// shown returns the latest wall time that the clock has shown up to and including an instant.
func (z *zone) shown(instant int64) int64 {
	s := z.at(instant)
	return max(instant, s.from-1) + s.offset
}

// instantOf returns the first instant at which the clock shows the wall time or a later one.
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

// wall returns the wall time at an instant.
func (z *zone) wall(instant int64) int64 { return instant + z.at(instant).offset }
