package redistest

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// Behind are replicas that get nothing any more of what their primary writes, and may still take over from it.
type Behind struct {
	Primary   *Server
	Since     time.Time // what the primary has written before, the replicas have
	t         testing.TB
	replicas  []*Server
	passwords []string
}

// LeaveBehind has both replicas miss what the primary writes from now on.
func (s *Sentinel) LeaveBehind() *Behind {
	s.t.Helper()
	testkit.Eventually(s.t, "no failover goes on", s.calm)
	b := &Behind{t: s.t, Primary: s.Primary()}
	for _, server := range s.Servers {
		if server != b.Primary {
			b.replicas = append(b.replicas, server)
		}
	}
	b.leave()
	return b
}

// LeaveBehind has the replica of the server that holds a key miss what that writes from now on.
func (c *Cluster) LeaveBehind(key string) *Behind {
	c.t.Helper()
	b := &Behind{t: c.t, Primary: c.Primary(key)}
	b.replicas = []*Server{c.replica(b.Primary)}
	b.leave()
	return b
}

// leave ends the links of the replicas, which cannot log in again.
func (b *Behind) leave() {
	b.t.Helper()
	ctx := b.t.Context()
	for _, r := range b.replicas {
		testkit.Eventually(b.t, "the replica follows", r.follows)
	}
	copied(b.t, b.Primary, b.replicas, func() {
		b.Since = clock.Now()
		for _, r := range b.replicas {
			b.passwords = append(b.passwords, r.Admin().ConfigGet(ctx, "masterauth").Val()["masterauth"])
			testkit.Must(b.t, r.Admin().ConfigSet(ctx, "masterauth", "wrong").Err())
			testkit.Must(b.t, r.Admin().Do(ctx, "client", "kill", "type", "master").Err())
		}
	})
}

// Reunite, when one of the replicas has taken over, lets the others follow it, and starts the primary that was killed again, which then follows it,
// too.
func (b *Behind) Reunite() {
	b.t.Helper()
	for i, r := range b.replicas {
		// A sentinel closes the connections of each server that it reconfigures, and has it write its settings.
		testkit.Eventually(b.t, "the replica has its password again, and has written it", func() bool {
			return r.Admin().ConfigSet(b.t.Context(), "masterauth", b.passwords[i]).Err() == nil &&
				r.Admin().ConfigRewrite(b.t.Context()).Err() == nil
		})
	}
	b.Primary.Restart()
	testkit.Eventually(b.t, "the old primary follows the new one", b.Primary.follows)
}

// copied does something in a moment in which replicas have all that their primary has written.
func copied(t testing.TB, primary *Server, replicas []*Server, do func()) {
	t.Helper()
	testkit.Must(t, primary.Admin().Do(t.Context(), "client", "pause", startLimit.Milliseconds(), "write").Err())
	testkit.Eventually(t, "the replicas have everything", func() bool {
		written := field(t, primary, "master_repl_offset")
		for _, r := range replicas {
			if field(t, r, "slave_repl_offset") != written {
				return false
			}
		}
		return true
	})
	do()
	testkit.Must(t, primary.Admin().Do(t.Context(), "client", "unpause").Err())
}
