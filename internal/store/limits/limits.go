// Package limits bounds how many tasks wait in a queue. People know a limit as the queue's capacity; here and in Redis,
// it has its old name. It is kept in Redis, so all nodes follow it. It counts tasks that are due and that no worker has
// taken: in DTS, and in asynq's queue. A task that is due later does not wait in its queue yet.
//
// The count is not part of the script that creates a task, as a queue's tasks are in all partitions. Each process counts about once a second,
// and remembers what it has let in since. So one process lets in no more than there is room for; of several, each may let in what
// there was room for when it counted. Tasks that a leader is handing over at that moment are not seen.
//
// A count looks at each lane of the queue. The longer it takes, the later is the next one, so that counts do not keep
// Redis busy.
package limits

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// CodeFull: as many tasks wait in the queue as its limit allows.
const CodeFull task.Code = "queue_full"

const (
	// Most is the highest limit of a queue.
	Most = 100_000_000
	// MostQueues is the most queues that have a limit.
	MostQueues = 1000

	textLimit = 40 // bytes of a limit that cannot be read, as they are quoted

	lifetime     = time.Second           // how long the limits, and a count, are used
	countPause   = 50 * time.Millisecond // between two counts of a queue, at least: it may seem to be full
	countTimes   = 20                    // how many times as long as a count that pause is
	countLongest = 10 * time.Second      // that pause, at most: the queue may have room meanwhile
	timeout      = time.Second           // of reading either again
	firstTimeout = 3 * time.Second       // of reading either for the first time, as every queue has room while it fails
	countRetry   = 3 * time.Second       // between two counts of a queue while they fail, as a server of Redis is away
)

// Limits knows the limits of an installation's queues. It is safe for concurrent use.
type Limits struct {
	l      *layout.Layout
	queues *queue.Queues

	reads singleflight.Group // one reading of the limits for all who wait for it

	mu     sync.Mutex
	known  map[string]int    // by queue
	readAt time.Time         // when the last reading ended, or the one that is under way began; zero: they have to be read
	asked  bool              // a reading has ended, with success or without
	gauges map[string]*gauge // of queues that have a limit
}

// New returns the limits of an installation. It sends nothing to Redis.
func New(l *layout.Layout, queues *queue.Queues) *Limits {
	return &Limits{l: l, queues: queues, gauges: make(map[string]*gauge)}
}

// Set limits how many tasks may wait in a queue; 0 lifts the limit. by is who wants it, "" if nobody knows.
// Errors: CodeInvalid, CodeUnavailable.
func (s *Limits) Set(ctx context.Context, name string, limit int, by string) error {
	if err := task.ValidateQueue(name); err != nil {
		return err
	}
	if limit < 0 || limit > Most {
		return task.Invalid("capacity", "%d must be 0 to %d; 0 for any number of tasks", limit, Most)
	}
	if limit > 0 {
		known, err := s.All(ctx)
		if err != nil {
			return err
		}
		if _, has := known[name]; !has && len(known) >= MostQueues {
			return task.Invalid("queue", "%d queues have a capacity, and no more may: remove that of another one", MostQueues)
		}
	}
	call := lua.LimitQueue{Limits: s.l.Keys.Limits(), Queue: name, Limit: limit, By: by, Changes: s.l.Keys.Changes()}
	if _, err := redisx.Run(ctx, s.l.DB, call); err != nil {
		return layout.Unavailable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = time.Time{}
	return nil
}

// All reads the limits, by queue. Those that cannot be read are left out, which redisx.LeavingOut notes. Error: CodeUnavailable.
func (s *Limits) All(ctx context.Context) (map[string]int, error) {
	texts, err := s.l.DB.HGetAll(ctx, string(s.l.Keys.Limits())).Result()
	switch {
	case redisx.LeaveOutKey(ctx, string(s.l.Keys.Limits()), err):
		return map[string]int{}, nil
	case err != nil:
		return nil, layout.Unavailable(err)
	}
	all := make(map[string]int, len(texts))
	for name, text := range texts {
		n, err := Parse(text)
		if err != nil { // somebody may have written to Redis by hand
			redisx.LeaveOut(ctx, "the limit %q of queue %q is left out, as it is no number", task.CutMiddle(text, textLimit), name)
			continue
		}
		all[name] = n
	}
	return all, nil
}

// Parse reads a limit as it is stored. Error: it is no number from 1 on.
func Parse(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = strconv.ErrRange
	}
	return n, err
}

