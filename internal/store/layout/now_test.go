package layout_test

import (
	"regexp"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
)

// The servers of a cluster have each a clock of their own. What a partition does goes by the one of its server, where the scripts run.
func TestNow_AsksTheServerOfThePartition(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l, err := layout.Open(t.Context(), layout.Options{DB: redistest.Open(t, cluster.URL())})
	testkit.Must(t, err)
	const partition, times = 7, 20
	for range times {
		_, err := l.Now(t.Context(), partition)
		testkit.Must(t, err)
	}
	holder := cluster.Primary(string(l.Keys.Partition(partition).States()))
	for _, server := range cluster.Servers {
		asked := regexp.MustCompile(`cmdstat_time:calls=(\d+)`).FindStringSubmatch(server.Admin().Info(t.Context(), "commandstats").Val())
		switch {
		case server == holder && (asked == nil || asked[1] != "20"):
			t.Errorf("the server of the partition was asked %v, want %d times", asked, times)
		case server != holder && asked != nil:
			t.Errorf("another server was asked %s times", asked[1])
		}
	}
}
