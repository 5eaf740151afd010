package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Everything that people and networks do to schedules, in any order. No oracle can say what must come of it; but ledger,
// audit, counts and the worker's own record have to agree, and overlap policies have to hold.
func TestTravel_RecordsAgreeWhateverIsDoneToSchedules(t *testing.T) {
	testkit.NotQuick(t)
	for _, seed := range testkit.Sample(t, 1, []uint64{0, 1, 2}) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			travel(t, at("2026-03-08T06:50Z"), brisk, func(v *voyage) {
				s := v.soup(seed)
				for end := clock.Now().Add(testkit.Amount(5*time.Minute, 12*time.Minute)); clock.Until(end) > 0; {
					s.stir()
				}
				s.settle()
				for _, each := range s.all {
					each.agrees()
				}
			})
		})
	}
}

// soup is schedules of all kinds.
type soup struct {
	v      *voyage
	random *rand.Rand
	all    []scheduled
	defs   map[string]schedule.Definition
}

func (v *voyage) soup(seed uint64) *soup {
	v.t.Helper()
	s := &soup{v: v, defs: make(map[string]schedule.Definition), random: rand.New(rand.NewPCG(seed, 9))} //nolint:gosec // what is random can be repeated
	v.worker.does(func(t task.Task) (time.Duration, error) {
		n := uint64(t.DueAt.UnixMilli()) * 2654435761 >> 7 //nolint:gosec // as random as it need be
		if n%10 == 0 {
			return time.Second, errors.New("boom")
		}
		return time.Duration(n%25_000) * time.Millisecond, nil
	})
	v.worker.lingers(700 * time.Millisecond)
	v.start()
	v.start()
	misfires := []schedule.Misfire{{Policy: schedule.MisfireSkip}, {}, {Policy: schedule.MisfireAll}, {Policy: schedule.MisfireAll, Window: time.Minute, Max: 2}}
	for i, o := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapReplace} {
		for j := range 2 {
			id := fmt.Sprintf("%s-%d", o, j)
			s.defs[id] = schedule.Definition{
				Spec: cron("*/10 * * * * *"), Overlap: o, Misfire: misfires[(i+2*j+int(seed))%len(misfires)], PauseOnFailure: 4 * j, //nolint:gosec // small
				Task: task.Definition{Retention: day},
			}
			s.all = append(s.all, v.put(id, s.defs[id]))
		}
	}
	return s
}

// stir does something, and lets a little time pass.
func (s *soup) stir() {
	s.v.t.Helper()
	each := s.all[s.random.IntN(len(s.all))]
	var err error
	switch ctx := s.v.t.Context(); s.random.IntN(12) {
	case 0:
		_, err = s.v.store.Schedules.Pause(ctx, each.ref, "", "")
	case 1, 2, 3: // so that few of them rest
		_, err = s.v.store.Schedules.Resume(ctx, each.ref, "")
	case 4:
		d := s.defs[each.ref.ID]
		d.Spec = cron(fmt.Sprintf("%d/%d * * * * *", s.random.IntN(5), 5+s.random.IntN(20)))
		s.v.put(each.ref.ID, d)
	case 5:
		_, err = useCases(s.v.store).TriggerSchedule(ctx, caller, each.ref.ID)
	case 6:
		cursor := each.read().Cursor
		_, err = useCases(s.v.store).BackfillSchedule(ctx, caller, each.ref.ID, control.BackfillRange{
			From: cursor.Add(-3 * time.Minute), Until: cursor, Pace: time.Second,
		})
	case 7, 8:
		if runs := each.runs(); len(runs) > 0 {
			_, err = s.v.store.Tasks.Cancel(ctx, runs[len(runs)-1].ref, "")
		}
	case 9:
		s.disturb()
	default:
		s.v.pass(time.Duration(s.random.IntN(20)) * 500 * time.Millisecond)
	}
	if code := task.CodeOf(err); err != nil && code != schedule.CodeBusy && code != task.CodeFinished {
		s.v.t.Errorf("%s: %v", each.ref, err)
	}
	s.v.pass(time.Duration(s.random.IntN(3000)) * time.Millisecond)
}

// disturb has the leader killed, held up, or everybody gone for a while.
func (s *soup) disturb() {
	leader := s.v.leads()
	switch s.random.IntN(6) {
	case 0:
		s.v.outage(time.Duration(s.random.IntN(60)) * time.Second)
		return
	case 1:
		leader.stop()
	case 2:
		snap("fire")(leader.way)
		s.v.pass(time.Duration(s.random.IntN(15000)) * time.Millisecond)
		leader.way.release()
		return
	default:
		s.v.trapped(leader, []string{"fire", "claim", "due_schedules", "enqueue"}[s.random.IntN(4)], fate(s.random.IntN(2)))
	}
	s.v.start()
}

