package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// series lists what a scrape shows of a metric, with the labels of each.
func series(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	testkit.Must(t, err)
	found := make(map[string]float64)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if f.GetName() == name {
				labels := ""
				for _, l := range one.GetLabel() {
					labels += l.GetValue() + " "
				}
				found[labels] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
	}
	return found
}

func TestMetrics_BeginAtZero(t *testing.T) {
	t.Parallel()
	m := New()
	m.BeginQueue("mail")
	m.BeginRequest("/v1/tasks", "POST", 201)
	for name, labels := range map[string]string{
		"dts_queue_attempts_total":    "timeout mail ",
		"dts_tasks_ended_total":       "mail cancelled ",
		"dts_attempts_total":          "lost other ",
		"dts_ticks_total":             "missed ",
		"dts_clock_jumps_total":       "back ",
		"dts_keyed_submissions_total": "latest skipped ",
		"dts_lease_changes_total":     "lost ",
		"dts_schedules_paused_total":  "",
		"dts_api_requests_total":      "POST /v1/tasks 201 ",
	} {
		if v, there := series(t, m, name)[labels]; !there || v != 0 {
			t.Errorf("%s of %q is there: %t, and is %v", name, labels, there, v)
		}
	}
	if n := len(series(t, m, "dts_tasks_ended_total")); n != 6 {
		t.Errorf("tasks end in %d ways in two queues, want 3 each", n)
	}
}

func TestEnded_CountsFurtherQueuesAsOther(t *testing.T) {
	t.Parallel()
	m := New()
	for i := range 2 * labelsLimit {
		m.Ended(rollup.End{Queue: fmt.Sprint("queue-", i), Outcome: task.OutcomeFailed, To: task.Scheduled})
	}
	m.Ended(rollup.End{Queue: "queue-1", Outcome: task.OutcomeFailed, To: task.Failed})
	m.Ended(rollup.End{Queue: "other", Outcome: task.OutcomeFailed, To: task.Failed})
	attempts, ended := series(t, m, "dts_queue_attempts_total"), series(t, m, "dts_tasks_ended_total")
	if attempts["failed queue-1 "] != 2 || attempts["failed other "] != labelsLimit+1 {
		t.Errorf("%v attempts of a queue, %v of others", attempts["failed queue-1 "], attempts["failed other "])
	}
	if n := len(attempts); n != (labelsLimit+1)*len(task.Outcomes) {
		t.Errorf("%d series: labels stay few", n)
	}
	if ended["queue-1 failed "] != 1 || ended["other failed "] != 1 || ended["queue-2 failed "] != 0 {
		t.Errorf("tasks ended: %v", ended)
	}
}

func TestMetrics_ShowWhatTheNodeIs(t *testing.T) {
	t.Parallel()
	m := New()
	m.ShowBuild("v1.2.3")
	m.ShowPartitions(16)
	m.Answered("/v1/tasks", "GET", 200, time.Second)
	if n := series(t, m, "dts_partitions")[""]; n != 16 {
		t.Errorf("%v partitions", n)
	}
	for labels, v := range series(t, m, "dts_build_info") {
		if len(labels) < len("go1.26 v1.2.3 ") || v != 1 {
			t.Errorf("built from %q: %v", labels, v)
		}
	}
	if n := series(t, m, "dts_api_requests_total")["GET /v1/tasks 200 "]; n != 1 {
		t.Errorf("%v requests", n)
	}
}
