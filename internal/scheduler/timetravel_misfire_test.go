package scheduler

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	dayTime = "02 15:04"
	clockMS = "15:04:05"
)

// span is one line for each hour from one to the other, both included.
func span(from, until, outcome string) []string {
	first, errFirst := time.Parse(dayTime, from)
	last, errLast := time.Parse(dayTime, until)
	if errFirst != nil || errLast != nil {
		panic(from + " to " + until)
	}
	var all []string
	for ; !first.After(last); first = first.Add(time.Hour) {
		all = append(all, first.Format(dayTime)+" "+outcome)
	}
	return all
}

func join(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// Nobody leads from 12:30 to 12:30. Hourly ticks before and after run; of the 24 in between, the policy says which do.
func TestTravel_AnOutageOfADayEndsAsTheMisfirePolicySays(t *testing.T) {
	testkit.NotQuick(t)
	before, after := span("10 10:00", "10 12:00", "fired"), span("11 13:00", "11 14:00", "fired")
	all := func(window time.Duration, limit int) schedule.Misfire {
		return schedule.Misfire{Policy: schedule.MisfireAll, Window: window, Max: limit}
	}
	cases := map[string]struct {
		misfire schedule.Misfire
		overlap schedule.Overlap
		want    []string // of the ticks in the outage
		begun   []string // of those that ran: when
	}{
		"skip": {misfire: schedule.Misfire{Policy: schedule.MisfireSkip},
			want: span("10 13:00", "11 12:00", "missed")},
		"once": {misfire: schedule.Misfire{Policy: schedule.MisfireOnce},
			want:  join(span("10 13:00", "11 11:00", "missed"), span("11 12:00", "11 12:00", "fired")),
			begun: []string{"12:00 at 12:30:00"}},
		"default": {
			want:  join(span("10 13:00", "11 11:00", "missed"), span("11 12:00", "11 12:00", "fired")),
			begun: []string{"12:00 at 12:30:00"}},
		"once-too-late": {misfire: schedule.Misfire{Window: 20 * time.Minute},
			want: span("10 13:00", "11 12:00", "missed")},
		"all": {misfire: all(0, 0),
			want:  join(span("10 13:00", "11 11:00", "missed"), span("11 12:00", "11 12:00", "fired")),
			begun: []string{"12:00 at 12:30:00"}},
		"all-just-within": {misfire: all(30*time.Minute, 0),
			want:  join(span("10 13:00", "11 11:00", "missed"), span("11 12:00", "11 12:00", "fired")),
			begun: []string{"12:00 at 12:30:00"}},
		"all-just-not-within": {misfire: all(30*time.Minute-time.Millisecond, 0),
			want: span("10 13:00", "11 12:00", "missed")},
		"all-of-six-hours": {misfire: all(6*time.Hour, 0),
			want: join(span("10 13:00", "11 06:00", "missed"), span("11 07:00", "11 12:00", "fired")),
			begun: []string{"07:00 at 12:30:00", "08:00 at 12:30:01", "09:00 at 12:30:02", "10:00 at 12:30:03",
				"11:00 at 12:30:04", "12:00 at 12:30:05"}},
		"all-but-three-at-most": {misfire: all(day, 3),
			want:  join(span("10 13:00", "11 09:00", "missed"), span("11 10:00", "11 12:00", "fired")),
			begun: []string{"10:00 at 12:30:00", "11:00 at 12:30:01", "12:00 at 12:30:02"}},
		"all-of-a-day": {misfire: all(day, 0),
			want: span("10 13:00", "11 12:00", "fired"),
			begun: []string{"13:00 at 12:30:00", "14:00 at 12:30:01", "15:00 at 12:30:02", "16:00 at 12:30:03",
				"17:00 at 12:30:04", "18:00 at 12:30:05", "19:00 at 12:30:06", "20:00 at 12:30:07", "21:00 at 12:30:08",
				"22:00 at 12:30:09", "23:00 at 12:30:10", "00:00 at 12:30:11", "01:00 at 12:30:12", "02:00 at 12:30:13",
				"03:00 at 12:30:14", "04:00 at 12:30:15", "05:00 at 12:30:16", "06:00 at 12:30:17", "07:00 at 12:30:18",
				"08:00 at 12:30:19", "09:00 at 12:30:20", "10:00 at 12:30:21", "11:00 at 12:30:22", "12:00 at 12:30:23"}},
		"all-in-a-queue": {misfire: all(3*time.Hour, 0), overlap: schedule.OverlapQueue,
			want:  join(span("10 13:00", "11 09:00", "missed"), span("11 10:00", "11 12:00", "fired")),
			begun: []string{"10:00 at 12:30:00", "11:00 at 12:32:00", "12:00 at 12:34:00"}},
		"all-but-no-overlap": {misfire: all(3*time.Hour, 0), overlap: schedule.OverlapSkip,
			want: join(span("10 13:00", "11 09:00", "missed"), span("11 10:00", "11 10:00", "fired"),
				span("11 11:00", "11 12:00", "skipped_overlap")),
			begun: []string{"10:00 at 12:30:00"}},
	}
	travel(t, at("2026-03-10T09:30Z"), slow, func(v *voyage) {
		v.worker.does(func(task.Task) (time.Duration, error) { return 2 * time.Minute, nil })
		v.start()
		v.start()
		made := make(map[string]scheduled)
		for name, c := range cases {
			if c.overlap == "" {
				c.overlap = schedule.OverlapAllow
			}
			made[name] = v.put(name, schedule.Definition{Spec: cron("0 * * * *"), Misfire: c.misfire, Overlap: c.overlap})
		}
		v.until(at("2026-03-10T12:30Z"))
		v.outage(day)
		v.until(at("2026-03-11T14:30Z"))
		for name, c := range cases {
			made[name].recorded(dayTime, join(before, c.want, after)...)
			made[name].ran("15:04", join(
				[]string{"10:00 at 10:00:00", "11:00 at 11:00:00", "12:00 at 12:00:00"}, c.begun,
				[]string{"13:00 at 13:00:00", "14:00 at 14:00:00"})...)
			made[name].proved(3 + 24 + 2)
		}
	})
}

// What is up to 15 s late is on time: a leader that dies is replaced by then.
func TestTravel_ATickIsAMisfireAfterFifteenSeconds(t *testing.T) {
	travel(t, at("2026-03-10T09:30Z"), slow, func(v *voyage) {
		v.start()
		skip := schedule.Misfire{Policy: schedule.MisfireSkip}
		never := v.put("never", schedule.Definition{Spec: cron("0,40,44,45,50 30,29 12 * * *"), Misfire: skip, Overlap: schedule.OverlapAllow})
		v.until(at("2026-03-10T12:30Z").Add(-30 * time.Second))
		v.outage(30 * time.Second)
		v.until(at("2026-03-10T12:35Z"))
		never.recorded(clockMS,
			"12:29:00 fired", "12:29:40 missed", "12:29:44 missed", "12:29:45 fired", "12:29:50 fired",
			"12:30:00 fired", "12:30:40 fired", "12:30:44 fired", "12:30:45 fired", "12:30:50 fired")
		never.ran(clockMS,
			"12:29:00 at 12:29:00", "12:29:45 at 12:30:00", "12:29:50 at 12:30:00",
			"12:30:00 at 12:30:00", "12:30:40 at 12:30:40", "12:30:44 at 12:30:44", "12:30:45 at 12:30:45", "12:30:50 at 12:30:50")
	})
}

// Many ticks are decided in several parts. A leader that dies in between leaves the rest to the next one.
func TestTravel_ALongListOfMisfiresSurvivesTheDeathOfItsLeaders(t *testing.T) {
	testkit.NotQuick(t)
	for _, misfire := range testkit.Sample(t, 1, []schedule.Misfire{
		{Policy: schedule.MisfireSkip}, {Policy: schedule.MisfireOnce},
		{Policy: schedule.MisfireAll, Window: 10 * time.Minute, Max: 30},
	}) {
		t.Run(string(misfire.Policy), func(t *testing.T) {
			t.Parallel()
			from := at("2026-03-10T09:30Z")
			minutes := testkit.Amount(18, 21) // ticks come late from the first minute on, for more than 17
			travel(t, from, brisk, func(v *voyage) {
				n := v.start()
				spec := cron("* * * * * *")
				spec.EndAt = from.Add(time.Duration(minutes) * time.Minute)
				s := v.put("s", schedule.Definition{Spec: spec, Misfire: misfire, Overlap: schedule.OverlapAllow})
				v.pass(5*time.Second + 500*time.Millisecond)
				n.stop()
				v.pass(15 * time.Minute)
				for range 2 {
					n = v.start()
					v.trapped(n, "fire", answerLost)
					v.pass(brisk.takeover()) // until its lease has run out
				}
				v.start()
				v.until(spec.EndAt.Add(2 * time.Minute))

				entries := s.ledger()
				for i, e := range entries {
					if tick := from.Add(time.Duration(i+1) * time.Second); !e.Tick.Equal(tick) {
						t.Fatalf("record %d is of the tick of %s, want %s", i, e.Tick, tick)
					}
					if late := e.DecidedAt.Sub(e.Tick); late <= schedule.OnTime && e.Outcome != schedule.Fired {
						t.Errorf("the tick of %s was decided %s late, and is %s", e.Tick, late, e.Outcome)
					}
				}
				s.proved(minutes * 60)
				fired := 0
				for _, e := range entries {
					if e.Outcome == schedule.Fired {
						fired++
					}
				}
				if len(s.runs()) != fired {
					t.Errorf("%d ticks fired, and %d ran", fired, len(s.runs()))
				}
				s.counts(fired)
			})
		})
	}
}

func TestTravel_ExcludedTicksOfAnOutageAreExcludedNotMissed(t *testing.T) {
	travel(t, at("2026-03-10T09:30Z"), slow, func(v *voyage) {
		v.start()
		spec := cron("0 * * * *")
		spec.Exclude = []string{"2026-03-11", "* 20-21 * * *"}
		s := v.put("s", schedule.Definition{Spec: spec, Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: 20 * time.Hour}, Overlap: schedule.OverlapAllow})
		v.until(at("2026-03-10T12:30Z"))
		v.outage(day)
		v.until(at("2026-03-11T14:30Z"))
		s.recorded(dayTime, join(
			span("10 10:00", "10 12:00", "fired"), span("10 13:00", "10 16:00", "missed"), span("10 17:00", "10 19:00", "fired"),
			span("10 20:00", "10 21:00", "excluded"), span("10 22:00", "10 23:00", "fired"), span("11 00:00", "11 14:00", "excluded"))...)
		s.proved(29)
	})
}

