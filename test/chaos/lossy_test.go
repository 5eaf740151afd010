package chaos

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
)

// replica is a primary that answers before its replica has what it wrote, and a replica that can be behind.
type replica struct {
	*redistest.Pair
	durable bool // nodes wait for the replica, where that is promised
}

func startReplica(t *testing.T) deployment {
	return replica{Pair: redistest.StartPair(t, redistest.AOF())}
}

func startDurable(t *testing.T) deployment {
	return replica{Pair: redistest.StartPair(t, redistest.AOF()), durable: true}
}

func (p replica) way(*testing.T) (string, *redistest.Proxy) { return p.URL(), nil }
func (p replica) db(t *testing.T) *redisx.DB                { return redistest.Open(t, p.URL()) }
func (p replica) server(string) *redistest.Server           { return p.Primary }
func (p replica) all() []*redistest.Server                  { return []*redistest.Server{p.Primary, p.Replica} }

func (p replica) flags() []string {
	if p.durable {
		return []string{"--durability", "wait=1"}
	}
	return nil
}

func (p replica) faults() []fault {
	return []fault{{name: "lost-writes", longest: 3 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		from := time.Now()
		p.Detach()
		_ = clock.Sleep(ctx, h.lasts)
		p.FailOver()
		p.AddReplica(redistest.AOF())
		r.lost = append(r.lost, span{from, time.Now()})
	}}}
}

// span is a time from which Redis has lost the writes.
type span struct{ from, until time.Time }

// isLossy reports whether Redis has lost writes of a time.
func (r *round) isLossy(from, until time.Time) bool {
	return slices.ContainsFunc(r.lost, func(s span) bool { return from.Before(s.until) && until.After(s.from) })
}

// isTouched reports whether something of a task was in a time of which Redis has lost the writes: an answer to a client, or a call. What must
// have become of such a task cannot be told. j is nil for the task of a tick.
func (r *round) isTouched(j *job, calls []call) bool {
	for _, c := range calls {
		if c.end.IsZero() {
			c.end = time.Now()
		}
		if r.isLossy(c.begin, c.end) {
			return true
		}
	}
	return j != nil && slices.ContainsFunc(j.answers, func(at time.Time) bool { return r.isLossy(at, at) })
}

// judgeTouched judges a task after Redis has lost something of it: it ends nevertheless, within its attempts. If nodes wait for the replica, the
// only attempt of a task was begun once.
func (r *round) judgeTouched(t client.Task, calls []call) {
	if !slices.Contains([]client.State{client.StateSucceeded, client.StateFailed, client.StateCancelled}, t.State) {
		r.violation("%s, of which Redis has lost something, is %s still", t.ID, t.State)
	}
	begun := make(map[int]int)
	for _, c := range calls {
		if c.attempt > t.MaxAttempts {
			r.violation("attempt %d of %s, which has %d at most, was begun", c.attempt, t.ID, t.MaxAttempts)
		}
		if begun[c.attempt]++; r.durable() && t.MaxAttempts == 1 && begun[c.attempt] == 2 {
			r.violation("the only attempt of %s was begun twice, although its begin waits for the replica", t.ID)
		}
	}
}

// durable reports whether accepted tasks survive the loss of writes.
func (r *round) durable() bool { return len(r.deployment.flags()) > 0 }

// doubledTicks are the tasks of a schedule's ticks of which an attempt was begun twice.
func doubledTicks(named []string, calls map[string][]call) (doubled []string) {
	for _, id := range named {
		begun := make(map[int]bool)
		for _, c := range calls[id] {
			if begun[c.attempt] {
				doubled = append(doubled, id)
				break
			}
			begun[c.attempt] = true
		}
	}
	return doubled
}
