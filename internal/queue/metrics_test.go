package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// The names are those of asynq's own exporter, for the sake of dashboards that exist.
func TestCollector_UsesTheMetricNamesOfAsynq(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	testkit.Must(t, x.Pause(t.Context(), "default", "", ""))
	r := prometheus.NewPedanticRegistry()
	testkit.Must(t, r.Register(NewCollector(x.Queues, nil)))
	families, err := r.Gather()
	testkit.Must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "," + l.GetName() + "=" + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"asynq_tasks_enqueued_total,queue=default,state=pending":  1,
		"asynq_tasks_enqueued_total,queue=default,state=active":   0,
		"asynq_tasks_enqueued_total,queue=default,state=archived": 0,
		"asynq_queue_size,queue=default":                          1,
		"asynq_queue_paused_total,queue=default":                  1,
		"asynq_tasks_processed_total,queue=default":               0,
		"asynq_tasks_failed_total,queue=default":                  0,
	}
	for name, value := range want {
		if v, known := got[name]; !known || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, known, value)
		}
	}
	for _, name := range []string{"asynq_queue_latency_seconds", "asynq_queue_memory_usage_approx_bytes"} {
		if _, known := got[name+",queue=default"]; !known {
			t.Errorf("%s is missing; there are %v", name, got)
		}
	}
}

func TestCollector_SharesAReadingAmongScrapesThatComeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		c := &Collector{list: func(context.Context) ([]Info, error) {
			readings++
			return []Info{{Name: "default", Size: readings}}, nil
		}}
		for round := 1; round <= 3; round++ {
			var scrapes sync.WaitGroup
			for range 4 {
				scrapes.Go(func() {
					if infos := c.infos(); len(infos) != 1 || infos[0].Size != round {
						t.Errorf("a scrape of round %d shows %+v", round, infos)
					}
				})
			}
			scrapes.Wait()
			testkit.Must(t, clock.Sleep(t.Context(), shareInterval))
		}
	})
}

func TestCollector_ShowsTheQueuesBesideABrokenOne(t *testing.T) {
	t.Parallel()
	c := &Collector{list: func(context.Context) ([]Info, error) {
		return []Info{{Name: "a"}, {Name: "c"}}, errors.New("b is broken")
	}}
	r := prometheus.NewRegistry()
	testkit.Must(t, r.Register(c))
	families, err := r.Gather()
	testkit.Must(t, err)
	if len(families) == 0 || len(families[0].GetMetric()) != 2 {
		t.Errorf("there are %v, want the metrics of two queues", families)
	}
}

func TestCollector_HasNoFiguresWhileRedisIsUnreachable(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	x.srv.Kill()
	r := prometheus.NewRegistry()
	testkit.Must(t, r.Register(NewCollector(x.Queues, nil)))
	families, err := r.Gather()
	testkit.Must(t, err)
	if len(families) != 0 {
		t.Errorf("there are %d families, want none", len(families))
	}
}

// Whoever submits tasks names queues.
func TestCollector_NamesABoundedNumberOfQueues(t *testing.T) {
	t.Parallel()
	all := []Info{{Name: "other", Size: 7, Paused: true}}
	for i := range 1000 {
		info := Info{Name: fmt.Sprint("q", i), Size: 1, Pending: 1, Processed: 2, Latency: time.Duration(i), Paused: i > 0}
		all = append(all, info)
	}
	all = append(all, Info{Name: "busy", Processed: 1000, Size: 1})
	c := &Collector{list: func(context.Context) ([]Info, error) { return all, nil }}
	infos := c.infos()
	if len(infos) != namedQueues+1 || infos[0].Name != "busy" {
		t.Fatalf("%d queues, the first one is %+v", len(infos), infos[0])
	}
	rest := 1000 - (namedQueues - 1)
	want := Info{Name: "other", Size: 7 + rest, Pending: rest, Processed: 2 * rest, Latency: 999, Paused: true}
	if got := infos[namedQueues]; got != want {
		t.Errorf("the others are %+v, want %+v", got, want)
	}
	all[900].Processed = 10_000 // does most now, and has no counter that could go on
	c.read = time.Time{}
	for i, info := range c.infos() {
		if info.Name == all[900].Name {
			t.Errorf("number %d is %+v: it had no label before", i, info)
		}
	}
}

// Queues that nobody serves any more must not keep the names of those in use.
func TestCollector_NamesServedQueuesFirst(t *testing.T) {
	t.Parallel()
	var all []Info
	for i := range 2 * namedQueues {
		all = append(all, Info{Name: fmt.Sprint("old", i), Size: 1, Processed: 1000})
	}
	served := map[string]bool{}
	c := &Collector{
		list:   func(context.Context) ([]Info, error) { return all, nil },
		served: func() map[string]bool { return served },
	}
	named := func() map[string]bool {
		c.read = time.Time{}
		got := make(map[string]bool)
		for _, i := range c.infos() {
			got[i.Name] = true
		}
		return got
	}
	if got := named(); !got["old0"] || len(got) != namedQueues+1 {
		t.Fatalf("%d queues have names: %v", len(got), got)
	}
	all = append(all, Info{Name: "quiet"}, Info{Name: "busy", Processed: 2000, Size: 1})
	served["quiet"] = true
	if got := named(); !got["quiet"] || got["busy"] || !got["old0"] || len(got) != namedQueues+1 {
		t.Errorf("a node serves quiet, and all others hold tasks: %v", got)
	}
	all[0].Size, all[1].Size = 0, 0
	if got := named(); !got["busy"] || len(got) != namedQueues+1 {
		t.Errorf("two queues are not in use any more, and busy has no name: %v", got)
	}
}
