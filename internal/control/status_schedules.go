package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

const (
	troubledPause  = 5 * time.Second // between two looks at all schedules, at least
	troubledTimes  = 50              // how many times as long as a look the pause after it is
	troubledLimit  = time.Minute     // of one look
	troubledOld    = 2 * time.Minute // the age from which on the status tells that of a look
	troubledLength = 1000            // schedules that are kept of a look
)

// troubled is what a look at all schedules has found.
type troubled struct {
	schedules []status.Schedule // those that may need somebody; if there are many, the worst
	more      int               // further ones
	left      []string          // what could not be read
	at        time.Time         // the end of the look, by the clock of this process
	took      time.Duration
}

// keepTroubled looks at all schedules at intervals, until ctx ends, so that no status has to wait for that.
func (c *Control) keepTroubled(ctx context.Context) {
	for ctx.Err() == nil {
		began := clock.Now()
		limited, cancel := context.WithTimeout(ctx, troubledLimit)
		c.statuses.troubled.Read(limited, c.findTroubled)
		cancel()
		pause := troubledPause
		if last, err := c.statuses.troubled.Last(); err == nil { // a look that failed says nothing about the data
			pause = max(pause, troubledTimes*last.took)
		}
		_ = clock.Sleep(ctx, pause)
		for ctx.Err() == nil && !c.statuses.read.Load() && clock.Since(began) < seldomAfter {
			_ = clock.Sleep(ctx, troubledPause)
		}
	}
}

// changedSchedules are schedules that have changed since all were looked at, with what may be wrong with them now. All
// may be looked at only once a minute.
type changedSchedules struct {
	mu  sync.Mutex
	all map[task.Ref]changedSchedule
}

// changedSchedule is what may be wrong with a schedule; the zero Schedule for nothing.
type changedSchedule struct {
	status.Schedule
	at time.Time // by the clock of this process
}

// keepChanged looks at schedules when they have changed, until ctx ends.
func (c *Control) keepChanged(ctx context.Context, refs <-chan task.Ref) {
	for {
		select {
		case <-ctx.Done():
			return
		case ref := <-refs:
			began, found := clock.Now(), status.Schedule{}
			limited, cancel := context.WithTimeout(ctx, statusTimeout)
			s, now, err := c.store.Schedules.Read(limited, ref)
			if err == nil {
				found = namedTroubleOf(s, now)
				err = c.tellOverlooked(limited, []*status.Schedule{&found}, now)
			}
			cancel()
			switch {
			case err == nil:
			case task.CodeOf(err) != schedule.CodeNotFound: // the next look at all finds it
				continue
			}
			c.statuses.changed.add(ref, changedSchedule{found, began})
		}
	}
}

func (c *changedSchedules) add(ref task.Ref, one changedSchedule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[task.Ref]changedSchedule)
	}
	c.all[ref] = one
}

// update replaces what a look at all schedules has found of those that have changed since the look began.
func (c *changedSchedules) update(found []status.Schedule, began time.Time) []status.Schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.all, func(_ task.Ref, one changedSchedule) bool { return one.at.Before(began) })
	if len(c.all) == 0 {
		return found
	}
	var all []status.Schedule
	for _, s := range found {
		if _, later := c.all[task.Ref{Namespace: s.Namespace, ID: s.ID}]; !later {
			all = append(all, s)
		}
	}
	for _, one := range c.all {
		if one.Schedule != (status.Schedule{}) {
			all = append(all, one.Schedule)
		}
	}
	return all
}

// looking are the rules for the next look at all schedules for a status, given how long the last one took. A quick look
// delays no reader, and the status then says the same as the pages of schedules, which read them by themselves.
// keepTroubled makes the slow ones; a node that is alone makes all.
func (s situation) looking(took time.Duration) fresh.Rules {
	rules := fresh.Rules{Lifetime: fresh.Always, Limit: troubledLimit, Tolerate: fresh.Always}
	if pause := max(statusInterval, troubledTimes*took); s.alone || s.watched && pause <= troubledPause {
		rules.Lifetime = pause
	}
	return rules
}

// readSchedules reads what the last look at all schedules has found. Error: CodeUnavailable; there may be an older
// finding.
func (c *Control) readSchedules(ctx context.Context, how situation, f *status.Facts, u *unread) error {
	last, _ := c.statuses.troubled.Last()
	t, err := c.statuses.troubled.Get(ctx, how.looking(last.took), c.findTroubled)
	f.Schedules = c.statuses.changed.update(t.schedules, t.at.Add(-t.took))
	u.add(t.left...)
	if age := clock.Since(t.at); !t.at.IsZero() && age > troubledOld {
		f.Notes = append(f.Notes, fmt.Sprintf("the schedules were looked at %d minutes ago", int(age.Minutes())))
	}
	if t.more > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d further schedules may need somebody, and none of them more: "+
			"dtsctl schedule list --failing and --missed list them", t.more))
	}
	return err
}

