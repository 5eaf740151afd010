package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// pulse is a spec of which it is plain, without any computing, whether it ticks at an instant.
type pulse struct {
	schedule.Spec
	ticks func(at, created time.Time) bool
}

// pulses are specs with ticks close to each other. Several of them tick at the same instants.
func pulses(created time.Time) []pulse {
	seconds := func(n int) pulse {
		return pulse{cron(fmt.Sprintf("*/%d * * * * *", n)), func(at, _ time.Time) bool {
			return at.Nanosecond() == 0 && at.Second()%n == 0
		}}
	}
	interval := func(d time.Duration) pulse {
		return pulse{schedule.Spec{Rules: []schedule.Rule{{Every: d}}}, func(at, created time.Time) bool {
			return at.Sub(created)%d == 0
		}}
	}
	minute := pulse{cron("* * * * *"), func(at, _ time.Time) bool { return at.Nanosecond() == 0 && at.Second() == 0 }}
	anchored := pulse{
		schedule.Spec{Rules: []schedule.Rule{{Every: 1500 * time.Millisecond}}, StartAt: created.Add(-time.Hour)},
		func(at, created time.Time) bool { return at.Sub(created.Add(-time.Hour))%(1500*time.Millisecond) == 0 },
	}
	return []pulse{seconds(5), seconds(7), interval(2 * time.Second), interval(4500 * time.Millisecond), minute, anchored}
}

// stage is the time from which on a definition is in force.
type stage struct {
	from time.Time
	pulse
}

// inForce is the stage that decides about a tick: from the moment after its beginning on.
func inForce(stages []stage, tick time.Time) (stage, bool) {
	for _, s := range slices.Backward(stages) {
		if s.from.Before(tick) {
			return s, true
		}
	}
	return stage{}, false
}

// Definitions are replaced all the time, often at the very instant of a tick. Some arrive late, some while the leader is
// about to fire; leaders are killed as they fire. Each instant ticks by what was in force then, once.
func TestTravel_ChangingASpecWhileTicksAreDueLosesAndDoublesNothing(t *testing.T) {
	testkit.NotQuick(t)
	for _, seed := range testkit.Sample(t, 1, []uint64{0, 1, 2}) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			from := at("2026-03-08T06:50Z")
			travel(t, from, quick, func(v *voyage) {
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // what is random can be repeated
				v.start()
				v.start()
				until := from.Add(testkit.Amount(4*time.Minute, 10*time.Minute))
				c := v.changer(seed)
				var changing sync.WaitGroup
				changing.Go(func() { c.keepChanging(rand.New(rand.NewPCG(seed, 3)), until) }) //nolint:gosec // as above
				for clock.Until(until) > 30*time.Second {
					leader := v.leads()
					v.pass(time.Duration(random.IntN(20000)) * time.Millisecond)
					if random.IntN(2) == 0 {
						v.interrupted(leader, c.change)
						continue
					}
					v.trapped(leader, []string{"fire", "due_schedules", "claim"}[random.IntN(3)], fate(random.IntN(2)))
					v.start()
				}
				changing.Wait()
				v.until(until.Add(time.Minute + 250*time.Millisecond)) // between ticks

				s := scheduled{v, task.Ref{Namespace: task.DefaultNamespace, ID: "s"}}
				_, err := v.store.Schedules.Pause(v.t.Context(), s.ref, "", "")
				testkit.Must(t, err)
				ticks := c.ticks(s.read().Cursor)
				if len(ticks) < testkit.Amount(60, 100) || len(c.stages) < 20 {
					t.Fatalf("%d ticks of %d revisions: too few to say anything", len(ticks), len(c.stages))
				}
				s.matches(ticks)
				s.late(10 * time.Second) // catching up
			})
		})
	}
}

// interrupted has something done while what the leader decided is on its way to Redis.
func (v *voyage) interrupted(leader *traveller, do func()) {
	start := clock.Now()
	select {
	case <-leader.way.lay("fire", sendLate):
	case <-time.After(10 * time.Second):
		leader.way.hold()
	}
	do()
	leader.way.release()
	v.gaps = append(v.gaps, gap{start, clock.Now()})
}

