package test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redisx"
)

const (
	changePace   = 30 * time.Millisecond
	pauseEach    = 25 // changes, of which one is a pause
	pausedAtOnce = 8
	rushEach     = 70 // changes, of which one is a rush
	inRush       = 24
	rushAhead    = 5 * time.Millisecond
	pausedToStay = 4
	revisions    = 15 // of one schedule; the server keeps 20
)

// fleetSize is how large a fleet is, and what happens to it.
type fleetSize struct {
	secondly, minutely int           // schedules that tick every second, and every minute
	span               time.Duration // from the first schedule to the end of all
	kill               time.Duration // when one leader is killed
	stop               time.Duration // when the other one is stopped
	ticks, changes     int           // how many there must have been, for the test to say anything
}

var largeFleet = fleetSize{200, 1000, 130 * time.Second, 40 * time.Second, 80 * time.Second, 20_000, 1000}

// fleet is many schedules that live.
type fleet struct {
	fleetSize
	t       *testing.T
	api     *node
	far     *recorder
	db      *redisx.DB
	begin   time.Time
	end     time.Time // of all of them: a whole second
	all     []*living
	rng     *rand.Rand
	resting []*living
	tired   []*living // may be paused, each one once
	changes int
}

func newFleet(t *testing.T, api *node, far *recorder, db *redisx.DB, size fleetSize) *fleet {
	begin := time.Now().UTC().Truncate(time.Second)
	f := &fleet{fleetSize: size, t: t, api: api, far: far, db: db, begin: begin, end: begin.Add(size.span), rng: rand.New(rand.NewPCG(3, 200))}
	for i := range f.minutely {
		f.all = append(f.all, &living{id: fmt.Sprintf("minutely-%04d", i), minutely: true, overlap: overlapOf(i), policy: policyOf(i)})
	}
	for i := range f.secondly {
		f.all = append(f.all, &living{id: fmt.Sprintf("secondly-%03d", i), overlap: overlapOf(i), policy: policyOf(i)})
	}
	f.tired = append(append(f.tired, f.all[f.minutely:]...), f.all[:min(f.secondly/4, f.minutely)]...)
	f.rng.Shuffle(len(f.tired), func(i, j int) { f.tired[i], f.tired[j] = f.tired[j], f.tired[i] })
	return f
}

func overlapOf(i int) wire.Overlap {
	switch i % 10 {
	case 3:
		return wire.OverlapSkip
	case 7:
		return wire.OverlapQueue
	}
	return wire.OverlapAllow
}

// policyOf is "" for the default.
func policyOf(i int) wire.MisfirePolicy {
	switch i % 4 {
	case 1:
		return wire.MisfirePolicyAll
	case 2:
		return wire.MisfirePolicySkip
	}
	return ""
}

// create puts all of them for the first time.
func (f *fleet) create() {
	f.t.Helper()
	var g errgroup.Group
	g.SetLimit(4)
	for i, s := range f.all {
		when := f.first(i, s)
		g.Go(func() error { return f.put(f.t.Context(), s, when, "/ok") })
	}
	if err := g.Wait(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) first(i int, s *living) times {
	switch {
	case s.minutely && i%3 == 0:
		return atSecond(i * 7 % 60)
	case s.minutely && i%3 == 1:
		return times{cron: "H * * * * *", fits: func(second int) bool { return second == s.hashed }}
	case s.minutely:
		return times{every: time.Minute, start: f.begin.Add(time.Duration(i)*time.Minute/time.Duration(f.minutely) + time.Duration(i)*time.Millisecond)}
	case i%2 == 0:
		return everySecond()
	}
	return times{every: time.Second}
}

// another is what a schedule ticks by next.
func (f *fleet) another(s *living) times {
	shift := time.Duration(f.rng.IntN(int(time.Minute/time.Millisecond))) * time.Millisecond
	if s.minutely {
		if f.rng.IntN(2) == 0 {
			return atSecond(f.rng.IntN(60))
		}
		return times{every: time.Minute, start: f.begin.Add(shift)}
	}
	switch f.rng.IntN(6) {
	case 0:
		return times{every: 2 * time.Second}
	case 1:
		return both(evenSeconds(), times{every: time.Second, start: f.begin.Add(shift - time.Minute)})
	case 2:
		return both(everySecond(), times{every: 2500 * time.Millisecond, start: f.begin})
	case 3:
		return times{every: time.Second, start: f.begin.Add(shift - time.Minute)}
	case 4:
		return times{every: time.Second}
	}
	return everySecond()
}

// path is which handler the schedule calls next: only those that do not allow an overlap are slow, now and then.
func (f *fleet) path(s *living) string {
	if s.overlap != wire.OverlapAllow && len(s.revisions) < revisions-1 && f.rng.IntN(3) == 0 {
		return "/slow"
	}
	return "/ok"
}

// put gives a schedule its next definition, and keeps what the server answers.
func (f *fleet) put(ctx context.Context, s *living, when times, path string) error {
	number := len(s.revisions) + 1
	payload, err := json.Marshal(map[string]string{"url": f.far.URL + path + "?v=" + version(number)})
	if err != nil {
		return err
	}
	d := wire.ScheduleDefinition{
		Specs: when.rules(), EndAt: new(wire.At(f.end)), Overlap: &s.overlap, Task: wire.TaskTemplate{Type: "http", Payload: payload},
	}
	if !when.start.IsZero() {
		d.StartAt = new(wire.At(when.start))
	}
	if s.policy != "" {
		d.Misfire = &wire.Misfire{Policy: &s.policy, Window: ptr("1m0s")}
	}
	answer, err := f.api.PutScheduleWithResponse(ctx, s.id, nil, d)
	if err != nil {
		return err
	}
	put := answer.JSON200
	if number == 1 {
		put = answer.JSON201
	}
	if put == nil || put.Revision != number {
		return fmt.Errorf("revision %d of %s: %s %s", number, s.id, answer.Status(), answer.Body)
	}
	if number == 1 {
		s.created, s.hashed = put.CreatedAt.Time, put.NextAt.Second()
	}
	s.revisions = append(s.revisions, revision{times: when, since: put.UpdatedAt.Time, path: path})
	return nil
}

// live changes schedules all along, until shortly before their end.
func (f *fleet) live(ctx context.Context) error {
	pace := time.NewTicker(changePace)
	defer pace.Stop()
	over := time.After(time.Until(f.end.Add(-5 * time.Second)))
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return f.wakeAll(ctx)
		case <-pace.C:
		}
		if err := f.step(ctx, n); err != nil {
			return err
		}
	}
}

