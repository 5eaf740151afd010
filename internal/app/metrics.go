package app

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/scheduler"
)

// collectTimeout bounds how long a scrape waits for Redis: what the node knows without it comes soon.
const collectTimeout = 2 * time.Second

// depthCollector exports the depth of the partitions that this node leads. The sum over all nodes is that of the
// installation.
type depthCollector struct{ s *scheduler.Scheduler }

func newDepthCollector(s *scheduler.Scheduler) depthCollector { return depthCollector{s} }

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

func (c depthCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- tasksDesc
	ch <- overdueDesc
	ch <- schedulesDesc
	ch <- overdueSchedulesDesc
}

func (c depthCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	depths, _ := c.s.Depths(ctx) // what Redis does not answer, the scrape does not have
	for p, d := range depths {
		partition := strconv.Itoa(p)
		send := func(desc *prometheus.Desc, v int64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), append([]string{partition}, labels...)...)
		}
		send(tasksDesc, d.Scheduled, "scheduled")
		send(tasksDesc, d.Queued, "queued")
		send(tasksDesc, d.Running, "running")
		send(tasksDesc, d.Finished, "finished")
		send(overdueDesc, d.Overdue)
		send(schedulesDesc, d.ActiveSchedules, "active")
		send(schedulesDesc, d.Schedules-d.ActiveSchedules, "resting")
		send(overdueSchedulesDesc, d.OverdueSchedules)
	}
}
