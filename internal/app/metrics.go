package app

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/scheduler"
)

// depthCollector shows how much is in the partitions that this node leads; the sum over all nodes is the whole.
type depthCollector struct{ s *scheduler.Scheduler }

func newDepthCollector(s *scheduler.Scheduler) depthCollector { return depthCollector{s} }

var (
	tasksDesc            = prometheus.NewDesc("dts_tasks", "Tasks in the partition, by state; finished ones together.", []string{"partition", "state"}, nil)
	overdueDesc          = prometheus.NewDesc("dts_overdue", "Tasks on the wheel that are due.", []string{"partition"}, nil)
	schedulesDesc        = prometheus.NewDesc("dts_schedules", "Schedules in the partition: active, or resting, which is paused or ended.", []string{"partition", "state"}, nil)
	overdueSchedulesDesc = prometheus.NewDesc("dts_overdue_schedules", "Schedules whose tick is due and not decided yet.", []string{"partition"}, nil)
	flightDesc           = prometheus.NewDesc("dts_inflight", "Deliveries claimed and not yet confirmed to be in asynq.", []string{"partition"}, nil)
)

func (c depthCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- tasksDesc
	ch <- overdueDesc
	ch <- flightDesc
	ch <- schedulesDesc
	ch <- overdueSchedulesDesc
}

func (c depthCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	depths, err := c.s.Depths(ctx)
	if err != nil {
		return // Redis does not answer: there are no figures
	}
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
		send(flightDesc, d.InFlight)
		send(schedulesDesc, d.ActiveSchedules, "active")
		send(schedulesDesc, d.Schedules-d.ActiveSchedules, "resting")
		send(overdueSchedulesDesc, d.OverdueSchedules)
	}
}
