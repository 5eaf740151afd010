package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMetrics_LackOnlyWhatCannotBeCounted(t *testing.T) {
	t.Parallel()
	redis, log := redistest.Start(t), &testkit.Log{}
	a := run(t, Options{Config: settings(redis.URL()), Log: slog.New(slog.NewTextHandler(log, nil))})
	a.await("/metrics", "dts_leases_held 16")
	db := redis.DB(t)
	testkit.Must(t, db.SAdd(t.Context(), "dts:{3}:backlog", "full").Err())
	testkit.Must(t, db.Set(t.Context(), "dts:{3}:ready:full", "garbage", 0).Err())
	var metrics string
	for range 3 {
		_, metrics = a.call(http.MethodGet, "/metrics", "")
	}
	for line, want := range map[string]bool{
		`dts_tasks{partition="3",state="scheduled"}`:  false,
		`dts_overdue{partition="3"}`:                  false,
		`dts_tasks{partition="3",state="queued"} 0`:   true,
		`dts_schedules{partition="3",state="active"}`: true,
		`dts_tasks{partition="2",state="scheduled"}`:  true,
	} {
		if strings.Contains(metrics, line) != want {
			t.Errorf("it is %t that they have %s", !want, line)
		}
	}
	n := log.Count(`level=WARN msg="metrics lack tasks or schedules that cannot be counted"`)
	if n != 1 || !log.Has(`error="counting tasks: partition 3: a key of its due tasks is damaged`) {
		t.Errorf("the log says %d times what they lack", n)
	}
}

// metricName matches the name of a metric of DTS in the documentation, or in the description of a collector.
var metricName = regexp.MustCompile(`[` + "`" + `"]((?:dts|asynq)_[a-z0-9_]+)`)

func TestMetrics_AreTheOnesThatTheDocsList(t *testing.T) {
	t.Parallel()
	a, err := New(t.Context(), Options{Config: settings(redistest.Start(t).URL()), Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	descriptions := make(chan *prometheus.Desc)
	go func() { a.metrics.Registry.Describe(descriptions); close(descriptions) }()
	there := map[string]bool{}
	for d := range descriptions {
		if m := metricName.FindStringSubmatch(d.String()); m != nil {
			there[m[1]] = true
		}
	}
	testkit.Must(t, a.close())
	text, err := os.ReadFile("../../docs/operations.md")
	testkit.Must(t, err)
	listed := map[string]bool{}
	for _, m := range metricName.FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	for name := range there {
		if !listed[name] {
			t.Errorf("docs/operations.md lacks %s", name)
		}
	}
	for name := range listed {
		if !there[name] {
			t.Errorf("docs/operations.md lists %s, which does not exist", name)
		}
	}
	if len(there) < 40 {
		t.Errorf("only %d metrics are described", len(there))
	}
}

// What concerns the installation comes from one node, so that a sum over all nodes is right.
func TestMetrics_OfTheFleetComeFromOneNode(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	testkit.Must(t, redis.DB(t).ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	c := settings(redis.URL())
	c.Heartbeat = 200 * time.Millisecond
	nodes := []*running{run(t, Options{Config: c}), run(t, Options{Config: c}), run(t, Options{Config: c})}
	scrape := func() (each []string) {
		for _, n := range nodes {
			_, metrics := n.call(http.MethodGet, "/metrics", "")
			each = append(each, metrics)
		}
		return each
	}
	count := func(line string) (n int) {
		for _, metrics := range scrape() {
			n += strings.Count(metrics, line)
		}
		return n
	}
	testkit.Eventually(t, "one node tells of three", func() bool {
		return count("\ndts_nodes{") == 3 && count(`dts_nodes{state="alive"} 3`) == 1 &&
			count("\ndts_redis_memory_used_ratio ") == 1
	})
	if n := count("dts_partitions 16"); n != len(nodes) {
		t.Errorf("%d nodes say how many partitions there are", n)
	}
	for i, n := range nodes { // whoever tells of them stops
		if n.scheduler.Leads(0) {
			n.finish()
			nodes = append(nodes[:i:i], nodes[i+1:]...)
			break
		}
	}
	testkit.Eventually(t, "another one does", func() bool {
		return count(fmt.Sprintf(`dts_nodes{state="alive"} %d`, len(nodes))) == 1 && count("\ndts_nodes{") == 3
	})
}
