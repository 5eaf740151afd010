package chaos

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
)

// replica is a primary that answers before its replica has what it wrote, and a replica that can be behind.
type replica struct {
	*redistest.Pair
	durable bool // nodes wait for the replica, where that is promised
}

func startReplica(t *testing.T, _ func(net.Conn) string) deployment {
	return replica{Pair: redistest.StartPair(t, redistest.AOF())}
}

func startDurable(t *testing.T, _ func(net.Conn) string) deployment {
	return replica{Pair: redistest.StartPair(t, redistest.AOF()), durable: true}
}

func (p replica) way(*testing.T, string) (string, []*redistest.Proxy) { return p.URL(), nil }
func (p replica) db(t *testing.T) *redisx.DB                          { return redistest.Open(t, p.URL()) }
func (p replica) server(string) *redistest.Server                     { return p.Primary }
func (p replica) all() []*redistest.Server                            { return []*redistest.Server{p.Primary, p.Replica} }

func (p replica) flags() []string {
	if p.durable {
		return []string{"--durability", "wait=1"}
	}
	return nil
}

func (p replica) faults() []fault {
	return []fault{lostWrites(func(ctx context.Context, r *round, h happening) {
		from := p.Detach()
		_ = clock.Sleep(ctx, h.lasts)
		p.FailOver()
		r.past.addLoss(lostSince(from))
		p.AddReplica(redistest.AOF())
	})}
}

// lostSince is the time of writes that a primary took that has just died: what it said last may arrive a while later. Nothing starts on the next one
// in that while.
func lostSince(from time.Time) span { return span{from, time.Now().Add(settles * 2 / 3)} }

// losing is the name of the fault by which Redis loses writes.
const losing = "lost-writes"

func lostWrites(harm func(ctx context.Context, r *round, h happening)) fault {
	return fault{name: losing, away: true, always: true, longest: 3 * time.Second, harmRedis: harm}
}

// lossySentinel is a sentinel deployment whose primary writes also without a replica.
type lossySentinel struct{ sentinel }

func startLossySentinel(t *testing.T, _ func(net.Conn) string) deployment {
	return lossySentinel{startPatiently(t, redistest.With("--min-replicas-to-write", "0"))}
}

func (s lossySentinel) faults() []fault {
	return []fault{lostWrites(func(ctx context.Context, r *round, h happening) {
		r.lose(ctx, s.LeaveBehind(), h, s.Primary)
	})}
}

// lossyCluster is a cluster in which a replica can be behind.
type lossyCluster struct{ cluster }

func startLossyCluster(t *testing.T, _ func(net.Conn) string) deployment {
	return lossyCluster{cluster{redistest.StartCluster(t, redistest.AOF())}}
}

func (c lossyCluster) faults() []fault {
	return []fault{lostWrites(func(ctx context.Context, r *round, h happening) {
		b := c.LeaveBehind(h.key)
		var partitions []int
		for i := range layout.DefaultPartitions {
			if c.Primary(keyOf(i)) == b.Primary {
				partitions = append(partitions, i)
			}
		}
		r.lose(ctx, b, h, func() *redistest.Server { return c.Primary(h.key) }, partitions...)
	})}
}

// lose kills a primary, which has these partitions or all, some time after it has left its replicas behind, waits until one of them has taken over,
// and starts it again.
func (r *round) lose(ctx context.Context, b *redistest.Behind, h happening, primary func() *redistest.Server, partitions ...int) {
	_ = clock.Sleep(ctx, h.lasts)
	b.Primary.Kill()
	r.past.addLoss(lostSince(b.Since), partitions...)
	for primary() == b.Primary && clock.Sleep(ctx, 100*time.Millisecond) == nil {
		continue
	}
	b.Reunite()
}

// durable reports whether accepted tasks survive the loss of writes.
func (r *round) durable() bool { return len(r.deployment.flags()) > 0 }

// settles is how long nothing starts on another primary, so that all members can tell it what they know.
const settles = 1500 * time.Millisecond

// lateFor is how long a member tries to tell a primary.
const lateFor = redisx.TellingLimit + settles

// noteLate notes which members told a primary that had lost writes what they know so late that others may have begun their attempts again.
func (r *round) noteLate() {
	for _, l := range r.past.lost {
		noticed := make(map[*member]time.Time)
		first := never
		for _, m := range r.members {
			if m.through == nil {
				noticed[m] = m.said(found, l.until.Add(-settles))
				first = earlier(first, noticed[m])
			}
		}
		for m, at := range noticed {
			r.add(r.past.judgeTelling(l, m.name, first, m.said(told, at)))
		}
	}
}

// judgeTelling: a member tells the next primary what it knows as soon as one of them has noticed that one. If it does so late, but in the time for which it
// tries, or if something happened to it or to Redis again, that harms its attempts. If nothing happened to it, it may not be silent.
func (p *past) judgeTelling(l loss, member string, noticed, told time.Time) (v verdict) {
	if !told.After(noticed.Add(settles)) {
		return nil
	}
	if told.After(noticed.Add(lateFor)) && !p.excusesSilence(l, member, noticed) {
		v.add("%s has not told the primary that took over what it knows, by %s, and nothing had happened to it", member, noticed.Add(lateFor).UTC().Format(stamp))
		return v
	}
	p.addHarm(harm{span: span{l.until, earlier(told, l.until.Add(lateFor))}, name: "late", member: member})
	return nil
}

// excusesSilence reports whether a member may not have told a primary what it knows: something happened to it, or to Redis once more.
func (p *past) excusesSilence(l loss, member string, noticed time.Time) bool {
	telling := span{l.from, later(l.until, noticed).Add(lateFor)}
	return slices.ContainsFunc(p.harms, func(h harm) bool {
		again := h.away && (h.name != losing || h.from.After(l.until))
		return h.overlaps(telling) && (h.member == member || again)
	})
}
