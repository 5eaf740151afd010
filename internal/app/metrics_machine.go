package app

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/cluster"
)

// machineCollector exports what the last heartbeat said of the machine of this node. A value that could not be read is
// missing.
type machineCollector struct {
	last *atomic.Pointer[cluster.Machine]
}

var (
	machineCPU = machineDesc("cpu_ratio",
		"Share of all processors that was busy between the last two heartbeats.")
	machineLoad = machineDesc("load",
		"Processes that run, or wait to, as an average over a minute.")
	machineMemory = machineDesc("memory_used_ratio",
		"Share of the memory that processes could not get.")
	machineDisk = machineDesc("disk_used_ratio",
		"Share in use of the file system where the node works.")
	machineNetwork = machineDesc("network_bytes_per_second",
		"What all interfaces but loopback carried between the last two heartbeats.", "direction")
)

// machineDesc describes a metric of the machine.
func machineDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dts_node_machine_"+name, help+" Nodes on one machine say the same.", labels, nil)
}

func (c machineCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{machineCPU, machineLoad, machineMemory, machineDisk, machineNetwork} {
		ch <- d
	}
}

func (c machineCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	m := c.last.Load()
	if m == nil { // no heartbeat yet
		return
	}
	if m.CPU != nil {
		send(machineCPU, *m.CPU)
	}
	if m.Load != nil {
		send(machineLoad, *m.Load)
	}
	if m.Memory != nil {
		send(machineMemory, m.Memory.Share())
	}
	if m.Disk != nil {
		send(machineDisk, m.Disk.Share())
	}
	if m.Network != nil {
		send(machineNetwork, float64(m.Network.Received), "received")
		send(machineNetwork, float64(m.Network.Sent), "sent")
	}
}
