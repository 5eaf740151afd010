package app

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/scheduler"
	"github.com/dts-sched/dts/internal/store/partition"
)

// collectTimeout bounds how long a scrape waits for Redis: what the node knows without it comes soon.
const collectTimeout = 2 * time.Second

// uncountedPause is the least time between two warnings that something cannot be counted.
const uncountedPause = time.Minute

// depthCollector exports the depth of the partitions that this node leads. The sum over all nodes is that of the
// installation.
type depthCollector struct {
	s   *scheduler.Scheduler
	log *slog.Logger

	mu     sync.Mutex
	warned time.Time // that something cannot be counted; zero: never
}

func newDepthCollector(s *scheduler.Scheduler, log *slog.Logger) *depthCollector {
	return &depthCollector{s: s, log: log}
}

var (
	tasksDesc            = depthDesc("dts_tasks", "Tasks in the partition, by state; all finished ones together.", "state")
	overdueDesc          = depthDesc("dts_overdue", "Scheduled tasks that are due.")
	schedulesDesc        = depthDesc("dts_schedules", "Schedules in the partition: active, or resting (paused or ended).", "state")
	overdueSchedulesDesc = depthDesc("dts_overdue_schedules", "Schedules whose next tick is due and not decided yet.")
)

// depthDesc describes a metric of a partition with further labels.
func depthDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"partition"}, labels...), nil)
}

func (c *depthCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- tasksDesc
	ch <- overdueDesc
	ch <- schedulesDesc
	ch <- overdueSchedulesDesc
}

func (c *depthCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	depths, err := c.s.Depths(ctx)
	c.warn(err)
	for p, d := range depths {
		send := func(desc *prometheus.Desc, v int64, labels ...string) {
			if v == partition.Unknown { // the scrape does not have it: a 0 would look like an empty queue
				return
			}
			labels = append([]string{strconv.Itoa(p)}, labels...)
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), labels...)
		}
		send(tasksDesc, d.Scheduled, "scheduled")
		send(tasksDesc, d.Queued, "queued")
		send(tasksDesc, d.Running, "running")
		send(tasksDesc, d.Finished, "finished")
		send(overdueDesc, d.Overdue)
		send(schedulesDesc, d.ActiveSchedules, "active")
		send(schedulesDesc, d.RestingSchedules, "resting")
		send(overdueSchedulesDesc, d.OverdueSchedules)
	}
}

// warn says once a minute that something cannot be counted: sums of the metrics are too low then.
func (c *depthCollector) warn(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || !c.warned.IsZero() && clock.Since(c.warned) < uncountedPause {
		return
	}
	c.warned = clock.Now()
	c.log.Warn("metrics lack tasks or schedules that cannot be counted", "error", err)
}
