package asynqexec

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

const (
	// A task is looked at after a tenth of the time for which nothing has happened, within these bounds.
	lookLeast = 50 * time.Millisecond
	lookMost  = time.Second
	// lookLimit is the most tasks in one pipeline.
	lookLimit = 1000
	// answerLimit is how long Redis may take to answer one pipeline, and to delete what it can of all settled tasks.
	answerLimit = time.Second
)

// gone is the state of a task that is not there.
const gone = ""

// poller looks at the states of all tasks that this node follows: one goroutine, and one pipeline for all that are due. While there
// are none, it sends nothing.
type poller struct {
	db   *redisx.DB
	wake chan struct{} // has a value if somebody changed what is below

	mu       sync.Mutex
	followed map[*followed]struct{}
	settled  []location // whose outcome is recorded
	removeAt time.Time  // when they are to be deleted; only run uses it
}

// location is where an asynq task is.
type location struct{ queue, id string }

// followed is an asynq task whose state somebody waits for.
type followed struct {
	key     string
	changes chan string // the newest state, once for each change

	state  string // the last one that was sent
	since  time.Time
	nextAt time.Time
}

func newPoller(db *redisx.DB) *poller {
	return &poller{db: db, wake: make(chan struct{}, 1), followed: make(map[*followed]struct{})}
}

// follow has the changes of a task's state sent, beginning with its state now. unknown is a state that is none.
func (p *poller) follow(at location) *followed {
	f := &followed{key: string(lua.AsynqQueue(at.queue).Delivery(at.id)), changes: make(chan string, 1), state: unknown}
	f.since = clock.Now()
	f.nextAt = f.since
	p.change(func() { p.followed[f] = struct{}{} })
	return f
}

const unknown = "unknown"

// again has the state sent again with the next look, though it has not changed.
func (p *poller) again(f *followed) { p.change(func() { f.state = unknown }) }

// soon is again, with short waits as after a change.
func (p *poller) soon(f *followed) {
	p.change(func() {
		f.state, f.since = unknown, clock.Now()
		f.nextAt = f.since.Add(lookLeast)
	})
}

func (p *poller) forget(f *followed) { p.change(func() { delete(p.followed, f) }) }

// change changes what the poller works on, and wakes it.
func (p *poller) change(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run looks until ctx ends. remove deletes tasks whose outcome is recorded; the last ones when ctx has ended. It returns those that are to
// be tried again.
func (p *poller) run(ctx context.Context, remove func(context.Context, []location) []location) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		for some := range slices.Chunk(p.due(), lookLimit) {
			p.look(ctx, some)
		}
		if !clock.Now().Before(p.removeAt) {
			p.clear(ctx, remove)
		}
		timer.Reset(p.untilNext())
	}
	p.clear(context.WithoutCancel(ctx), remove)
}

// untilNext is the time until the next look or deletion; a long one if nothing is followed or settled.
func (p *poller) untilNext() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := time.Hour
	if len(p.settled) > 0 {
		next = clock.Until(p.removeAt)
	}
	for f := range p.followed {
		next = min(next, clock.Until(f.nextAt))
	}
	return max(next, 0)
}

// due returns the tasks to look at: those that are due, and those that will be soon, so that they share pipelines from then on.
func (p *poller) due() []*followed {
	p.mu.Lock()
	defer p.mu.Unlock()
	horizon := clock.Now().Add(lookLeast / 2)
	return slices.DeleteFunc(slices.Collect(maps.Keys(p.followed)), func(f *followed) bool { return f.nextAt.After(horizon) })
}

// look reads the states of tasks. If Redis does not answer, they keep the ones they have.
func (p *poller) look(ctx context.Context, some []*followed) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	pipe := p.db.Pipeline()
	states := make([]*redis.StringCmd, len(some))
	for i, f := range some {
		states[i] = pipe.HGet(ctx, f.key, "state")
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	now := clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range some {
		state, err := states[i].Result()
		if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
			f.nextAt = now.Add(lookMost)
			continue
		}
		f.note(state, now)
	}
}

// note takes the state that was read, gone if there is no task.
func (f *followed) note(state string, now time.Time) {
	if state != f.state {
		f.state, f.since = state, now
		select {
		case <-f.changes: // nobody has read the one before
		default:
		}
		f.changes <- state
	}
	f.nextAt = now.Add(min(max(now.Sub(f.since)/10, lookLeast), lookMost))
}
