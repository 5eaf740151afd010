package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/cluster"
)

// fleetCollector exports what concerns the whole installation. Only the node that leads partition 0 does, so that a sum
// over all nodes counts it once.
type fleetCollector struct {
	leads  func() bool // this node leads partition 0
	nodes  func(context.Context) ([]cluster.Node, error)
	memory func() float64 // the share of its maxmemory that Redis uses; 0: not known
}

var (
	nodesDesc = prometheus.NewDesc("dts_nodes",
		"Nodes, by state, without workers by HTTP. One that has died is dead for an hour. From the leader of partition 0.",
		[]string{"state"}, nil)
	memoryDesc = prometheus.NewDesc("dts_redis_memory_used_ratio",
		"Share of its maxmemory that Redis uses, of several servers the largest, as of up to 20 s ago; missing without "+
			"a maxmemory. From the leader of partition 0.", nil, nil)
)

func (c *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- nodesDesc
	ch <- memoryDesc
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
