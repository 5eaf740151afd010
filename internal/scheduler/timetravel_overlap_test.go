package scheduler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// tenMinutes ticks every ten minutes from 08:10 to 09:10.
func tenMinutes(o schedule.Overlap) schedule.Definition {
	spec := cron("*/10 * * * *")
	spec.EndAt = at("2026-03-10T09:10Z")
	return schedule.Definition{Spec: spec, Overlap: o, Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: day}}
}

// takes has every task take that long.
func (v *voyage) takes(d time.Duration) {
	v.worker.does(func(task.Task) (time.Duration, error) { return d, nil })
}

func TestTravel_OverlapDecidesAboutLongTasks(t *testing.T) {
	testkit.NotQuick(t)
	for name, c := range map[schedule.Overlap]struct{ ledger, ran []string }{
		schedule.OverlapAllow: {
			ledger: []string{"08:10 fired", "08:20 fired", "08:30 fired", "08:40 fired", "08:50 fired", "09:00 fired", "09:10 fired"},
			ran: []string{"08:10 at 08:10:00", "08:20 at 08:20:00", "08:30 at 08:30:00", "08:40 at 08:40:00",
				"08:50 at 08:50:00", "09:00 at 09:00:00", "09:10 at 09:10:00"}},
		schedule.OverlapSkip: { // 08:10 runs until 08:35
			ledger: []string{"08:10 fired", "08:20 skipped_overlap", "08:30 skipped_overlap", "08:40 fired",
				"08:50 skipped_overlap", "09:00 skipped_overlap", "09:10 fired"},
			ran: []string{"08:10 at 08:10:00", "08:40 at 08:40:00", "09:10 at 09:10:00"}},
		schedule.OverlapQueue: {
			ledger: []string{"08:10 fired", "08:20 fired", "08:30 fired", "08:40 fired", "08:50 fired", "09:00 fired", "09:10 fired"},
			ran: []string{"08:10 at 08:10:00", "08:20 at 08:35:00", "08:30 at 09:00:00", "08:40 at 09:25:00",
				"08:50 at 09:50:00", "09:00 at 10:15:00", "09:10 at 10:40:00"}},
		schedule.OverlapReplace: {
			ledger: []string{"08:10 replaced", "08:20 replaced", "08:30 replaced", "08:40 replaced", "08:50 replaced", "09:00 replaced", "09:10 fired"},
			ran: []string{"08:10 at 08:10:00 until 08:20:00", "08:20 at 08:20:00 until 08:30:00", "08:30 at 08:30:00 until 08:40:00",
				"08:40 at 08:40:00 until 08:50:00", "08:50 at 08:50:00 until 09:00:00", "09:00 at 09:00:00 until 09:10:00",
				"09:10 at 09:10:00"}},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
				v.start()
				v.takes(25 * time.Minute)
				s := v.put("s", tenMinutes(name))
				v.until(at("2026-03-10T12:00Z"))
				s.recorded("15:04", c.ledger...)
				s.ran("15:04", c.ran...)
				s.proved(7)
				if now := s.read(); now.Live != 0 || now.Waiting != 0 || now.EndedAt.IsZero() {
					t.Errorf("in the end it is %+v, want nothing live or waiting, and ended", now)
				}
			})
		})
	}
}

// A task that is cancelled and takes four minutes to stop holds up the tick that replaced it; one that takes longer
// than the time to the next tick has that one run in its place.
func TestTravel_ReplaceWaitsForTheEndOfWhatItReplaces(t *testing.T) {
	testkit.NotQuick(t)
	for name, c := range map[string]struct {
		lingers     time.Duration
		ledger, ran []string
	}{
		"four minutes": {4 * time.Minute,
			[]string{"08:10 replaced", "08:20 replaced", "08:30 replaced", "08:40 replaced", "08:50 replaced", "09:00 replaced", "09:10 fired"},
			[]string{"08:10 at 08:10:00 until 08:24:00", "08:20 at 08:24:00 until 08:34:00", "08:30 at 08:34:00 until 08:44:00",
				"08:40 at 08:44:00 until 08:54:00", "08:50 at 08:54:00 until 09:04:00", "09:00 at 09:04:00 until 09:14:00",
				"09:10 at 09:14:00"}},
		"fifteen minutes": {15 * time.Minute,
			[]string{"08:10 replaced", "08:20 replaced", "08:30 replaced", "08:40 replaced", "08:50 replaced", "09:00 replaced", "09:10 fired"},
			[]string{"08:10 at 08:10:00 until 08:35:00", "08:30 at 08:35:00 until 08:55:00", "08:50 at 08:55:00 until 09:15:00",
				"09:10 at 09:15:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
				v.start()
				v.takes(time.Hour)
				v.worker.lingers(c.lingers)
				s := v.put("s", tenMinutes(schedule.OverlapReplace))
				v.until(at("2026-03-10T12:00Z"))
				s.recorded("15:04", c.ledger...)
				s.ran("15:04", c.ran...)
				s.proved(7)
			})
		})
	}
}

