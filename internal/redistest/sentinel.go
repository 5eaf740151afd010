package redistest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// primaryName is what the sentinels call what they watch.
const primaryName = "mymaster"

const (
	sentinels = 3
	// downAfter is how long, in ms, a server may stay silent until a sentinel takes it for dead.
	downAfter = 1000
)

// Sentinel is a primary with two replicas, and three sentinels that watch them. It ends with the test.
type Sentinel struct {
	t         testing.TB
	Servers   []*Server // the first one is the primary at the start
	Sentinels []*Server
}

// StartSentinel starts the servers with the options, and waits until every sentinel knows all of them. The primary refuses writes while it
// has no replica.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	testkit.NotQuick(t)
	s := &Sentinel{t: t}
	opts = append([]Option{
		With("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
	}, opts...)
	primary := Start(t, opts...)
	s.Servers = []*Server{primary}
	following := slices.Concat(opts, []Option{With("--replicaof", host, fmt.Sprint(primary.knownPort()))})
	for range 2 {
		s.Servers = append(s.Servers, Start(t, following...))
	}
	testkit.Eventually(t, "the replicas follow", func() bool {
		return strings.Count(info(t, primary, "replication"), "state=online") == 2
	})
	for range sentinels {
		sentinel := Start(t, s.sentinel)
		// So it makes a former primary a replica within 2 s, instead of 20. A Redis older than 7.0 does not know this.
		_ = sentinel.Admin().Do(t.Context(), "sentinel", "debug", "publish-period", 200, "info-period", 500)
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	testkit.Eventually(t, "the sentinels know each other and the servers", s.complete)
	return s
}

// AddSentinel starts another sentinel, and waits until the others know it.
func (s *Sentinel) AddSentinel() *Server {
	s.t.Helper()
	added := Start(s.t, s.sentinel)
	s.Sentinels = append(s.Sentinels, added)
	testkit.Eventually(s.t, "the sentinels know the new one", s.complete)
	return added
}

// sentinel makes a server a sentinel.
func (s *Sentinel) sentinel(server *Server) {
	primary := s.Servers[0]
	server.mode, server.certs, server.user = []string{"--sentinel"}, primary.certs, primary.user
	if primary.gateway != nil {
		Gated(primary.gateway.client)(server)
	}
	set := func(setting string, values ...any) {
		With("--sentinel", setting, primaryName)(server)
		for _, v := range values {
			With(fmt.Sprint(v))(server)
		}
	}
	set("monitor", host, primary.knownPort(), sentinels/2+1)
	set("down-after-milliseconds", downAfter)
	set("failover-timeout", 10*downAfter)
	if server.user != "" {
		set("auth-pass", secret)
		With("--requirepass", secret, "--sentinel", "sentinel-pass", secret)(server)
	}
	if server.certs != nil {
		TLS(server.certs)(server)
	}
}

// SetPatience sets how long a server may stay silent until the sentinels take it for dead: at first, a second.
func (s *Sentinel) SetPatience(d time.Duration) {
	s.t.Helper()
	for _, sentinel := range s.Sentinels {
		testkit.Must(s.t, sentinel.Admin().Do(s.t.Context(), "sentinel", "set", primaryName, "down-after-milliseconds", d.Milliseconds()).Err())
	}
}

// complete reports whether every sentinel knows the two others and both replicas.
func (s *Sentinel) complete() bool {
	for _, sentinel := range s.Sentinels {
		text := info(s.t, sentinel, "sentinel")
		if !strings.Contains(text, fmt.Sprintf("status=ok,address=%s,slaves=2,sentinels=%d", s.Servers[0].knownAddr(), max(sentinels, len(s.Sentinels)))) {
			return false
		}
	}
	return true
}

// URL is the address of the deployment as redisx.Open and --redis take it.
func (s *Sentinel) URL() string {
	parameters := url.Values{}
	if s.Servers[0].user != "" {
		parameters.Set("sentinel_password", secret)
	}
	hosts := make([]string, len(s.Sentinels))
	for i, sentinel := range s.Sentinels {
		hosts[i] = sentinel.knownAddr()
	}
	return s.Servers[0].urlOf("redis+sentinel", strings.Join(hosts, ",")+"/"+primaryName+"/0", parameters)
}

// Primary returns the server that most sentinels take for the primary.
func (s *Sentinel) Primary() *Server {
	s.t.Helper()
	votes := map[string]int{}
	for _, sentinel := range s.Sentinels {
		at := sentinel.Admin().Do(s.t.Context(), "sentinel", "get-master-addr-by-name", primaryName)
		if host, err := at.StringSlice(); err == nil {
			votes[strings.Join(host, ":")]++
		}
	}
	return elected(s.t, s.Servers, votes)
}

// Failover has the sentinels make a replica the primary, and the old primary follow it. Writes wait meanwhile: the old one would go on to
// accept them until clients know the new one, and lose them.
func (s *Sentinel) Failover() {
	s.t.Helper()
	before := s.Primary()
	testkit.Must(s.t, before.Admin().Do(s.t.Context(), "client", "pause", 10*downAfter, "write").Err())
	testkit.Eventually(s.t, "the sentinels begin a failover", func() bool {
		return s.Sentinels[0].Admin().Do(s.t.Context(), "sentinel", "failover", primaryName).Err() == nil
	})
	testkit.Eventually(s.t, "the sentinels agree on another primary", func() bool { return s.Primary() != before })
	s.Settle(before)
	testkit.Must(s.t, before.Admin().Do(s.t.Context(), "client", "unpause").Err())
}

// calm reports whether no sentinel makes a failover, or takes the primary for dead.
func (s *Sentinel) calm() bool {
	for _, sentinel := range s.Sentinels {
		primary := redis.NewMapStringStringCmd(s.t.Context(), "sentinel", "master", primaryName)
		if err := sentinel.Admin().Process(s.t.Context(), primary); err != nil || primary.Val()["flags"] != "master" {
			return false
		}
	}
	return true
}

// Settle waits until no failover goes on, and has a server follow the primary, unless it is that. The sentinels do so as well, but not while
// writes wait at the server.
func (s *Sentinel) Settle(server *Server) {
	s.t.Helper()
	testkit.Eventually(s.t, "no failover goes on", s.calm)
	primary := s.Primary()
	if primary == server {
		return
	}
	testkit.Must(s.t, server.Admin().ReplicaOf(s.t.Context(), host, fmt.Sprint(primary.knownPort())).Err())
	testkit.Eventually(s.t, "the server follows the primary", server.follows)
}

// elected returns the server whose address has the most votes.
func elected(t testing.TB, servers []*Server, votes map[string]int) *Server {
	t.Helper()
	var winner *Server
	for _, s := range servers {
		if n := votes[s.knownAddr()]; n > 0 && (winner == nil || n > votes[winner.knownAddr()]) {
			winner = s
		}
	}
	if winner == nil {
		t.Fatalf("no server is the primary: %v", votes)
	}
	return winner
}

// info reads a section of INFO; "" if the server does not answer.
func info(t testing.TB, s *Server, section string) string {
	t.Helper()
	return s.Admin().Info(t.Context(), section).Val()
}

// field reads a field of INFO replication; "" if the server does not answer or does not have it.
func field(t testing.TB, s *Server, name string) string {
	t.Helper()
	fields, _ := redisx.Info(t.Context(), s.Admin(), "replication")
	return fields[name]
}

// follows reports whether a server is a replica that is linked to its primary.
func (s *Server) follows() bool {
	s.t.Helper()
	return field(s.t, s, "master_link_status") == "up"
}
