package web

import (
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// comingTick is a tick that comes, in the zone of the schedule.
type comingTick struct {
	schedule.UpcomingTick
	Local string
}

// clockChange is the next change of the clock in the zone of a schedule.
type clockChange struct {
	At    time.Time
	Note  string
	Ticks []comingTick
}

// comingOf writes coming ticks in their zone.
func comingOf(next schedule.NextTicks) ([]comingTick, *clockChange) {
	zone := next.Location
	if zone == nil {
		zone = time.UTC
	}
	local := func(ticks []schedule.UpcomingTick) (all []comingTick) {
		for _, t := range ticks {
			all = append(all, comingTick{t, t.Tick.In(zone).Format("2006-01-02 15:04:05 -07:00")})
		}
		return all
	}
	if next.Transition == nil {
		return local(next.Ticks), nil
	}
	change := &clockChange{At: next.Transition.At, Note: next.Transition.Note}
	for _, t := range local(next.Transition.Ticks) {
		if t.Note != "" {
			change.Ticks = append(change.Ticks, t)
		}
	}
	return local(next.Ticks), change
}

// rulesOf are the rules of a schedule, as its definition writes them.
func rulesOf(s schedule.Spec) (rules []string) {
	for _, r := range s.Rules {
		if r.Cron != "" {
			rules = append(rules, r.Cron)
		} else {
			rules = append(rules, "every "+task.FormatDuration(r.Every))
		}
	}
	return rules
}
