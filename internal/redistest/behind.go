package redistest

import (
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// Behind are replicas that get nothing any more of what their primary writes, and may still take over from it.
type Behind struct {
	Primary   *Server
	replicas  []*Server
	passwords []string
}

// LeaveBehind has both replicas miss what the primary writes from now on.
func (s *Sentinel) LeaveBehind() *Behind {
	s.t.Helper()
	b := &Behind{Primary: s.Primary()}
	for _, server := range s.Servers {
		if server != b.Primary {
			b.replicas = append(b.replicas, server)
		}
	}
	b.leave(s.t)
	return b
}

// LeaveBehind has the replica of the server that holds a key miss what that writes from now on.
func (c *Cluster) LeaveBehind(key string) *Behind {
	c.t.Helper()
	b := &Behind{Primary: c.Primary(key)}
	b.replicas = []*Server{c.replica(b.Primary)}
	b.leave(c.t)
	return b
}

// leave ends the links of the replicas, which cannot log in again.
func (b *Behind) leave(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	copied(t, b.Primary, b.replicas, func() {
		for _, r := range b.replicas {
			b.passwords = append(b.passwords, r.Admin().ConfigGet(ctx, "masterauth").Val()["masterauth"])
			testkit.Must(t, r.Admin().ConfigSet(ctx, "masterauth", "wrong").Err())
			testkit.Must(t, r.Admin().Do(ctx, "client", "kill", "type", "master").Err())
		}
	})
}

// Follow lets the replicas follow whoever is their primary by then.
func (b *Behind) Follow(t testing.TB) {
	t.Helper()
	for i, r := range b.replicas {
		testkit.Must(t, r.Admin().ConfigSet(t.Context(), "masterauth", b.passwords[i]).Err())
		testkit.Must(t, r.Admin().ConfigRewrite(t.Context()).Err()) // a sentinel may have had it write the wrong one
	}
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
