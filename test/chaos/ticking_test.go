package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/clock"
)

// ticking is a schedule whose ticks are known beforehand: each interval from a start to an end.
type ticking struct {
	id         string
	every      time.Duration
	start, end time.Time
	overlap    client.Overlap
	behaviour  behaviour
	takes      time.Duration
	rests      bool // clients pause and resume it

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
	schedules = 24 // more than partitions, so that most partitions have one
	restPace  = 2 * time.Second
)

// newSchedules chooses schedules that tick from start to end. The first half are probes: they tick twice a second and do nothing for long, so
// that the lateness of their ticks says how long nothing was dispatched.
func newSchedules(random *rand.Rand, start, end time.Time) []*ticking {
	var all []*ticking
	for i := range schedules {
		s := &ticking{id: fmt.Sprintf("s%02d", i), every: 500 * time.Millisecond, start: start, end: end, overlap: client.OverlapAllow, behaviour: works}
		if i >= schedules/2 {
			s.every = time.Duration(2+random.IntN(15)) * 100 * time.Millisecond
			s.overlap = []client.Overlap{client.OverlapAllow, client.OverlapSkip, client.OverlapQueue, client.OverlapReplace}[random.IntN(4)]
			s.takes = time.Duration(random.IntN(800)) * time.Millisecond
			if s.overlap == client.OverlapQueue {
				s.takes = min(s.takes, s.every/2) // what waits must end some day
			}
			s.rests = random.IntN(3) == 0
			if random.IntN(4) == 0 && s.overlap != client.OverlapQueue {
				s.behaviour = flaky
			}
		}
		all = append(all, s)
	}
	return all
}

func (s *ticking) probes() bool {
	return s.overlap == client.OverlapAllow && s.takes == 0 && s.behaviour == works
}

func (w *workload) put(s *ticking) {
	attempts := 5
	d := client.ScheduleDefinition{
		Every: ptr(s.every.String()), StartAt: &s.start, EndAt: &s.end, Overlap: &s.overlap,
		Task: client.TaskTemplate{
			Type: "http", Payload: payloadOf(w.handlers.address(s.behaviour, s.takes, 1)), Timeout: ptr("30s"),
			Retry: &client.Retry{MaxAttempts: &attempts, Backoff: &client.Backoff{Initial: ptr("100ms"), Max: ptr("500ms")}},
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

// rest pauses and resumes schedules until ctx ends, and leaves none of them paused.
func (w *workload) rest(ctx context.Context, seed uint64) {
	var running sync.WaitGroup
	for i, s := range w.schedules {
		if !s.rests {
			continue
		}
		random := rand.New(rand.NewPCG(seed, uint64(200+i)))
		running.Go(func() {
			for clock.Sleep(ctx, time.Duration(random.Int64N(int64(2*restPace)))) == nil {
				w.changeSchedule("pausing", s, func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
					return c.PauseScheduleWithResponse(ctx, s.id, nil, client.PauseScheduleJSONRequestBody{})
				})
				_ = clock.Sleep(ctx, time.Duration(random.Int64N(int64(restPace))))
				w.resume(s)
			}
		})
	}
	running.Wait()
	for _, s := range w.schedules { // Redis may have lost that one was resumed
		if s.rests && len(w.lost) > 0 {
			w.resume(s)
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

// ledger reads all records of a schedule, oldest first.
func (r *round) ledger(s *ticking) []client.LedgerEntry {
	var all []client.LedgerEntry
	limit := 500
	params := client.ReadLedgerParams{Limit: &limit}
	for {
		var page client.LedgerPage
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ReadLedgerWithResponse(ctx, s.id, &params)
		})
		if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK {
			r.t.Errorf("reading the ledger of %s was answered by %d: %s", s.id, status, body)
			return nil
		}
		all = append(all, page.Entries...)
		if params.Cursor = page.NextCursor; params.Cursor == nil {
			slices.Reverse(all)
			return all
		}
	}
}
