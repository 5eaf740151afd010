package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/telemetry"
)

// fleetCollector exports what concerns the whole installation. Only the node that leads partition 0 does, so that a sum
// over all nodes counts it once.
type fleetCollector struct {
	leads  func() bool // this node leads partition 0
	nodes  func(context.Context) ([]cluster.Node, error)
	memory func() float64 // the share of its maxmemory that Redis uses; 0: not known
	limits func(context.Context) ([]rules.Total, error)
	totals fresh.Value[[]rules.Total]
}

// limitsShown is how many limits have metrics of their own.
const limitsShown = 100

// totalRules are the rules for what is read of limits: several may ask for metrics.
var totalRules = fresh.Rules{Lifetime: 5 * time.Second, Limit: collectTimeout}

var (
	nodesDesc = prometheus.NewDesc("dts_nodes",
		"Nodes, by state, without workers by HTTP. One that has died is dead for an hour. From the leader of partition 0.",
		[]string{"state"}, nil)
	memoryDesc = prometheus.NewDesc("dts_redis_memory_used_ratio",
		"Share of its maxmemory that Redis uses, of several servers the largest, as of up to 20 s ago; missing without "+
			"a maxmemory. From the leader of partition 0.", nil, nil)
	limitSlotsDesc = prometheus.NewDesc("dts_limit_slots",
		"Slots that a limit has; missing of one that has none, or whose name ends with *, as each of its names has as "+
			"many. From the leader of partition 0, of the first 100 limits, those of single keys last.", []string{"limit"}, nil)
	limitHeldDesc = prometheus.NewDesc("dts_limit_held",
		"Tasks that hold a slot of a limit, as of up to 5 s ago. Beyond 100 limits, other stands for them. From the "+
			"leader of partition 0.", []string{"limit"}, nil)
	limitWaitingDesc = prometheus.NewDesc("dts_limit_waiting",
		"Tasks of a limit that are due and wait in DTS, as of up to 5 s ago. Beyond 100 limits, other stands for them. "+
			"From the leader of partition 0.", []string{"limit"}, nil)
	limitPausedDesc = prometheus.NewDesc("dts_limit_paused",
		"1 while a limit is paused, else 0, as of up to 5 s ago. Beyond 100 limits, other is how many further ones are "+
			"paused. From the leader of partition 0.", []string{"limit"}, nil)
)

func (c *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- nodesDesc
	ch <- memoryDesc
	ch <- limitSlotsDesc
	ch <- limitHeldDesc
	ch <- limitWaitingDesc
	ch <- limitPausedDesc
}

func (c *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	if !c.leads() {
		return
	}
	if share := c.memory(); share > 0 {
		ch <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, share)
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	c.collectLimits(ctx, ch)
	nodes, err := c.nodes(ctx)
	if err != nil { // dts_redis_up says it
		return
	}
	states := map[string]int{cluster.StateAlive: 0, cluster.StateDraining: 0, cluster.StateDead: 0}
	for _, n := range nodes {
		if n.Via == "" {
			states[n.State]++
		}
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(n), state)
	}
}

// placeOf is where a limit comes among those with metrics: those of single keys come last.
func placeOf(n limit.Name) int {
	if n.Kind == limit.Key && !n.IsWildcard() {
		return 1
	}
	return 0
}

// collectLimits exports how much of limits is in use. There may be 1,000, so that only some have metrics of their own.
func (c *fleetCollector) collectLimits(ctx context.Context, ch chan<- prometheus.Metric) {
	totals, err := c.totals.Get(ctx, totalRules, func(ctx context.Context) ([]rules.Total, error) {
		ctx, _ = redisx.LeavingOut(ctx)
		totals, err := c.limits(ctx)
		slices.SortStableFunc(totals, func(a, b rules.Total) int { return cmp.Compare(placeOf(a.Name), placeOf(b.Name)) })
		return totals, err
	})
	if err != nil { // dts_redis_up says it
		return
	}
	gauge := func(desc *prometheus.Desc, n int, name string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), name)
	}
	var others rules.Use
	pausedOthers := 0
	for i, t := range totals {
		paused := 0
		if t.Paused {
			paused = 1
		}
		if i >= limitsShown {
			others.Held, others.Waiting = others.Held+t.Held, others.Waiting+t.Waiting
			pausedOthers += paused
			continue
		}
		name := t.Name.String()
		if t.Rule.Slots > 0 && !t.Name.IsWildcard() {
			gauge(limitSlotsDesc, t.Rule.Slots, name)
		}
		gauge(limitHeldDesc, t.Held, name)
		gauge(limitWaitingDesc, t.Waiting, name)
		gauge(limitPausedDesc, paused, name)
	}
	if len(totals) > limitsShown {
		gauge(limitHeldDesc, others.Held, telemetry.OtherLabel)
		gauge(limitWaitingDesc, others.Waiting, telemetry.OtherLabel)
		gauge(limitPausedDesc, pausedOthers, telemetry.OtherLabel)
	}
}
