package redistest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSentinel_MakesAReplicaThePrimary(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	db := redistest.Open(t, s.URL())
	testkit.Must(t, db.Set(t.Context(), "k", "1", 0).Err())

	first := s.Primary()
	s.Failover()
	second := s.Primary()
	if second == first {
		t.Fatalf("%s is still the primary", first.Addr())
	}
	testkit.Eventually(t, "the new primary takes writes", func() bool { return db.Set(t.Context(), "k", "2", 0).Err() == nil })
	for _, server := range s.Servers {
		testkit.Eventually(t, "every server has the write", func() bool { return server.Admin().Get(t.Context(), "k").Val() == "2" })
	}
	second.Kill()
	testkit.Eventually(t, "another server is the primary", func() bool { return s.Primary() != second })
	testkit.Eventually(t, "it takes writes", func() bool { return db.Set(t.Context(), "k", "3", 0).Err() == nil })
	if got := get(t, db, "k"); got != "3" {
		t.Errorf("k is %s, want 3", got)
	}
}

func TestCluster_MakesAReplicaThePrimary(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	db := redistest.Open(t, c.URL())
	testkit.Must(t, db.Set(t.Context(), "k", "1", 0).Err())

	first := c.Primary("k")
	c.Failover("k")
	testkit.Eventually(t, "the new primary takes writes", func() bool { return db.Set(t.Context(), "k", "2", 0).Err() == nil })
	testkit.Eventually(t, "the old primary has the write", func() bool {
		return strings.Contains(first.Admin().Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	second := c.Primary("k")
	second.Kill()
	testkit.Eventually(t, "the first server is the primary again", func() bool { return c.Primary("k") == first })
	second.Restart()
	testkit.Eventually(t, "it takes writes", func() bool { return db.Set(t.Context(), "k", "3", 0).Err() == nil })
	if got := get(t, db, "k"); got != "3" {
		t.Errorf("k is %s, want 3", got)
	}
}

// A write that the primary has taken is lost when a replica takes over that it has left behind.
func TestBehind_AReplicaTakesOverWithoutTheLastWrites(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	none := redistest.With("--min-replicas-to-write", "0")
	for name, start := range map[string]func() (url string, primary func() *redistest.Server, leave func() *redistest.Behind){
		"sentinel": func() (string, func() *redistest.Server, func() *redistest.Behind) {
			s := redistest.StartSentinel(t, none, redistest.AOF())
			return s.URL(), s.Primary, s.LeaveBehind
		},
		"cluster": func() (string, func() *redistest.Server, func() *redistest.Behind) {
			c := redistest.StartCluster(t, redistest.AOF())
			return c.URL(), func() *redistest.Server { return c.Primary("k") }, func() *redistest.Behind { return c.LeaveBehind("k") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, primary, leave := start()
			db := redistest.Open(t, url)
			testkit.Must(t, db.Set(t.Context(), "k", "kept", 0).Err())
			behind := leave()
			testkit.Must(t, db.Set(t.Context(), "k", "lost", 0).Err())
			behind.Primary.Kill()
			testkit.Eventually(t, "a replica takes over", func() bool { return primary() != behind.Primary })
			testkit.Eventually(t, "it answers", func() bool { return db.Get(t.Context(), "k").Err() == nil })
			if got := get(t, db, "k"); got != "kept" {
				t.Errorf("k is %q, want what the replica had", got)
			}
			behind.Reunite()
			if got := behind.Primary.Admin().Do(t.Context(), "role").String(); !strings.Contains(got, "slave") {
				t.Errorf("the old primary is %s", got)
			}
		})
	}
}

func TestCluster_MovesASlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	db := redistest.Open(t, c.URL())
	for i := range 300 {
		testkit.Must(t, db.Set(t.Context(), fmt.Sprintf("{k}%d", i), i, 0).Err())
	}
	to := c.Other("k")
	c.Move("k", to)
	if at := c.Primary("k"); at != to {
		t.Errorf("the slot is at %s, want %s", at.Addr(), to.Addr())
	}
	for i := range 300 {
		if got := get(t, db, fmt.Sprintf("{k}%d", i)); got != fmt.Sprint(i) {
			t.Errorf("{k}%d is %q", i, got)
		}
	}
}

// The URL says everything that a client needs, and without it there is no way in.
func TestUserAndTLS_AreInTheURL(t *testing.T) {
	t.Parallel()
	opts := []redistest.Option{redistest.TLS(redistest.NewCertificates(t)), redistest.User("dts", "~k", "+@all")}
	for name, url := range map[string]func(*testing.T) string{
		"standalone": func(t *testing.T) string { return redistest.Start(t, opts...).URL() },
		"Sentinel":   func(t *testing.T) string { return redistest.StartSentinel(t, opts...).URL() },
		"Cluster":    func(t *testing.T) string { return redistest.StartCluster(t, opts...).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := redistest.Open(t, url(t))
			testkit.Must(t, db.Set(t.Context(), "k", "v", 0).Err())
			if who, err := db.Do(t.Context(), "acl", "whoami").Text(); err != nil || who != "dts" {
				t.Errorf("the user is %q, error %v, want dts", who, err)
			}
			if err := db.Set(t.Context(), "other", "v", 0).Err(); err == nil {
				t.Error("the user writes a key that its rules do not allow")
			}
		})
	}
}
