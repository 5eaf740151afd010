package test

import (
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// times is when a schedule ticks, in the few forms that are used here: so few that a walk along the clock finds the
// ticks, with nothing of the code under test.
type times struct {
	cron  string
	fits  func(second int) bool // what cron means: at these seconds of every minute
	every time.Duration
	start time.Time // what every is counted from; zero: the creation
}

func atSecond(s int) times {
	return times{cron: fmt.Sprintf("%d * * * * *", s), fits: func(second int) bool { return second == s }}
}

func everySecond() times { return times{cron: "* * * * * *", fits: func(int) bool { return true }} }

func evenSeconds() times {
	return times{cron: "*/2 * * * * *", fits: func(second int) bool { return second%2 == 0 }}
}

// both ticks where a or b does; only one of them has an interval.
func both(cron, interval times) times {
	cron.every, cron.start = interval.every, interval.start
	return cron
}

// ticks walks from one second to the next, and from one interval to the next: after, but not at, the first time, and
// until and at the second one.
func (w times) ticks(after, until, created time.Time) []time.Time {
	var found []time.Time
	if w.fits != nil {
		for at := after.Truncate(time.Second); !at.After(until); at = at.Add(time.Second) {
			if w.fits(at.Second()) {
				found = append(found, at)
			}
		}
	}
	if w.every > 0 {
		anchor := created
		if !w.start.IsZero() {
			anchor = w.start
		}
		for at := anchor; !at.After(until); at = at.Add(w.every) {
			found = append(found, at)
		}
	}
	found = slices.DeleteFunc(found, func(at time.Time) bool { return !at.After(after) || at.Before(w.start) })
	slices.SortFunc(found, time.Time.Compare)
	return slices.CompactFunc(found, time.Time.Equal)
}

// rules says it as the API takes it.
func (w times) rules() []wire.ScheduleRule {
	var rules []wire.ScheduleRule
	if w.cron != "" {
		rules = append(rules, wire.ScheduleRule{Cron: &w.cron})
	}
	if w.every > 0 {
		rules = append(rules, wire.ScheduleRule{Every: ptr(w.every.String())})
	}
	return rules
}

// living is a schedule and what was done to it, as far as the server acknowledged that.
type living struct {
	id        string
	minutely  bool // it ticks each minute, not each second
	overlap   wire.Overlap
	policy    wire.MisfirePolicy
	hashed    int // the second that H means for it
	created   time.Time
	revisions []revision // the first one is number 1
	rest      *pause     // at most one
}

// revision is a definition: it names the ticks from its own time on until the next one's.
type revision struct {
	times
	since time.Time
	path  string // of the handler
}

// pause is a time in which nothing was decided.
type pause struct {
	decided       time.Time // the ticks after this one were still open
	from          time.Time
	before, after time.Time // between these, the schedule was resumed; zero: not at all
}

// rested says whether a tick was due in the pause, or still open when it began: it had to wait for the end of that.
func (s *living) rested(tick time.Time) bool {
	return s.rest != nil && !s.rest.after.IsZero() && tick.After(s.rest.decided) && !tick.After(s.rest.after)
}

// expected are the ticks that the schedule must account for until a time.
func (s *living) expected(until time.Time) []time.Time {
	var ticks []time.Time
	for i, r := range s.revisions {
		end := until
		if i+1 < len(s.revisions) && s.revisions[i+1].since.Before(until) {
			end = s.revisions[i+1].since
		}
		ticks = append(ticks, r.ticks(r.since, end, s.created)...)
	}
	return ticks
}

// version is what the handler is told by the tasks of a revision.
func version(revision int) string { return fmt.Sprintf("r%d", revision) }
