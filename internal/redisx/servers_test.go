package redisx_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// wantServers expects that a process which has sent a command knows servers.
func wantServers(t *testing.T, url string, servers ...*redistest.Server) {
	t.Helper()
	link := redisx.NewLink(nil)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: url, Link: link})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	testkit.Must(t, db.Set(t.Context(), "k", "v", 0).Err())
	known := link.Servers()
	for _, server := range servers {
		if !slices.Contains(known, server.Addr()) {
			t.Errorf("%s is not one of the servers of %s: %q", server.Addr(), url, known)
		}
	}
}

// first is a URL with the first of its hosts only.
func first(t *testing.T, text string) string {
	t.Helper()
	scheme, rest, _ := strings.Cut(text, "://")
	hosts, path, _ := strings.Cut(rest, "/")
	host, _, _ := strings.Cut(hosts, ",")
	return scheme + "://" + host + "/" + path
}

// wantFound expects that Discover finds a server that was not known before.
func wantFound(t *testing.T, db *redisx.DB, address string) {
	t.Helper()
	if slices.Contains(db.Link().Servers(), address) {
		t.Errorf("%s is known already", address)
	}
	db.Discover(t.Context())
	if known := db.Link().Servers(); !slices.Contains(known, address) {
		t.Errorf("%s is not one of %q", address, known)
	}
}

func TestDiscover_FindsAReplicaThatWasAdded(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	db := redistest.Open(t, pair.Primary.URL())
	pair.AddReplica()
	wantFound(t, db, pair.Replica.Addr())
}

// A node without slots serves no key, so no client connects to it.
func TestDiscover_FindsAnEmptyNodeOfACluster(t *testing.T) {
	t.Parallel()
	start := func() (server *redistest.Server, bus int) {
		bus = redistest.FreePort(t)
		return redistest.Start(t, redistest.With("--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus))), bus
	}
	server, _ := start()
	testkit.Must(t, server.Admin().ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	db := redistest.Open(t, "redis+cluster://"+server.Addr())
	added, bus := start()
	address, port, _ := net.SplitHostPort(added.Addr())
	testkit.Must(t, server.Admin().Do(t.Context(), "cluster", "meet", address, port, bus).Err())
	testkit.Eventually(t, "the cluster knows the node", func() bool {
		return strings.Contains(server.Admin().ClusterNodes(t.Context()).Val(), added.Addr())
	})
	wantFound(t, db, added.Addr())
}

func TestServers_AreTheOneServerAndItsReplica(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	_, port, _ := net.SplitHostPort(pair.Primary.Addr())
	// The primary is known by the address that was dialed.
	wantServers(t, "redis://localhost:"+port+"/0", pair.Primary, pair.Replica)
}

func TestServers_AreAllOfASentinelDeployment(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	wantServers(t, first(t, s.URL()), append(slices.Clone(s.Sentinels), s.Servers...)...)
	one, all := redistest.Open(t, first(t, s.URL())), redistest.Open(t, s.URL())
	added := s.AddSentinel().Addr()
	wantFound(t, one, added)
	for _, server := range []*redistest.Server{s.Sentinels[0], s.Servers[0]} { // the first that are asked
		server.Pause()
		t.Cleanup(server.Continue)
	}
	wantFound(t, all, added)
}

func TestServers_AreAllNodesOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	wantServers(t, first(t, c.URL()), c.Servers...)
}

func TestServers_AreThePortBesideASocketOfUnix(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "") //nolint:usetesting // t.TempDir is too long a path for a socket
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(folder)) })
	socket := filepath.Join(folder, "s")
	server := redistest.Start(t, redistest.With("--unixsocket", socket))
	wantServers(t, (&url.URL{Scheme: "unix", Path: socket}).String(), server)
}