// settle has everything that was begun come to its end, and nothing new begin.
func (s *soup) settle() {
	s.v.t.Helper()
	s.v.leads()
	for _, each := range s.all {
		_, err := s.v.store.Schedules.Resume(s.v.t.Context(), each.ref, "")
		testkit.Must(s.v.t, err)
	}
	s.v.pass(20 * time.Second)
	for _, each := range s.all {
		d := s.defs[each.ref.ID]
		d.PauseOnFailure = 0
		d.EndAt = clock.Now().Add(time.Minute)
		s.v.put(each.ref.ID, d)
		_, err := s.v.store.Schedules.Resume(s.v.t.Context(), each.ref, "")
		testkit.Must(s.v.t, err)
	}
	for end := clock.Now().Add(time.Hour); clock.Until(end) > 0 && !s.rests(); { // queues are long
		s.v.pass(5 * time.Minute)
	}
}

// rests reports whether each schedule has ended, and all that it has begun.
func (s *soup) rests() bool {
	s.v.t.Helper()
	return !slices.ContainsFunc(s.all, func(each scheduled) bool {
		now := each.read()
		return now.EndedAt.IsZero() || now.Live > 0 || now.Waiting > 0
	})
}

// agrees checks that all there is to know of a schedule fits together.
func (s scheduled) agrees() {
	s.v.t.Helper()
	now, entries, runs := s.read(), s.ledger(), s.runs()
	ran := make(map[string]int)
	for _, r := range runs {
		ran[r.ref.ID]++
		if r.begun.Before(r.tick) {
			s.v.t.Errorf("%s began at %s, before its time", r.ref, r.begun)
		}
	}
	fired := 0
	backfilled := make(map[string]bool)
	for _, e := range entries {
		id := s.ref.ID + "@" + e.Name
		_, manual, err := schedule.ParseTickName(e.Name)
		testkit.Must(s.v.t, err)
		switch {
		case e.Outcome == schedule.Queued:
			s.v.t.Errorf("%s still waits", id)
		case e.HasTask != (e.Outcome == schedule.Fired || e.Outcome == schedule.Triggered || e.Outcome == schedule.Backfilled) && e.Outcome != schedule.Replaced:
			s.v.t.Errorf("%s is %s, and has a task: %v", id, e.Outcome, e.HasTask)
		case e.HasTask && ran[id] != 1 && !s.cancelledBefore(id):
			s.v.t.Errorf("%s is %s, and its task ran %d times", id, e.Outcome, ran[id])
		case !e.HasTask && ran[id] > 0:
			s.v.t.Errorf("%s is %s, and ran all the same", id, e.Outcome)
		}
		if e.HasTask && !manual && e.Outcome != schedule.Backfilled {
			fired++
		}
		backfilled[id] = e.Outcome == schedule.Backfilled
		delete(ran, id)
	}
	for id := range ran {
		s.v.t.Errorf("%s ran, and has no record", id)
	}
	s.counts(fired)
	if now.EndedAt.IsZero() {
		s.v.t.Errorf("%s has not ended", s.ref)
	}
	if now.Overlap != schedule.OverlapAllow {
		runs = slices.DeleteFunc(runs, func(r ranTick) bool { return backfilled[r.ref.ID] })
		for i := 1; i < len(runs); i++ {
			if runs[i].begun.Before(runs[i-1].ended) {
				s.v.t.Errorf("%s began at %s, before %s ended at %s", runs[i].ref, runs[i].begun, runs[i-1].ref, runs[i-1].ended)
			}
		}
	}
	report, err := useCases(s.v.store).AuditSchedule(s.v.t.Context(), caller, s.ref.ID, time.Time{}, time.Time{})
	testkit.Must(s.v.t, err)
	if !report.Proved || report.Pending > 0 || report.Accounted < 20 {
		s.v.t.Errorf("the audit of %s: %+v", s.ref, report)
	}
}

// cancelledBefore says whether a task was cancelled before it began.
func (s scheduled) cancelledBefore(id string) bool {
	s.v.t.Helper()
	found, err := s.v.store.Tasks.Get(s.v.t.Context(), task.Ref{Namespace: s.ref.Namespace, ID: id})
	testkit.Must(s.v.t, err)
	return found.State == task.Cancelled && found.StartedAt.IsZero()
}