// Every ten minutes, paused from 09:05 to 10:10:05: the ticks in between are misfires, the one of 10:10 as well though
// it is only 5 s late.
func TestTravel_TicksOfAPauseAreMisfires(t *testing.T) {
	ticks := func(outcomes string) []string {
		var all []string
		for i, word := range []byte(outcomes) {
			name := map[byte]string{'f': " fired", 'm': " missed"}[word]
			all = append(all, at("2026-03-10T08:10Z").Add(time.Duration(i)*10*time.Minute).Format("15:04")+name)
		}
		return all
	}
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.start()
		put := func(policy schedule.MisfirePolicy, window time.Duration) scheduled {
			return v.put(string(policy), schedule.Definition{
				Spec: cron("*/10 * * * *"), Misfire: schedule.Misfire{Policy: policy, Window: window}, Overlap: schedule.OverlapAllow,
			})
		}
		skip, once, all := put(schedule.MisfireSkip, 0), put(schedule.MisfireOnce, 0), put(schedule.MisfireAll, 30*time.Minute)
		v.until(at("2026-03-10T09:05Z"))
		for _, s := range []scheduled{skip, once, all} {
			_, err := v.store.Schedules.Pause(v.t.Context(), s.ref, "tea", "")
			testkit.Must(t, err)
			if now := s.read(); now.PauseNote != "tea" || !now.PausedAt.Equal(at("2026-03-10T09:05Z")) {
				t.Errorf("%s was paused at %s, because of %q", s.ref.ID, now.PausedAt, now.PauseNote)
			}
		}
		v.leads().stop()
		v.start()
		v.until(at("2026-03-10T10:10Z").Add(5 * time.Second))
		for _, s := range []scheduled{skip, once, all} {
			report, err := useCases(v.store).AuditSchedule(v.t.Context(), caller, s.ref.ID, time.Time{}, time.Time{})
			testkit.Must(t, err)
			if report.Pending != 7 || report.Accounted != 6 || !report.Proved {
				t.Errorf("in its pause, the audit of %s is %+v, want 6 proved, 7 pending", s.ref.ID, report)
			}
			_, err = v.store.Schedules.Resume(v.t.Context(), s.ref, "")
			testkit.Must(t, err)
		}
		v.until(at("2026-03-10T10:25Z"))
		skip.recorded("15:04", ticks("ffffff"+"mmmmmmm"+"f")...)
		once.recorded("15:04", ticks("ffffff"+"mmmmmmf"+"f")...)
		all.recorded("15:04", ticks("ffffff"+"mmmmfff"+"f")...)
		before := []string{"08:10 at 08:10:00", "08:20 at 08:20:00", "08:30 at 08:30:00", "08:40 at 08:40:00", "08:50 at 08:50:00", "09:00 at 09:00:00"}
		skip.ran("15:04", append(before[:6:6], "10:20 at 10:20:00")...)
		once.ran("15:04", append(before[:6:6], "10:10 at 10:10:05", "10:20 at 10:20:00")...)
		all.ran("15:04", append(before[:6:6], "09:50 at 10:10:05", "10:00 at 10:10:06", "10:10 at 10:10:07", "10:20 at 10:20:00")...)
		for _, s := range []scheduled{skip, once, all} {
			s.proved(14)
		}
	})
}

