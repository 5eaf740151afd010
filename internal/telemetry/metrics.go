// Package telemetry defines the Prometheus metrics of a node and creates its logger.
package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one node, on their own registry. The names of all but those of the Go runtime and of the
// process begin with dts_.
type Metrics struct {
	Registry *prometheus.Registry

	DispatchLateness prometheus.Histogram     // seconds from due, or from when a worker could have it, to enqueued in asynq
	BeginLateness    prometheus.Histogram     // seconds from due to begun by a worker
	Claimed          prometheus.Counter       // attempts claimed
	Ticks            *prometheus.CounterVec   // ticks of schedules, by outcome
	TickLateness     prometheus.Histogram     // seconds from the nominal time of a tick to the creation of its task
	HeldBack         prometheus.Counter       // looks of leaders at schedules whose ticks they held back, as their queue was full
	Attempts         *prometheus.CounterVec   // ended attempts, by type and outcome
	AttemptSeconds   *prometheus.HistogramVec // duration of attempts, by type
	Leftovers        prometheus.Counter       // deliveries whose attempt can no longer begin
	Refused          prometheus.Counter       // reports of attempts that this worker no longer owned
	RefusedWork      *prometheus.CounterVec   // tasks, and requests that create work, that may be accepted later, by code
	Restored         prometheus.Counter       // deliveries checked, of which lost ones were enqueued again
	Reaped           prometheus.Counter       // attempts ended as lost, of workers that died or had lost them
	Poison           prometheus.Counter       // tasks that ended as they kill their workers
	Forgotten        prometheus.Counter       // finished tasks deleted because of age or number
	Evicted          prometheus.Counter       // finished tasks deleted before their time, because Redis was almost full
	ForgottenEarly   prometheus.Counter       // ids of ended tasks forgotten before their time, as there were too many
	ClockJumps       *prometheus.CounterVec   // jumps of the clock of Redis, by direction
	DataLost         prometheus.Counter       // times that Redis had lost the data
	LostWrites       prometheus.Counter       // losses of acknowledged writes that this node noticed, by partition
	LeaseChanges     *prometheus.CounterVec   // changes of leases, by kind
	LeasesHeld       prometheus.Gauge         // partitions that this node leads
	Capacity         prometheus.Gauge         // most attempts that run at once
	Running          prometheus.Gauge         // attempts that run now
	ScriptSeconds    *prometheus.HistogramVec // round trips of scripts, by script
	ScriptRefusals   *prometheus.CounterVec   // refusals of scripts, by script and code
}

// lateness are histogram buckets in seconds, from the target (tens of ms) to the delay after an outage (minutes).
var lateness = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800}

// New returns the metrics on a new registry, together with those of the Go runtime and of the process.
func New() *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		Registry:         r,
		DispatchLateness: histogram("dispatch_lateness_seconds", "Schedulers' part of the lateness of an attempt: from its due time, or since there is room for it in its queue, until it was enqueued in asynq.", lateness),
		BeginLateness:    histogram("begin_lateness_seconds", "Time from the due time of an attempt until a worker began it.", lateness),
		Claimed:          counter("claimed_total", "Due tasks that leaders have taken for their queues."),
		Ticks:            counters("ticks_total", "Decisions of leaders about ticks of schedules. A tick that waits for an earlier task counts again when it is fired or replaced.", "outcome"),
		TickLateness:     histogram("tick_lateness_seconds", "Time from the nominal time of a tick until its task was created. Misfires, and ticks that waited or were held back, are excluded.", lateness),
		HeldBack:         counter("held_back_schedules_total", "Looks of leaders at schedules whose ticks they held back, as their queue was at its limit: about one a second for each."),
		Attempts:         counters("attempts_total", "Attempts that ended on this node, or through its API.", "type", "outcome"),
		AttemptSeconds:   histograms("attempt_seconds", "Duration of attempts.", prometheus.ExponentialBuckets(.005, 4, 10), "type"),
		Leftovers:        counter("leftover_deliveries_total", "Deliveries whose attempt could no longer begin."),
		Refused:          counter("refused_reports_total", "Reports refused because the attempt no longer belonged to the worker."),
		RefusedWork:      counters("refused_submissions_total", "Refused requests that create work. After overloaded, queue_full and too_many_names nothing was done; after unavailable the work may have been accepted. A batch refused as a whole counts once, else each refused task of it.", "code"),
		Restored:         counter("restored_deliveries_total", "Checks of deliveries that waited too long, whether or not they were lost and had to be enqueued again."),
		Reaped:           counter("reaped_attempts_total", "Attempts ended as lost, of workers that died or had lost them."),
		Poison:           counter("poison_tasks_total", "Tasks that this node ended because three of their workers in a row died."),
		Forgotten:        counter("forgotten_tasks_total", "Finished tasks deleted because of their age or number."),
		Evicted:          counter("evicted_tasks_total", "Finished tasks deleted before their retention was over, because Redis used more than 95 % of its maxmemory."),
		ForgottenEarly:   counter("ids_forgotten_early_total", "Ids of ended tasks that were forgotten before --remember was over, because there were more than --remember-max-ids."),
		ClockJumps:       counters("clock_jumps_total", "Jumps of the clock of Redis that this node saw, ahead or back; in a cluster, for each partition.", "direction"),
		DataLost:         counter("redis_data_lost_total", "Times that this node found that Redis had lost its data, as after FLUSHALL."),
		LostWrites:       counter("redis_lost_writes_total", "How often this node noticed that Redis had lost writes of a partition that it had acknowledged."),
		LeaseChanges:     counters("lease_changes_total", "Changes of leases of partitions on this node.", "change"),
		LeasesHeld:       gauge("leases_held", "Partitions this node leads."),
		Capacity:         gauge("capacity", "Most attempts that this node, and the workers by HTTP that it serves, run at once."),
		Running:          gauge("running", "Attempts that this node, and the workers by HTTP that it serves, run now."),
		ScriptSeconds:    histograms("script_seconds", "Duration of round trips of Lua scripts.", prometheus.ExponentialBuckets(.0001, 4, 9), "script"),
		ScriptRefusals:   counters("script_refusals_total", "Runs of Lua scripts that refused to write.", "script", "code"),
	}
	r.MustRegister(m.DispatchLateness, m.BeginLateness, m.Claimed, m.Ticks, m.TickLateness, m.HeldBack, m.Attempts, m.AttemptSeconds, m.Leftovers, m.Refused, m.RefusedWork,
		m.Restored, m.Reaped, m.Poison, m.Forgotten, m.Evicted, m.ForgottenEarly, m.ClockJumps, m.DataLost, m.LostWrites, m.LeaseChanges, m.LeasesHeld, m.Capacity, m.Running, m.ScriptSeconds,
		m.ScriptRefusals, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// ShowRedis exports whether Redis works, as up says.
func (m *Metrics) ShowRedis(up func() bool) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dts_redis_up", Help: "1 if Redis works for this node, of a cluster every server that it asks. 0 if it does " +
			"not answer, reads its data from the disk, refuses the password, scripts or further connections, is busy with a " +
			"script, is a replica, or is a cluster that lacks a part. Metrics that are read from Redis are missing then.",
	}, func() float64 {
		if up() {
			return 1
		}
		return 0
	}))
}

// ObserveScript records one run of a script. code is the code of its refusal, "" if it did not refuse.
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
