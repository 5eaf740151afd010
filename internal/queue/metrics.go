package queue

import (
	"cmp"
	"context"
	"slices"
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
	// namedQueues is how many queues have metrics of their own. Submissions name queues, and labels must stay few.
	namedQueues = 100
	// otherQueues is the label of all others together, and of a queue of that name.
	otherQueues = "other"
)

// Collector exports the queues to Prometheus. Its metrics have the names of asynq's own exporter, so that dashboards
// made for asynq work.
type Collector struct {
	list func(context.Context) ([]Info, error)

	mu     sync.Mutex // held while the queues are read
	shared []Info
	read   time.Time // when shared was read
	named  map[string]bool
}

// NewCollector returns a collector of q's queues.
func NewCollector(q *Queues) *Collector { return &Collector{list: q.List} }

// sumOthers returns the queues that are named, and the sum of the others. A queue stays named, so that its counters go
// on; the first ones to be named are those that do most.
func (c *Collector) sumOthers(all []Info) []Info {
	if c.named == nil {
		c.named = make(map[string]bool)
	}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b Info) int {
		return cmp.Compare(b.Processed+b.Size, a.Processed+a.Size)
	})
	var named, others []Info
	for _, i := range all {
		if !c.named[i.Name] && (len(c.named) >= namedQueues || i.Name == otherQueues) {
			others = append(others, i)
			continue
		}
		c.named[i.Name] = true
		named = append(named, i)
	}
	if len(others) > 0 {
		named = append(named, sum(others))
	}
	return named
}

// sum returns queues as if they were one: it has waited as long as the one that has waited longest, and is paused if
// all are.
func sum(queues []Info) Info {
	total := Info{Name: otherQueues, Paused: true}
	for _, i := range queues {
		total.Pending += i.Pending
		total.Active += i.Active
		total.Archived += i.Archived
		total.Size += i.Size
		total.MemoryUsage += i.MemoryUsage
		total.Processed += i.Processed
		total.Failed += i.Failed
		total.Latency, total.Paused = max(total.Latency, i.Latency), total.Paused && i.Paused
	}
	return total
}

// infos returns the queues as they were at most shareInterval ago: those that could be read.
func (c *Collector) infos() []Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && clock.Since(c.read) < shareInterval {
		return c.shared
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	all, _ := c.list(ctx)
	c.shared = c.sumOthers(all)
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