// A pause that comes and goes while nobody leads says nothing about a tick before it.
func TestTravel_ATickBeforeAShortPauseIsOnTime(t *testing.T) {
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		n := v.start()
		s := v.put("s", schedule.Definition{Spec: cron("0 9 * * *"), Misfire: schedule.Misfire{Policy: schedule.MisfireSkip}})
		v.leads()
		n.stop()
		v.until(at("2026-03-10T09:00Z").Add(5 * time.Second))
		_, err := v.store.Schedules.Pause(v.t.Context(), s.ref, "", "")
		testkit.Must(t, err)
		v.pass(3 * time.Second)
		_, err = v.store.Schedules.Resume(v.t.Context(), s.ref, "")
		testkit.Must(t, err)
		v.pass(2 * time.Second)
		v.start()
		v.pass(time.Hour)
		s.recorded(clockMS, "09:00:00 fired")
		s.ran(clockMS, "09:00:00 at 09:00:10")
	})
}

// A schedule that is created paused ticks in its pause like any other.
func TestTravel_AScheduleCreatedPausedRunsAfterItsResume(t *testing.T) {
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.start()
		paused := true
		ref := task.Ref{Namespace: task.DefaultNamespace, ID: "s"}
		_, err := useCases(v.store).PutSchedule(v.t.Context(), caller, schedule.Definition{
			Ref: ref, Spec: cron("0 * * * *"), Task: task.Definition{Type: "echo"},
		}, control.PutOptions{Paused: &paused})
		testkit.Must(t, err)
		s := scheduled{v, ref}
		v.until(at("2026-03-10T11:30Z"))
		s.recorded(clockMS)
		_, err = v.store.Schedules.Resume(v.t.Context(), ref, "")
		testkit.Must(t, err)
		v.until(at("2026-03-10T12:30Z"))
		s.recorded(clockMS, "09:00:00 missed", "10:00:00 missed", "11:00:00 fired", "12:00:00 fired")
		s.ran(clockMS, "11:00:00 at 11:30:00", "12:00:00 at 12:00:00")
		s.proved(4)
	})
}
