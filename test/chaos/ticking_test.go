package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
)

// ticking is a schedule whose ticks are known beforehand: each interval from a start to an end.
type ticking struct {
	id         string
	every      time.Duration
	start, end time.Time
	overlap    wire.Overlap
	behaviour  behaviour
	takes      time.Duration
	when       wire.FollowUpWhen // after which ends a task follows that of a tick; "": after none
	pausable   bool              // clients pause and resume it
	pauses     []span            // from before each pause until after it was resumed

	asked, answered, created time.Time // when a client put it, and when DTS says that it was put
}

// expected are all of its ticks: those after it was put.
func (s *ticking) expected() []time.Time {
	var ticks []time.Time
	for at := s.start; !at.After(s.end); at = at.Add(s.every) {
		if at.After(s.created) {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

const (
	others       = 12 // schedules that are no probes
	tickAttempts = 5
	pausePace    = 2 * time.Second
)

// newSchedules chooses schedules that tick from start to end: a probe on each partition, and others of all kinds.
func newSchedules(random *rand.Rand, start, end time.Time) []*ticking {
	all := newProbes(start, end)
	for i := range others {
		s := &ticking{
			id: fmt.Sprintf("s%02d", i), every: time.Duration(2+random.IntN(15)) * 100 * time.Millisecond, start: start, end: end, behaviour: works,
			overlap: []wire.Overlap{wire.OverlapAllow, wire.OverlapSkip, wire.OverlapQueue, wire.OverlapReplace}[random.IntN(4)],
			takes:   time.Duration(1+random.IntN(800)) * time.Millisecond, pausable: random.IntN(3) == 0,
		}
		if s.overlap == wire.OverlapQueue {
			s.takes = min(s.takes, s.every/2) // what waits must end some day
		} else if random.IntN(4) == 0 {
			s.behaviour = flaky
		}
		if i < len(whens) {
			s.when = whens[i]
		}
		all = append(all, s)
	}
	return all
}

// newProbes returns a schedule of each partition that ticks each second and does nothing for long: the lateness of its ticks says how long
// nothing was dispatched there.
func newProbes(start, end time.Time) []*ticking {
	var all []*ticking
	for i := 0; len(all) < layout.DefaultPartitions; i++ {
		id := fmt.Sprintf("probe%d", i)
		if partitionOf(id) == len(all) {
			all = append(all, &ticking{id: id, every: time.Second, start: start, end: end, overlap: wire.OverlapAllow, behaviour: works})
		}
	}
	return all
}

func (s *ticking) probes() bool { return s.takes == 0 }

func (w *workload) put(s *ticking) {
	d := wire.ScheduleDefinition{
		Every: ptr(s.every.String()), StartAt: new(wire.At(s.start)), EndAt: new(wire.At(s.end)), Overlap: &s.overlap,
		Task: wire.TaskTemplate{
			Type: "http", Payload: payloadOf(w.handlers.address(s.behaviour, s.takes, 1)), Timeout: ptr(s.behaviour.timeout().String()),
			Retry: retryUpTo(tickAttempts), OnEnd: w.onEnd(s.when),
		},
	}
	s.asked = time.Now()
	status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.PutScheduleWithResponse(ctx, s.id, nil, d)
	})
	s.answered = time.Now()
	if status != http.StatusCreated && status != http.StatusOK {
		w.t.Errorf("putting %s was answered by %d: %s", s.id, status, body)
	}
}

// pause pauses and resumes schedules until ctx ends, and leaves none of them paused.
func (w *workload) pause(ctx context.Context, seed uint64) {
	var running sync.WaitGroup
	for i, s := range w.schedules {
		if !s.pausable {
			continue
		}
		random := rand.New(rand.NewPCG(seed, uint64(200+i)))
		running.Go(func() {
			for clock.Sleep(ctx, time.Duration(random.Int64N(int64(2*pausePace)))) == nil {
				paused := time.Now()
				w.changeSchedule("pausing", s, func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
					return c.PauseScheduleWithResponse(ctx, s.id, nil, client.PauseScheduleJSONRequestBody{})
				})
				_ = clock.Sleep(ctx, time.Duration(random.Int64N(int64(pausePace))))
				w.resume(s)
				s.pauses = append(s.pauses, span{paused, time.Now()})
			}
		})
	}
	running.Wait()
	for _, s := range w.schedules { // Redis may have lost that one was resumed
		if s.pausable && len(w.past.lost) > 0 {
			w.resume(s)
			s.pauses = append(s.pauses, span{w.past.lost[0].from, time.Now()})
		}
	}
}

func (w *workload) resume(s *ticking) {
	w.changeSchedule("resuming", s, func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.ResumeScheduleWithResponse(ctx, s.id, nil)
	})
}

func (w *workload) changeSchedule(what string, s *ticking, send func(context.Context, *client.ClientWithResponses) (answer, error)) {
	if status, body := w.ask(send); status != http.StatusOK {
		w.t.Errorf("%s %s was answered by %d: %s", what, s.id, status, body)
	}
}