func TestTravel_AQueueOfTicksIsBounded(t *testing.T) {
	testkit.NotQuick(t)
	travel(t, at("2026-03-10T08:00Z"), slow, func(v *voyage) {
		v.start()
		v.worker.does(func(task.Task) (time.Duration, error) { return 110 * time.Minute, nil })
		spec := cron("* * * * *")
		spec.EndAt = at("2026-03-10T09:50Z")
		s := v.put("s", schedule.Definition{Spec: spec, Overlap: schedule.OverlapQueue})
		v.until(at("2026-03-10T09:50Z").Add(30 * time.Second))
		if now := s.read(); now.Live != 1 || now.Waiting != schedule.WaitingLimit {
			t.Errorf("%d tasks have not ended and %d ticks wait, want 1 and %d", now.Live, now.Waiting, schedule.WaitingLimit)
		}
		var want []string
		for i := range 110 {
			word := "queued"
			switch {
			case i == 0:
				word = "fired"
			case i > schedule.WaitingLimit:
				word = "skipped_overlap"
			}
			want = append(want, at("2026-03-10T08:01Z").Add(time.Duration(i)*time.Minute).Format("15:04")+" "+word)
		}
		s.recorded("15:04", want...)
		v.takes(0)
		v.pass(time.Hour)
		for i := 1; i <= schedule.WaitingLimit; i++ {
			want[i] = want[i][:6] + "fired"
		}
		s.recorded("15:04", want...)
		s.proved(110)
	})
}

// What waits is not lost when the task before it ends and nobody leads.
func TestTravel_WaitingTicksSurviveTheDeathOfTheirLeader(t *testing.T) {
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		n := v.start()
		v.takes(25 * time.Minute)
		s := v.put("s", tenMinutes(schedule.OverlapQueue))
		v.until(at("2026-03-10T08:25Z"))
		n.stop()
		v.until(at("2026-03-10T08:50Z")) // 08:10 ended at 08:35
		v.start()
		v.until(at("2026-03-10T12:00Z"))
		s.ran("15:04", "08:10 at 08:10:00", "08:20 at 08:50:00", "08:30 at 09:15:00", "08:40 at 09:40:00",
			"08:50 at 10:05:00", "09:00 at 10:30:00", "09:10 at 10:55:00")
		s.proved(7)
	})
}

// A task that will be tried again has not ended.
func TestTravel_ATaskBetweenAttemptsStillOverlaps(t *testing.T) {
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.start()
		v.worker.does(func(t task.Task) (time.Duration, error) {
			if t.Attempt == 1 {
				return time.Minute, errors.New("boom")
			}
			return time.Minute, nil
		})
		d := tenMinutes(schedule.OverlapSkip)
		d.Task.Retry = task.Retry{MaxAttempts: 2, Delays: []time.Duration{15 * time.Minute}}
		s := v.put("s", d)
		v.until(at("2026-03-10T12:00Z"))
		s.recorded("15:04", "08:10 fired", "08:20 skipped_overlap", "08:30 fired", "08:40 skipped_overlap", "08:50 fired",
			"09:00 skipped_overlap", "09:10 fired")
		s.ran("15:04", "08:10 at 08:10:00", "08:10 at 08:26:00", "08:30 at 08:30:00", "08:30 at 08:46:00",
			"08:50 at 08:50:00", "08:50 at 09:06:00", "09:10 at 09:10:00", "09:10 at 09:26:00")
		s.proved(7)
	})
}

