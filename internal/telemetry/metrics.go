// Package telemetry defines the Prometheus metrics of a node and creates its logger.
package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one node, on their own registry. The names of all but those of the Go runtime and of the
// process begin with dts_. Each counts what this node did or saw, so that sums over all nodes are right.
type Metrics struct {
	Registry *prometheus.Registry

	DispatchLateness prometheus.Histogram     // seconds from due, or from when a worker could have it, to enqueued
	BeginLateness    prometheus.Histogram     // seconds from due to begun by a worker
	Claimed          prometheus.Counter       // attempts claimed
	Ticks            *prometheus.CounterVec   // ticks of schedules, by outcome
	TickLateness     prometheus.Histogram     // seconds from the nominal time of a tick to the creation of its task
	HeldBack         prometheus.Counter       // looks at schedules whose ticks were held back, as their queue was full
	Attempts         *prometheus.CounterVec   // ended attempts, by type and outcome
	QueueAttempts    *prometheus.CounterVec   // ended attempts, by queue and outcome
	TasksEnded       *prometheus.CounterVec   // tasks that ended with an attempt, by queue and state
	AttemptSeconds   *prometheus.HistogramVec // duration of attempts, by type
	Leftovers        prometheus.Counter       // deliveries whose attempt can no longer begin
	Refused          prometheus.Counter       // reports of attempts that this worker no longer owned
	RefusedWork      *prometheus.CounterVec   // tasks, and requests that create work, that may be accepted later, by code
	Keyed            *prometheus.CounterVec   // submissions with a key, by mode and outcome
	FollowUps        prometheus.Counter       // tasks created that follow others
	Expired          prometheus.Counter       // tasks that nobody has begun in time
	Restored         prometheus.Counter       // deliveries checked, of which lost ones were enqueued again
	Reaped           prometheus.Counter       // attempts ended as lost, of workers that died or had lost them
	Poison           prometheus.Counter       // tasks that ended as they kill their workers
	Forgotten        prometheus.Counter       // finished tasks deleted because of age or number
	Evicted          prometheus.Counter       // finished tasks deleted before their time, because Redis was almost full
	ForgottenEarly   prometheus.Counter       // ids of ended tasks forgotten before their time, as there were too many
	SchedulesPaused  prometheus.Counter       // schedules that paused themselves
	ClockJumps       *prometheus.CounterVec   // jumps of the clock of Redis, by direction
	DataLost         prometheus.Counter       // times that Redis had lost the data
	LostWrites       prometheus.Counter       // losses of acknowledged writes that this node noticed, by partition
	LeaseChanges     *prometheus.CounterVec   // changes of leases, by kind
	LeasesHeld       prometheus.Gauge         // partitions that this node leads
	Capacity         prometheus.Gauge         // most attempts that run at once
	Running          prometheus.Gauge         // slots that attempts hold now
	ScriptSeconds    *prometheus.HistogramVec // round trips of scripts, by script
	ScriptRefusals   *prometheus.CounterVec   // refusals of scripts, by script and code
	Requests         *prometheus.CounterVec   // answered HTTP requests, by route, method and status
	RequestSeconds   *prometheus.HistogramVec // from the arrival of a request to its answer, by route

	queues Labels
}

// lateness are histogram buckets in seconds, from the target (tens of ms) to the delay after an outage (minutes).
var lateness = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800}

