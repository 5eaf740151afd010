package redistest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
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
	p := &Pair{Primary: Start(t, append([]Option{syncAtOnce}, opts...)...), t: t}
	p.Proxy = NewProxy(t, p.Primary.Addr())
	p.AddReplica(opts...)
	return p
}

// AddReplica starts another replica of the primary, which takes the place of Replica, and waits until it follows.
func (p *Pair) AddReplica(opts ...Option) {
	p.t.Helper()
	host, port, _ := strings.Cut(p.Primary.Addr(), ":")
	p.Replica = Start(p.t, append([]Option{With("--replicaof", host, port), syncAtOnce}, opts...)...)
	replica := p.Replica.DB(p.t)
	p.await("the replica follows", func() bool { return replicationOf(p.t, replica, "master_link_status") == "up" })
}

// await polls until a condition holds.
func (p *Pair) await(what string, condition func() bool) {
	p.t.Helper()
	deadline := time.NewTimer(startLimit)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			p.t.Fatalf("not within %s: %s", startLimit, what)
		}
	}
}

// replicationOf reads a field of INFO replication.
func replicationOf(t testing.TB, db *redisx.DB, field string) string {
	t.Helper()
	for line := range strings.Lines(db.Info(t.Context(), "replication").Val()) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value
		}
	}
	return ""
}

// Detach has the replica, which has everything by then, follow the primary no longer: what is written from now on, a failover loses.
func (p *Pair) Detach() {
	p.t.Helper()
	primary, replica := p.Primary.DB(p.t), p.Replica.DB(p.t)
	do := func(db *redisx.DB, command ...any) {
		if err := db.Do(p.t.Context(), command...).Err(); err != nil {
			p.t.Fatal(err)
		}
	}
	do(primary, "CLIENT", "PAUSE", startLimit.Milliseconds(), "WRITE")
	p.await("the replica has everything", func() bool {
		return replicationOf(p.t, primary, "master_repl_offset") == replicationOf(p.t, replica, "slave_repl_offset")
	})
	do(replica, "REPLICAOF", "NO", "ONE")
	do(primary, "CLIENT", "UNPAUSE")
}

// FailOver kills the primary. The replica becomes the primary, also after a restart, and the proxy leads to it.
func (p *Pair) FailOver() {
	p.t.Helper()
	p.Primary.Kill()
	p.Cut()
	ctx, replica := p.t.Context(), p.Replica.DB(p.t)
	if err := errors.Join(replica.SlaveOf(ctx, "NO", "ONE").Err(), replica.ConfigRewrite(ctx).Err()); err != nil {
		p.t.Fatal(err)
	}
	p.Primary = p.Replica
	p.Redirect(p.Primary.Addr())
	p.Mend()
}
