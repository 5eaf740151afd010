package redisx_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestReplication_NamesTheSettingThatIsAtFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    redisx.Replication
		risk redisx.Risk
		why  string
	}{
		{redisx.Replication{Replicas: -1, Good: -1, ToWrite: -1, MaxLag: -1}, redisx.RiskUnknown, "does not say which replicas"},
		{redisx.Replication{Replicas: 2, Good: -1, ToWrite: -1, MaxLag: -1}, redisx.RiskUnknown, "does not say whether it waits"},
		{redisx.Replication{Replicas: 0, Good: -1, ToWrite: 0, MaxLag: 10}, redisx.RiskNoReplica, "no replica"},
		{redisx.Replication{Replicas: 0, Good: -1, ToWrite: -1, MaxLag: -1}, redisx.RiskNoReplica, "no replica"},
		{redisx.Replication{Replicas: 0, Good: 0, ToWrite: 1, MaxLag: 10}, redisx.RiskRefusal, "replicas: 0, of which 0 follow closely: fewer than min-replicas-to-write"},
		{redisx.Replication{Replicas: 2, Good: 1, ToWrite: 2, MaxLag: 2}, redisx.RiskRefusal, "replicas: 2, of which 1 follow closely"},
		{redisx.Replication{Replicas: 1, Good: 0, ToWrite: -1, MaxLag: -1}, redisx.RiskRefusal, "refuses every write"},
		{redisx.Replication{Replicas: 1, Good: 0, ToWrite: 1, MaxLag: 2, Clustered: true}, redisx.RiskRefusal, "refuses every write"},
		{redisx.Replication{Replicas: 1, Good: 1, ToWrite: 1, MaxLag: 2, Clustered: true}, redisx.RiskRefusalElsewhere, "min-replicas-to-write in a cluster"},
		{redisx.Replication{Replicas: 1, Good: -1, ToWrite: 0, MaxLag: 10, Clustered: true}, redisx.RiskLoss, "of a cluster"},
		{redisx.Replication{Replicas: 1, Good: -1, ToWrite: 1, MaxLag: 0, Clustered: true}, redisx.RiskLoss, "of a cluster"},
		{redisx.Replication{Replicas: 1, Good: -1, ToWrite: 0, MaxLag: 2}, redisx.RiskLoss, "min-replicas-to-write 0"},
		{redisx.Replication{Replicas: 1, Good: -1, ToWrite: 1, MaxLag: 0}, redisx.RiskLoss, "min-replicas-max-lag 0, which switches it off"},
		{redisx.Replication{Replicas: 1, Good: 1, ToWrite: 1, MaxLag: 10}, redisx.RiskLoss, "min-replicas-max-lag 10: a failover may lose the acknowledged writes of 11 s"},
		{redisx.Replication{Replicas: 1, Good: 1, ToWrite: 1, MaxLag: 2}, redisx.NoRisk, "replicas: 1, min-replicas-to-write 1, min-replicas-max-lag 2"},
	} {
		if risk, why := c.r.Risk(); risk != c.risk || !strings.Contains(why, c.why) {
			t.Errorf("%+v: %q, %q; want %q, %q", c.r, risk, why, c.risk, c.why)
		}
	}
}

func TestReadReplication_ReadsWhatAServerSays(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	server := pair.Primary.Admin()
	set := func(name, value string) {
		t.Helper()
		testkit.Must(t, server.ConfigSet(t.Context(), name, value).Err())
	}
	expect := func(server redis.Cmdable, want redisx.Replication) {
		t.Helper()
		if got, err := redisx.ReadReplication(t.Context(), server); err != nil || got != want {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
	}
	expect(server, redisx.Replication{Replicas: 1, Good: -1, ToWrite: 0, MaxLag: 10})
	set("min-replicas-to-write", "1")
	testkit.Eventually(t, "Redis counts the replica", func() bool {
		got, err := redisx.ReadReplication(t.Context(), server)
		return err == nil && got.Good == 1
	})
	expect(server, redisx.Replication{Replicas: 1, Good: 1, ToWrite: 1, MaxLag: 10})
	set("min-replicas-max-lag", "0")
	expect(server, redisx.Replication{Replicas: 1, Good: -1, ToWrite: 1, MaxLag: 0})
	testkit.Must(t, server.Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err())
	expect(server, redisx.Replication{Replicas: 1, Good: -1, ToWrite: -1, MaxLag: -1})
	expect(redistest.StartCluster(t).Primary("a").Admin(), redisx.Replication{Replicas: 1, Good: -1, ToWrite: 0, MaxLag: 10, Clustered: true})
}