// changer replaces a definition again and again, and remembers what was in force when.
type changer struct {
	v       *voyage
	way     *way
	store   *store.Store
	random  *rand.Rand
	choices []pulse
	created time.Time
	one     chan struct{} // has room for one who changes
	stages  []stage
}

func (v *voyage) changer(seed uint64) *changer {
	v.t.Helper()
	created := clock.Now().UTC()
	c := &changer{
		v: v, way: newWay(v.redis), choices: pulses(created), created: created, one: make(chan struct{}, 1),
		random: rand.New(rand.NewPCG(seed, 2)), //nolint:gosec // what is random can be repeated
	}
	var err error
	c.store, err = store.Open(v.t.Context(), store.Options{DB: v.open(c.way.dial)})
	testkit.Must(v.t, err)
	c.change()
	return c
}

// change replaces the definition once. Now and then it arrives a while after the look that came before it.
func (c *changer) change() {
	c.one <- struct{}{} // a mutex would not let time go by
	defer func() { <-c.one }()
	if c.random.IntN(3) == 0 {
		c.way.lay("put_schedule", sendLate)
		time.AfterFunc(time.Duration(c.random.IntN(2500))*time.Millisecond, c.way.release)
	}
	n := len(c.stages)
	next := c.choices[n%len(c.choices)]
	put, err := useCases(c.store).PutSchedule(c.v.t.Context(), caller, schedule.Definition{
		Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "s"}, Spec: next.Spec, Overlap: schedule.OverlapAllow,
		Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: time.Hour, Max: 1000}, Task: task.Definition{Type: "echo"},
	}, control.PutOptions{})
	if err != nil || !put.Changed {
		c.v.t.Errorf("change %d: changed %v, %v", n, put.Changed, err)
	}
	c.stages = append(c.stages, stage{put.Schedule.UpdatedAt, next})
}

func (c *changer) keepChanging(random *rand.Rand, until time.Time) {
	for clock.Until(until) > 0 {
		c.change()
		pause := time.Duration(random.IntN(60)) * 500 * time.Millisecond // together with a tick
		switch random.IntN(4) {
		case 0:
			pause += time.Duration(random.IntN(500)) * time.Millisecond
		case 1:
			pause = 0
		}
		c.v.pass(pause)
	}
}

// ticks is when it ticks up to that time, by what was in force then.
func (c *changer) ticks(until time.Time) []time.Time {
	var ticks []time.Time
	for tick := c.created; !tick.After(until); tick = tick.Add(500 * time.Millisecond) {
		if current, ok := inForce(c.stages, tick); ok && current.ticks(tick, c.created) {
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// matches is accounted, for a schedule of which only the newest revisions are known, so that the audit proves no more
// than what they say.
func (s scheduled) matches(ticks []time.Time) {
	s.v.t.Helper()
	want := make(map[time.Time]int)
	for _, tick := range ticks {
		want[tick]++
	}
	for _, e := range s.ledger() {
		if e.Outcome != schedule.Fired {
			s.v.t.Errorf("the tick of %s was %s: %s", e.Tick, e.Outcome, e.Reason)
		}
		want[e.Tick] += 10
	}
	for _, r := range s.runs() {
		want[r.tick] += 100
		if r.begun.Before(r.tick) {
			s.v.t.Errorf("the tick of %s ran early, at %s", r.tick, r.begun)
		}
	}
	for tick, n := range want {
		if n != 111 {
			s.v.t.Errorf("the tick of %s: named %d times, recorded %d times, ran %d times", tick, n%10, n/10%10, n/100)
		}
	}
	s.counts(len(ticks))
	report, err := useCases(s.v.store).AuditSchedule(s.v.t.Context(), caller, s.ref.ID, time.Time{}, time.Time{})
	testkit.Must(s.v.t, err)
	if len(report.Gaps) > 0 || len(report.Strays) > 0 || report.Pending > 0 || report.Accounted == 0 {
		s.v.t.Errorf("the audit: %+v", report)
	}
}