func TestTravel_FailuresInARowPauseASchedule(t *testing.T) {
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.start()
		bad := map[string]bool{"08:10": true, "08:20": true, "08:40": true, "08:50": true, "09:00": true, "12:20": true, "12:30": true}
		v.worker.does(func(t task.Task) (time.Duration, error) {
			if bad[t.DueAt.Format("15:04")] {
				return time.Minute, errors.New("boom")
			}
			return time.Minute, nil
		})
		s := v.put("s", schedule.Definition{
			Spec: cron("*/10 * * * *"), PauseOnFailure: 3, Misfire: schedule.Misfire{Policy: schedule.MisfireSkip},
		})
		v.until(at("2026-03-10T12:15Z"))
		now := s.read()
		if !now.PausedAt.Equal(at("2026-03-10T09:01Z")) || now.PauseNote == "" || now.Failures != 3 {
			t.Errorf("paused at %s, note %q, %d failures; want 09:01, a note and 3", now.PausedAt, now.PauseNote, now.Failures)
		}
		s.recorded("15:04", "08:10 fired", "08:20 fired", "08:30 fired", "08:40 fired", "08:50 fired", "09:00 fired")
		_, err := v.store.Schedules.Resume(v.t.Context(), s.ref, "")
		testkit.Must(t, err)
		v.until(at("2026-03-10T12:45Z"))
		if now := s.read(); !now.PausedAt.IsZero() || now.Failures != 0 {
			t.Errorf("paused at %s, %d failures; want it running: the count begins anew after a resume, and at a success", now.PausedAt, now.Failures)
		}
		s.ran("15:04", "08:10 at 08:10:00", "08:20 at 08:20:00", "08:30 at 08:30:00", "08:40 at 08:40:00", "08:50 at 08:50:00",
			"09:00 at 09:00:00", "12:20 at 12:20:00", "12:30 at 12:30:00", "12:40 at 12:40:00")
		s.proved(6 + 19 + 3) // 09:10 to 12:10 were missed
	})
}

func TestTravel_AScheduleEndsAfterItsLastRun(t *testing.T) {
	testkit.NotQuick(t)
	for _, c := range []struct {
		outage time.Duration
		ledger []string
	}{
		{0, []string{"09:00 fired", "10:00 fired", "11:00 fired", "12:00 fired"}},
		{3 * time.Hour, []string{"09:00 fired", "10:00 missed", "11:00 fired", "12:00 fired", "13:00 fired"}}, // from 09:05: only two run
	} {
		t.Run(fmt.Sprint(c.outage), func(t *testing.T) {
			t.Parallel()
			travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
				v.start()
				s := v.put("s", schedule.Definition{
					Spec: cron("0 * * * *"), MaxRuns: 4, Overlap: schedule.OverlapAllow,
					Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: 3 * time.Hour, Max: 2},
				})
				v.until(at("2026-03-10T09:05Z"))
				if c.outage > 0 {
					v.outage(c.outage)
				}
				v.until(at("2026-03-10T18:05Z"))
				s.recorded("15:04", c.ledger...)
				s.proved(len(c.ledger))
				if now := s.read(); now.Runs != 4 || now.EndedAt.IsZero() || len(s.runs()) != 4 {
					t.Errorf("it ran %d times and counted %d, ended at %s, want 4", len(s.runs()), now.Runs, now.EndedAt)
				}
			})
		})
	}
}

// By default, a task is tried again as long as that cannot have the next tick skipped.
func TestTravel_RetriesLeaveRoomForTheNextTick(t *testing.T) {
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.start()
		v.worker.does(func(task.Task) (time.Duration, error) { return time.Second, errors.New("boom") })
		d := tenMinutes(schedule.OverlapSkip)
		d.Ref = task.Ref{Namespace: task.DefaultNamespace, ID: "s"}
		d.Task = task.Definition{Type: "echo", Timeout: time.Minute, Retention: day}
		_, err := useCases(v.store).PutSchedule(v.t.Context(), caller, d, control.PutOptions{})
		testkit.Must(v.t, err)
		s := scheduled{v, d.Ref}
		v.until(at("2026-03-10T09:30Z"))
		s.recorded("15:04", "08:10 fired", "08:20 fired", "08:30 fired", "08:40 fired", "08:50 fired", "09:00 fired", "09:10 fired")
		attempts := make(map[time.Time]int)
		for _, r := range s.runs() {
			attempts[r.tick]++
			if latest := r.tick.Add(9 * time.Minute); r.begun.After(latest) && r.tick.Before(d.EndAt) {
				t.Errorf("attempt %d of %s began at %s, which can last until the next tick", r.attempt, r.tick, r.begun)
			}
		}
		for tick, n := range attempts { // waits of 0.5, 1, 2, ... 256 s
			if n < 11 {
				t.Errorf("%d attempts of %s, want 11", n, tick)
			}
		}
		s.proved(7)
	})
}
