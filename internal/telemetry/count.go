package telemetry

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// The labels of ClockJumps and of LeaseChanges.
const (
	JumpAhead     = "ahead"
	JumpBack      = "back"
	LeaseAcquired = "acquired"
	LeaseReleased = "released"
	LeaseLost     = "lost"
)

// beginAtZero makes the counters whose labels are known: Prometheus does not see the growth from nothing to 1.
func (m *Metrics) beginAtZero() {
	for _, o := range []schedule.Outcome{
		schedule.Fired, schedule.SkippedOverlap, schedule.Missed, schedule.Excluded, schedule.Queued, schedule.Replaced,
	} {
		m.Ticks.WithLabelValues(string(o))
	}
	for _, direction := range []string{JumpAhead, JumpBack} {
		m.ClockJumps.WithLabelValues(direction)
	}
	for _, change := range []string{LeaseAcquired, LeaseReleased, LeaseLost} {
		m.LeaseChanges.WithLabelValues(change)
	}
	for _, mode := range task.OnceModes {
		for _, o := range task.OnceOutcomes {
			m.Keyed.WithLabelValues(string(mode), string(o))
		}
	}
	m.beginQueue(OtherLabel)
	m.BeginType(OtherLabel)
}

// CountKeyed counts a submission with a key.
func (m *Metrics) CountKeyed(mode task.OnceMode, o task.OnceOutcome) {
	m.Keyed.WithLabelValues(string(mode), string(o)).Inc()
}

// BeginType makes the counters of a type of tasks, with 0.
func (m *Metrics) BeginType(label string) {
	for _, o := range task.Outcomes {
		m.Attempts.WithLabelValues(label, string(o))
	}
}

// BeginQueue makes the counters of a queue, with 0, as the node serves it.
func (m *Metrics) BeginQueue(name string) { m.queueLabel(name) }

func (m *Metrics) beginQueue(label string) {
	for _, o := range task.Outcomes {
		m.QueueAttempts.WithLabelValues(label, string(o))
	}
	for _, s := range task.States {
		if s.Final() {
			m.TasksEnded.WithLabelValues(label, string(s))
		}
	}
}

// queueLabel returns the label of a queue, and makes its counters if it is new.
func (m *Metrics) queueLabel(name string) string {
	label, added := m.queues.Of(name)
	if added {
		m.beginQueue(label)
	}
	return label
}

// Begun counts an attempt whose begin this node has recorded.
func (m *Metrics) Begun(_ string, late time.Duration) { m.BeginLateness.Observe(late.Seconds()) }

// Ended counts an attempt whose end this node has recorded, and its task if that has ended.
func (m *Metrics) Ended(e rollup.End) {
	label := m.queueLabel(e.Queue)
	m.QueueAttempts.WithLabelValues(label, string(e.Outcome)).Inc()
	if e.To.Final() {
		m.TasksEnded.WithLabelValues(label, string(e.To)).Inc()
	}
}

// Paused counts a schedule that paused itself.
func (m *Metrics) Paused() { m.SchedulesPaused.Inc() }

// BeginRequest makes the counter of answers to an operation of the API, with 0.
func (m *Metrics) BeginRequest(route, method string, status int) {
	m.Requests.WithLabelValues(route, method, strconv.Itoa(status))
}

// Answered counts an HTTP request that was answered.
func (m *Metrics) Answered(route, method string, status int, took time.Duration) {
	m.Requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.RequestSeconds.WithLabelValues(route).Observe(took.Seconds())
}

// ObserveScript records one run of a script. code is the code of its refusal, "" if it did not refuse.
func (m *Metrics) ObserveScript(script string, took time.Duration, code string) {
	m.ScriptSeconds.WithLabelValues(script).Observe(took.Seconds())
	if code != "" {
		m.ScriptRefusals.WithLabelValues(script, code).Inc()
	}
}

// ShowBuild exports what this node was built from.
func (m *Metrics) ShowBuild(version string) {
	made(maker{m.Registry}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dts_build_info", Help: "1. The labels say which version runs, and which Go compiled it.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 }))
}

// ShowPartitions exports how many partitions there are. All nodes say the same: it must be known when nobody leads.
func (m *Metrics) ShowPartitions(n int) {
	g := maker{m.Registry}.gauge("partitions", "Partitions of the installation. Every node says the same: use max.")
	g.Set(float64(n))
}

// ShowRedis exports whether Redis works, as up says.
func (m *Metrics) ShowRedis(up func() bool) {
	made(maker{m.Registry}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
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
