package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/rules"
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

// Each limit tells how much of it is in use, up to 100 of them. Those of single keys share what is left.
func TestFleetCollector_TellsOfLimits(t *testing.T) {
	t.Parallel()
	total := func(kind limit.Kind, of string, slots, n int) rules.Total {
		e := rules.Entry{Name: limit.Name{Kind: kind, Of: of}, Rule: limit.Rule{Slots: slots, Rate: 1}}
		return rules.Total{Entry: e, Use: rules.Use{Held: n, Waiting: 2 * n}, Paused: n == 7 || of > "k095"}
	}
	var totals []rules.Total
	for i := range 110 {
		totals = append(totals, total(limit.Key, fmt.Sprintf("k%03d", i), 3, 1))
	}
	totals = append(totals, total(limit.Key, "x*", 3, 8), total(limit.Type, "http", 0, 0), total(limit.All, "", 5, 7))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&fleetCollector{
		leads: func() bool { return true }, memory: func() float64 { return 0 },
		nodes:  func(context.Context) ([]cluster.Node, error) { return nil, nil },
		limits: func(context.Context) ([]rules.Total, error) { return totals, nil },
	})
	families, err := registry.Gather()
	testkit.Must(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"dts_limit_slots all": 5, "dts_limit_held all": 7, "dts_limit_waiting all": 14, "dts_limit_held key:x*": 8,
		"dts_limit_waiting type:http": 0, "dts_limit_slots key:k096": 3, "dts_limit_held key:k096": 1,
		"dts_limit_held other": 13, "dts_limit_waiting other": 26,
		"dts_limit_paused all": 1, "dts_limit_paused type:http": 0, "dts_limit_paused key:k095": 0,
		"dts_limit_paused key:k096": 1, "dts_limit_paused other": 13,
	} {
		if n, is := got[name]; !is || n != want {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
	for _, name := range []string{
		"dts_limit_slots key:x*", "dts_limit_slots type:http", "dts_limit_held key:k097", "dts_limit_slots other",
	} {
		if n, is := got[name]; is {
			t.Errorf("%s is %v", name, n)
		}
	}
}