// add adds a schedule. Now and then it leaves out what is too much.
func (t *troubled) add(s status.Schedule) {
	if t.schedules = append(t.schedules, s); len(t.schedules) >= 2*troubledLength {
		t.cut()
	}
}

// cut leaves out what is too much: first, schedules that have only missed a tick. Nobody has told yet which of these
// ticks somebody knows, as that takes a round trip for each overlookedChunk of them. So if more than troubledLength
// schedules missed ticks in pauses, cut may leave out one that missed another tick. It counts as a further one then.
func (t *troubled) cut() {
	worst := status.WorstSchedules(t.schedules, troubledLength)
	t.schedules, t.more = worst, t.more+len(t.schedules)-len(worst)
}

// findTroubled looks at all schedules. Error: CodeUnavailable.
func (c *Control) findTroubled(ctx context.Context) (t troubled, _ error) {
	ctx, left := redisx.LeavingOut(redisx.PassingOver(ctx))
	began, now := clock.Now(), c.now(ctx, task.Ref{})
	err := c.store.Schedules.EachTracked(ctx, EveryNamespace, func(s schedule.Schedule) {
		if one := namedTroubleOf(s, now); one != (status.Schedule{}) {
			t.add(one)
		}
	})
	t.cut()
	if err == nil {
		err = t.tellOverlooked(ctx, c, now)
	}
	t.left, t.at, t.took = left.Texts(), clock.Now(), clock.Since(began)
	return t, err
}

// tellOverlooked leaves out missed ticks that somebody knows, and then the schedules that have no other trouble. Error:
// CodeUnavailable.
func (t *troubled) tellOverlooked(ctx context.Context, c *Control, now time.Time) error {
	var all []*status.Schedule
	for i := range t.schedules {
		all = append(all, &t.schedules[i])
	}
	err := c.tellOverlooked(ctx, all, now)
	t.schedules = slices.DeleteFunc(t.schedules, func(s status.Schedule) bool { return s == status.Schedule{} })
	return err
}

// overlookedChunk is for how many schedules missed ticks are read at once.
const overlookedChunk = 100

// tellOverlooked leaves out missed ticks that somebody knows. Error: CodeUnavailable.
func (c *Control) tellOverlooked(ctx context.Context, all []*status.Schedule, now time.Time) error {
	all = slices.DeleteFunc(all, func(s *status.Schedule) bool { return s.MissedAt.IsZero() })
	for chunk := range slices.Chunk(all, overlookedChunk) {
		asked := make([]schedule.Schedule, len(chunk))
		for i, s := range chunk {
			asked[i].Ref = task.Ref{Namespace: s.Namespace, ID: s.ID}
			asked[i].Track.MissedAt, asked[i].Conditions = s.MissedAt, []schedule.Condition{schedule.Missing}
		}
		if err := c.store.Schedules.TellMissed(ctx, asked, now); err != nil {
			return err
		}
		for i, s := range chunk {
			s.MissedAt = asked[i].Overlooked.Tick
			if *s == (status.Schedule{Namespace: s.Namespace, ID: s.ID}) {
				*s = status.Schedule{}
			}
		}
	}
	return nil
}

// namedTroubleOf is troubleOf with the name of the schedule, unless nothing is wrong.
func namedTroubleOf(s schedule.Schedule, now time.Time) status.Schedule {
	t := troubleOf(s, now)
	if t != (status.Schedule{}) {
		t.Namespace, t.ID = s.Namespace, s.ID
	}
	return t
}

// troubleOf returns what may be wrong with a schedule; the zero value for nothing.
func troubleOf(s schedule.Schedule, now time.Time) (t status.Schedule) {
	if s.Has(schedule.Missing, now, 0) {
		t.MissedAt = s.Track.MissedAt
	}
	if s.PausedItself() {
		t.PausedItself, t.Note = s.PausedAt, s.PauseNote
		return t
	}
	if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() { // somebody has stopped it
		return t
	}
	if t.Failures = s.Failures; t.Failures > 0 {
		t.FailingSince = s.FailingSince()
	}
	if next, ok := s.NextTick(); ok && now.Sub(next) >= status.NotDecided {
		t.DueTick = next
	}
	return t
}