// Enter reserves a place in a queue for a task that is due now. The caller calls Leave of the place when it knows whether the task is in Redis.
// While Redis does not answer, and when ctx has ended, every queue has room: the write that follows fails by itself. What Enter reads is for others,
// too, so the end of ctx does not stop it. Error: CodeFull.
func (s *Limits) Enter(ctx context.Context, name string) (*Place, error) {
	limit, g := s.of(ctx, name)
	if limit == 0 {
		return nil, nil
	}
	if g.enter(limit, lifetime) {
		return &Place{g}, nil
	}
	waiting, known := g.recount(ctx, func(patience time.Duration) (int, bool) {
		return s.count(context.WithoutCancel(ctx), name, patience)
	})
	switch {
	case !known:
		return nil, nil
	case g.enter(limit, 0):
		return &Place{g}, nil
	}
	const full = "the queue %q is full: %d tasks wait in it, its capacity is %d"
	return nil, task.Errorf(CodeFull, full, name, waiting, limit)
}

// Any reports whether any queue has a limit, by a reading that is a second old at most if Redis answers.
func (s *Limits) Any(ctx context.Context) bool {
	s.refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known) > 0
}

// Of returns the limit of a queue, 0 if it has none, by a reading as that of Any.
func (s *Limits) Of(ctx context.Context, name string) int {
	limit, _ := s.of(ctx, name)
	return limit
}

// of returns the limit of a queue, 0 if it has none, and its gauge.
func (s *Limits) of(ctx context.Context, name string) (int, *gauge) {
	s.refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.known[name]
	if limit == 0 {
		return 0, nil
	}
	g := s.gauges[name]
	if g == nil {
		g = &gauge{}
		s.gauges[name] = g
	}
	return limit, g
}

// refresh reads the limits again when they are too old. Of several callers, one does so; all wait for the first reading.
func (s *Limits) refresh(ctx context.Context) {
	s.mu.Lock()
	var read <-chan singleflight.Result
	if !s.asked || s.readAt.IsZero() || clock.Since(s.readAt) > lifetime {
		s.readAt = clock.Now()
		read = s.reads.DoChan("", func() (any, error) { s.read(context.WithoutCancel(ctx)); return nil, nil })
	}
	s.mu.Unlock()
	if read != nil {
		select {
		case <-read:
		case <-ctx.Done():
		}
	}
}

// read reads the limits. What was known counts until it has ended, and stays if it fails.
func (s *Limits) read(ctx context.Context) {
	s.mu.Lock()
	patience := timeout
	if !s.asked {
		patience = firstTimeout
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	known, err := s.All(ctx)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.readAt = true, clock.Now()
	if err == nil {
		s.known = known
		maps.DeleteFunc(s.gauges, func(name string, _ *gauge) bool { return known[name] == 0 })
	}
}

// count counts the tasks that wait in a queue; false if Redis does not answer, or what it has is damaged.
func (s *Limits) count(ctx context.Context, name string, patience time.Duration) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	waiting, err := s.l.CountWaiting(ctx, name)
	if redisx.IsDamage(err) {
		s.l.Log.ErrorContext(ctx, "the limit of a queue cannot hold: a key of its tasks is damaged", "queue", name, "error", err)
	}
	if err != nil {
		return 0, false
	}
	pending, err := s.queues.CountPending(ctx, name)
	return waiting + pending, err == nil
}
