// Package telemetry holds DTS's metrics and makes its logger.
package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are DTS's own, on a registry of their own. Everything begins with dts_.
type Metrics struct {
	Registry *prometheus.Registry

	DispatchLateness prometheus.Histogram     // due -> in asynq
	BeginLateness    prometheus.Histogram     // due -> begun by a worker
	Claimed          prometheus.Counter       // attempts claimed
	Ticks            *prometheus.CounterVec   // of schedules, by outcome
	TickLateness     prometheus.Histogram     // nominal time -> its task is on the wheel
	Attempts         *prometheus.CounterVec   // ended, by type and outcome
	AttemptSeconds   *prometheus.HistogramVec // by type
	Leftovers        prometheus.Counter       // deliveries without an attempt to begin
	Refused          prometheus.Counter       // reports of attempts that were not this worker's any more
	Restored         prometheus.Counter       // deliveries put into their queue anew
	Reaped           prometheus.Counter       // attempts taken from dead nodes
	Forgotten        prometheus.Counter       // finished tasks whose retention was over
	LeaseChanges     *prometheus.CounterVec   // leases acquired, given back, lost
	LeasesHeld       prometheus.Gauge
	Capacity         prometheus.Gauge
	Running          prometheus.Gauge
	ScriptSeconds    *prometheus.HistogramVec // by script
	ScriptRefusals   *prometheus.CounterVec   // by script and code
}

// lateness covers what is aimed at (tens of ms) and what an outage leaves behind (minutes).
var lateness = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800}

// New makes the metrics, with Go's own beside them.
func New() *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		Registry:         r,
		DispatchLateness: histogram("dispatch_lateness_seconds", "From the due time of an attempt until it was handed to asynq.", lateness),
		BeginLateness:    histogram("begin_lateness_seconds", "From the due time of an attempt until a worker began it.", lateness),
		Claimed:          counter("claimed_total", "Attempts taken off the wheel."),
		Ticks:            counters("ticks_total", "Decisions of leaders about ticks of schedules; one that waits for its turn counts again when it is fired or replaced.", "outcome"),
		TickLateness:     histogram("tick_lateness_seconds", "From the nominal time of a tick that was on time until its task was created.", lateness),
		Attempts:         counters("attempts_total", "Attempts that ended on this node.", "type", "outcome"),
		AttemptSeconds:   histograms("attempt_seconds", "How long attempts ran.", prometheus.ExponentialBuckets(.005, 4, 10), "type"),
		Leftovers:        counter("leftover_deliveries_total", "Deliveries that had no attempt to begin any more."),
		Refused:          counter("refused_reports_total", "Reports refused because the attempt was not this worker's any more."),
		Restored:         counter("restored_deliveries_total", "Deliveries that did not begin for long and were looked after."),
		Reaped:           counter("reaped_attempts_total", "Attempts taken from nodes that died."),
		Forgotten:        counter("forgotten_tasks_total", "Finished tasks deleted because of their age or number."),
		LeaseChanges:     counters("lease_changes_total", "What happened to leases of partitions on this node.", "change"),
		LeasesHeld:       gauge("leases_held", "Partitions this node leads."),
		Capacity:         gauge("capacity", "Attempts this node may run at once."),
		Running:          gauge("running", "Attempts this node runs."),
		ScriptSeconds:    histograms("script_seconds", "Round trips of Lua scripts.", prometheus.ExponentialBuckets(.0001, 4, 9), "script"),
		ScriptRefusals:   counters("script_refusals_total", "Lua scripts that refused to write.", "script", "code"),
	}
	r.MustRegister(m.DispatchLateness, m.BeginLateness, m.Claimed, m.Ticks, m.TickLateness, m.Attempts, m.AttemptSeconds, m.Leftovers, m.Refused,
		m.Restored, m.Reaped, m.Forgotten, m.LeaseChanges, m.LeasesHeld, m.Capacity, m.Running, m.ScriptSeconds,
		m.ScriptRefusals, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// ObserveScript records one run of a script; code is what it refused with, "" if it did not.
func (m *Metrics) ObserveScript(script string, took time.Duration, code string) {
	m.ScriptSeconds.WithLabelValues(script).Observe(took.Seconds())
	if code != "" {
		m.ScriptRefusals.WithLabelValues(script, code).Inc()
	}
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dts_" + name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dts_" + name, Help: help, Buckets: buckets}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "dts_" + name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dts_" + name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "dts_" + name, Help: help})
}
