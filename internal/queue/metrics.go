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
	list   func(context.Context) ([]Info, error)
	served func() map[string]bool // the queues that nodes serve; nil: nobody knows

	mu     sync.Mutex // held while the queues are read
	shared []Info
	read   time.Time       // when shared was read
	named  map[string]bool // at the last reading
}

// NewCollector returns a collector of q's queues. served returns the queues that living nodes serve, apart from those
// that only workers by HTTP do: these have metrics of their own before all others.
func NewCollector(q *Queues, served func() map[string]bool) *Collector {
	return &Collector{list: q.List, served: served}
}

// sumOthers returns the queues that are named, and the sum of the others. Those that nodes serve come first. Then a
// queue stays named while it holds tasks, so that its counters go on; then those come that do most.
func (c *Collector) sumOthers(all []Info) []Info {
	served := map[string]bool{}
	if c.served != nil {
		served = c.served()
	}
	rank := func(i Info) int {
		switch {
		case i.Name == otherQueues:
			return 3
		case served[i.Name]:
			return 0
		case c.named[i.Name] && i.Size > 0:
			return 1
		}
		return 2
	}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b Info) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Processed+b.Size, a.Processed+a.Size))
	})
	n := min(len(all), namedQueues)
	for n > 0 && all[n-1].Name == otherQueues {
		n--
	}
	named, others := all[:n:n], all[n:]
	c.named = make(map[string]bool, n)
	for _, i := range named {
		c.named[i.Name] = true
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
		total.add(i)
		total.Paused = total.Paused && i.Paused
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
