package queue

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	// shareInterval is how old a reading may be that a scrape shows: scrapes that come together share one.
	shareInterval = time.Second
	// collectTimeout bounds how long a scrape waits for Redis: what the node knows without it comes soon.
	collectTimeout = 2 * time.Second
)

// Collector exports the queues to Prometheus. Its metrics have the names of asynq's own exporter, so that dashboards
// made for asynq work.
type Collector struct {
	list func(context.Context) ([]Info, error)

	mu     sync.Mutex // held while the queues are read
	shared []Info
	read   time.Time // when shared was read
}

// NewCollector returns a collector of q's queues.
func NewCollector(q *Queues) *Collector { return &Collector{list: q.List} }

// infos returns the queues as they were at most shareInterval ago: those that could be read.
func (c *Collector) infos() []Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && clock.Since(c.read) < shareInterval {
		return c.shared
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	c.shared, _ = c.list(ctx)
	c.read = clock.Now()
	return c.shared
}

var (
	tasksDesc     = describe("asynq_tasks_enqueued_total", "Tasks in the queue, by state.", "queue", "state")
	sizeDesc      = describe("asynq_queue_size", "Tasks in the queue.", "queue")
	latencyDesc   = describe("asynq_queue_latency_seconds", "How long the oldest pending task has waited.", "queue")
	memoryDesc    = describe("asynq_queue_memory_usage_approx_bytes", "Approximate memory used by the queue.", "queue")
	processedDesc = describe("asynq_tasks_processed_total", "Tasks processed today (UTC), including failed ones.", "queue")
	failedDesc    = describe("asynq_tasks_failed_total", "Tasks that failed today (UTC).", "queue")
	pausedDesc    = describe("asynq_queue_paused_total", "1 if the queue is paused, else 0.", "queue")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tasksDesc, sizeDesc, latencyDesc, memoryDesc, processedDesc, failedDesc, pausedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A queue that cannot be read has no metrics, and none has if Redis does not answer.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, i := range c.infos() {
		send := func(desc *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{i.Name}, labels...)...)
		}
		send(tasksDesc, float64(i.Pending), "pending")
		send(tasksDesc, float64(i.Active), "active")
		send(tasksDesc, float64(i.Archived), "archived")
		send(sizeDesc, float64(i.Size))
		send(latencyDesc, i.Latency.Seconds())
		send(memoryDesc, float64(i.MemoryUsage))
		send(processedDesc, float64(i.Processed))
		send(failedDesc, float64(i.Failed))
		paused := 0.0
		if i.Paused {
			paused = 1
		}
		send(pausedDesc, paused)
	}
}
