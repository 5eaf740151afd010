package doctor

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// A replica of a cluster that has taken over would refuse all writes with min-replicas-to-write.
func TestJudgeReplication_WarnsOfNoSettingThatAClusterMustNotHave(t *testing.T) {
	t.Parallel()
	primary := redistest.StartCluster(t).Primary("k")
	server := redis.NewClient(&redis.Options{Addr: primary.Addr()})
	defer func() { _ = server.Close() }()
	severity, detail, err := judgeReplication(t.Context(), server)
	testkit.Must(t, err)
	if want := "1 replicas in a cluster: a failover may lose the newest acknowledged writes"; severity != Note || detail != want {
		t.Errorf("got %s, %q", severity, detail)
	}
}