// New returns the metrics on a new registry, together with those of the Go runtime and of the process. Counters whose
// labels are known are there from the start, with 0.
func New() *Metrics { //nolint:funlen // a table
	made := maker{prometheus.NewRegistry()}
	m := &Metrics{
		Registry: made.Registry,

		DispatchLateness: made.histogram("dispatch_lateness_seconds",
			"Schedulers' part of the lateness of an attempt: from its due time, or since there is room for it "+
				"in its queue, until it was enqueued in asynq.", lateness),
		BeginLateness: made.histogram("begin_lateness_seconds",
			"Time from the due time of an attempt until a worker began it.", lateness),
		Claimed: made.counter("claimed_total", "Due tasks that leaders have taken for their queues."),
		Ticks: made.counters("ticks_total",
			"Decisions of leaders about ticks of schedules. A tick that waits for an earlier task counts again "+
				"when it is fired or replaced.", "outcome"),
		TickLateness: made.histogram("tick_lateness_seconds",
			"Time from the nominal time of a tick until its task was created. Misfires, and ticks that waited "+
				"or were held back, are excluded.", lateness),
		HeldBack: made.counter("held_back_schedules_total",
			"Looks of leaders at schedules whose ticks they held back, as their queue was at its capacity: about "+
				"one a second for each."),
		Attempts: made.counters("attempts_total",
			"Attempts that ended on this node, or through its API.", "type", "outcome"),
		QueueAttempts: made.counters("queue_attempts_total",
			"Attempts whose end this node recorded, by queue, with those that it ended as lost. Beyond 100 queues, "+
				"the others are other.", "queue", "outcome"),
		TasksEnded: made.counters("tasks_ended_total",
			"Tasks that ended with an attempt whose end this node recorded. Tasks that were cancelled while they "+
				"waited are not among them.", "queue", "state"),
		AttemptSeconds: made.histograms("attempt_seconds",
			"Duration of attempts.", prometheus.ExponentialBuckets(.005, 4, 10), "type"),
		Leftovers: made.counter("leftover_deliveries_total", "Deliveries whose attempt could no longer begin."),
		Refused: made.counter("refused_reports_total",
			"Reports refused because the attempt no longer belonged to the worker."),
		RefusedWork: made.counters("refused_submissions_total",
			"Refused requests that create work. After overloaded, queue_full and too_many_names nothing was "+
				"done; after unavailable the work may have been accepted. A batch refused as a whole counts once, "+
				"else each refused task of it.", "code"),
		Keyed: made.counters("keyed_submissions_total",
			"Submissions with once, by its mode and what became of them.", "mode", "outcome"),
		FollowUps: made.counter("follow_ups_total",
			"Tasks that leaders created because others that name them in on_end have ended."),
		Expired: made.counter("expired_tasks_total",
			"Tasks that leaders cancelled because nobody had begun them by start_by."),
		Restored: made.counter("restored_deliveries_total",
			"Checks of deliveries that waited too long, whether or not they were lost and had to be enqueued "+
				"again."),
		Reaped: made.counter("reaped_attempts_total",
			"Attempts ended as lost, of workers that died or had lost them."),
		Poison: made.counter("poison_tasks_total",
			"Tasks that this node ended because three of their workers in a row died."),
		Forgotten: made.counter("forgotten_tasks_total",
			"Finished tasks deleted because of their age or number."),
		Evicted: made.counter("evicted_tasks_total",
			"Finished tasks deleted before their retention was over, because Redis used more than 95 % of its "+
				"maxmemory."),
		ForgottenEarly: made.counter("ids_forgotten_early_total",
			"Ids of ended tasks that were forgotten before --remember was over, because there were more than "+
				"--remember-max-ids."),
		SchedulesPaused: made.counter("schedules_paused_total",
			"Schedules that paused themselves, as too many of their tasks failed in a row."),
		ClockJumps: made.counters("clock_jumps_total",
			"Jumps of the clock of Redis that this node saw, ahead or back; in a cluster, for each partition.", "direction"),
		DataLost: made.counter("redis_data_lost_total",
			"Times that this node found that Redis had lost its data, as after FLUSHALL."),
		LostWrites: made.counter("redis_lost_writes_total",
			"How often this node noticed that Redis had lost writes of a partition that it had acknowledged."),
		LeaseChanges: made.counters("lease_changes_total",
			"Changes of leases of partitions on this node.", "change"),
		LeasesHeld: made.gauge("leases_held", "Partitions this node leads."),
		Capacity: made.gauge("capacity",
			"Slots of this node, and of the workers by HTTP that it serves: an attempt holds one, or several."),
		Running: made.gauge("running",
			"Slots of this node, and of the workers by HTTP that it serves, that attempts hold now."),
		ScriptSeconds: made.histograms("script_seconds",
			"Duration of round trips of Lua scripts.", prometheus.ExponentialBuckets(.0001, 4, 9), "script"),
		ScriptRefusals: made.counters("script_refusals_total",
			"Runs of Lua scripts that refused to write.", "script", "code"),
		Requests: made.counters("api_requests_total",
			"HTTP requests that this node answered. route is the path of the API document, or unknown.",
			"route", "method", "status"),
		RequestSeconds: made.histograms("api_request_seconds",
			"Time from the arrival of a request until its answer was written; streams and calls that wait included.",
			[]float64{.005, .025, .1, .5, 2.5, 10}, "route"),
	}
	made.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.beginAtZero()
	return m
}
