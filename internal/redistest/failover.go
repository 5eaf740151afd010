package redistest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// Pair is a primary and a replica. Clients reach the primary through a proxy, and after a failover the replica.
type Pair struct {
	*Proxy
	Primary, Replica *Server
	t                testing.TB
}

// syncAtOnce has a primary not wait for further replicas when one asks for the data.
var syncAtOnce = With("--repl-diskless-sync-delay", "0")

// StartPair starts a primary and a replica, and waits until the replica follows. Both end with the test.
func StartPair(t testing.TB, opts ...Option) *Pair {
	t.Helper()
	testkit.NotQuick(t)
	p := &Pair{Primary: Start(t, append([]Option{syncAtOnce}, opts...)...), t: t}
	p.Proxy = NewProxy(t, p.Primary.Addr())
	p.AddReplica(opts...)
	return p
}

// AddReplica starts another replica of the primary, which takes the place of Replica, and waits until it follows.
func (p *Pair) AddReplica(opts ...Option) {
	p.t.Helper()
	p.Replica = Start(p.t, append([]Option{With("--replicaof", host, fmt.Sprint(p.Primary.port)), syncAtOnce}, opts...)...)
	testkit.Eventually(p.t, "the replica follows", p.Replica.follows)
}

// Detach has the replica, which has everything by then, follow the primary no longer: what is written from then on, a failover loses.
func (p *Pair) Detach() (since time.Time) {
	p.t.Helper()
	copied(p.t, p.Primary, []*Server{p.Replica}, func() {
		since = clock.Now()
		testkit.Must(p.t, p.Replica.Admin().ReplicaOf(p.t.Context(), "NO", "ONE").Err())
	})
	return since
}

// FailOver kills the primary. The replica becomes the primary, also after a restart, and the proxy leads to it.
func (p *Pair) FailOver() {
	p.t.Helper()
	p.Primary.Kill()
	p.Cut()
	ctx, replica := p.t.Context(), p.Replica.Admin()
	if err := errors.Join(replica.ReplicaOf(ctx, "NO", "ONE").Err(), replica.ConfigRewrite(ctx).Err()); err != nil {
		p.t.Fatal(err)
	}
	p.Primary = p.Replica
	p.Redirect(p.Primary.Addr())
	p.Mend()
}

// SwitchOver has the proxy lead to the replica, which is one still.
func (p *Pair) SwitchOver() {
	p.t.Helper()
	p.Cut()
	p.Redirect(p.Replica.Addr())
	p.Mend()
}

// Follow has a server become a replica of another one, and waits until it follows.
func (s *Server) Follow(primary *Server) {
	s.t.Helper()
	testkit.Must(s.t, s.Admin().ReplicaOf(s.t.Context(), host, fmt.Sprint(primary.port)).Err())
	testkit.Eventually(s.t, "it follows", s.follows)
}