func (f *fleet) step(ctx context.Context, n int) error {
	switch {
	case n%rushEach == 0:
		return f.rush(ctx)
	case n%pauseEach == 0 && len(f.tired) > 0:
		s := f.tired[0]
		f.tired = f.tired[1:]
		return f.pause(ctx, s)
	case n%pauseEach == pauseEach/2 && len(f.resting) > pausedAtOnce:
		s := f.resting[0]
		f.resting = f.resting[1:]
		return f.resume(ctx, s)
	}
	return f.change(ctx)
}

// change gives one of the schedules other times, or only another task, if it has a tick left then.
func (f *fleet) change(ctx context.Context) error {
	s := f.all[f.minutely+f.rng.IntN(f.secondly)]
	if f.minutely > 0 && f.rng.IntN(10) >= 6 {
		s = f.all[f.rng.IntN(f.minutely)]
	}
	if put := f.changed(s); put != nil {
		return put(ctx)
	}
	return nil
}

// changed decides what a schedule becomes next; nil if it stays as it is.
func (f *fleet) changed(s *living) (put func(context.Context) error) {
	when := s.revisions[len(s.revisions)-1].times
	if f.rng.IntN(4) > 0 {
		when = f.another(s)
	}
	left := when.ticks(time.Now().Add(5*time.Second), f.end, s.created)
	if len(s.revisions) >= revisions || len(left) == 0 {
		return nil
	}
	f.changes++
	path := f.path(s)
	return func(ctx context.Context) error { return f.put(ctx, s, when, path) }
}

// rush changes many schedules at once, just when most of them are about to tick.
func (f *fleet) rush(ctx context.Context) error {
	var g errgroup.Group
	<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second - rushAhead)))
	for _, i := range f.rng.Perm(f.secondly)[:inRush] {
		if put := f.changed(f.all[f.minutely+i]); put != nil {
			g.Go(func() error { return put(ctx) })
		}
	}
	return g.Wait()
}

func (f *fleet) pause(ctx context.Context, s *living) error {
	answer, err := f.api.PauseScheduleWithResponse(ctx, s.id, nil, wire.SchedulePause{Note: ptr("has a rest")})
	if err != nil {
		return err
	}
	if answer.JSON200 == nil || answer.JSON200.PausedAt == nil {
		return fmt.Errorf("pausing %s: %s %s", s.id, answer.Status(), answer.Body)
	}
	s.rest = &pause{decided: answer.JSON200.Cursor.Time, from: answer.JSON200.PausedAt.Time}
	f.resting = append(f.resting, s)
	return nil
}

func (f *fleet) resume(ctx context.Context, s *living) error {
	before, err := f.db.Time(ctx).Result()
	if err != nil {
		return err
	}
	answer, err := f.api.ResumeScheduleWithResponse(ctx, s.id, nil)
	if err != nil {
		return err
	}
	if answer.JSON200 == nil || answer.JSON200.Paused {
		return fmt.Errorf("resuming %s: %s %s", s.id, answer.Status(), answer.Body)
	}
	after, err := f.db.Time(ctx).Result()
	s.rest.before, s.rest.after = before.UTC().Truncate(time.Millisecond), after.UTC()
	return err
}

// wakeAll resumes what is paused, but for a few that stay so.
func (f *fleet) wakeAll(ctx context.Context) error {
	staying := 0
	for _, s := range f.resting {
		if s.overlap == wire.OverlapAllow && !s.minutely && staying < pausedToStay {
			staying++
			continue
		}
		if err := f.resume(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
