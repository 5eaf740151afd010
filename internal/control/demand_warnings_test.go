package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const noGPU = "select: no living node matches gpu: the task waits until one does"

// tooLarge is the warning of a task that needs more slots than a node has, which has the most.
func tooLarge(needs, most int, node string) string {
	const text = "slots: %d is more than the %d that a task of the queue \"default\" can hold on %s, and no node that " +
		"matches has more: the task waits until one has %d"
	return fmt.Sprintf(text, needs, most, node, needs)
}

func TestSubmit_WarnsOfDemandsThatNoNodeMeets(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	eu, drains, spot := worker("eu-1", 0, nil, "default"), worker("b", 0, nil, "default"), worker("c", 0, nil, "default")
	eu.Labels, eu.Name = config.Labels{"zone": "eu"}, "eu-1"
	drains.Labels, drains.State = config.Labels{"disk": ""}, "draining"
	spot.Labels, spot.Name = config.Labels{"spot": ""}, "c"
	spot.Queues, spot.Cordon = nil, &cluster.Cordon{Of: "c", Queues: spot.Queues}
	eu.Capacity, eu.Largest, spot.Capacity = 9, map[string]int{"default": 4}, 8
	const cordoned = "select: the node c matches, and is cordoned: the task waits until it is not, or for another node"
	other := worker("d", 0, nil, "other")
	other.Labels = config.Labels{"gpu": ""}
	w.nodes = fleet{eu, drains, spot, other}
	for _, c := range []struct {
		reach string
		want  []string
	}{
		{"", nil},
		{"zone=eu;;", nil},
		{"disk;;", nil},
		{";;round", nil},
		{";;failover:x,eu-1", nil},
		{"gpu;;", []string{noGPU}},
		{"spot;;", []string{cordoned}},
		{";;failover:x,y", []string{
			"route.order: no node of x, y lives that may run it: the task waits until one does",
		}},
		{";;;2", nil},
		{"zone=eu;;failover:x,eu-1;4", nil},
		{";;;5", []string{cordoned}},
		{";;;99", []string{tooLarge(99, 4, "eu-1")}},
		{"disk;;;2", []string{tooLarge(2, 1, "b")}},
		{"zone=eu;;;8", []string{tooLarge(8, 4, "eu-1")}},
		{";;failover:x,eu-1;8", []string{tooLarge(8, 4, "eu-1")}},
		{"gpu;;;2", []string{noGPU}},
		{";;failover:x,y;2", []string{
			"route.order: no node of x, y lives that may run it: the task waits until one does",
		}},
	} {
		got, err := w.Submit(w.ctx, me, task.Definition{Type: "http", Reach: c.reach})
		if err != nil || !slices.Equal(got.Warnings, c.want) {
			t.Errorf("%q: %v, warnings %q, want %q", c.reach, err, got.Warnings, c.want)
		}
	}
	got, err := w.Submit(w.ctx, me, task.Definition{Type: "http", Queue: "reports", Reach: "gpu;;"})
	if err != nil || !slices.Equal(got.Warnings, []string{unserved}) {
		t.Errorf("of a queue that nobody serves: %v, %q", err, got.Warnings)
	}
}

func TestSubmit_WarnsOfCostsBeyondTheLimits(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.nodes = fleet{worker("n", 0, nil, "default")}
	set := func(name string, rule LimitRule) {
		t.Helper()
		_, err := w.SetLimit(w.ctx, me, name, LimitPut{Rule: rule})
		testkit.Must(t, err)
	}
	warned := func(name string, d task.Definition, want ...string) {
		t.Helper()
		d.Type = "http"
		if got, err := w.Submit(w.ctx, me, d); err != nil || !slices.Equal(got.Warnings, want) {
			t.Errorf("%s: %v, warnings %q, want %q", name, err, got.Warnings, want)
		}
	}
	set("key:*", LimitRule{Slots: 4})
	set("type:http", LimitRule{Rate: 600, Per: time.Minute, Burst: 8})
	warned("without a cost", task.Definition{LimitKey: "tenant-7"})
	if w.rules.latest.Load() != nil {
		t.Error("limits were read for a task without a cost")
	}
	const tooMany = "cost: 5 is more than the 4 slots of key:*: the task waits until somebody raises that limit"
	const tooFast = "cost: 9 is more than the burst of 8 of type:http: the task waits until somebody raises that limit"
	warned("as many as there are", task.Definition{LimitKey: "tenant-7", Cost: 4})
	warned("too many slots", task.Definition{LimitKey: "tenant-7", Cost: 5}, tooMany)
	warned("too many tokens", task.Definition{Cost: 9}, tooFast)
	set("key:*", LimitRule{Slots: 5})
	warned("after the limit was raised", task.Definition{LimitKey: "tenant-7", Cost: 5})
}

func TestPut_WarnsOfWhatTheTasksAskFor(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	n := worker("n", 0, nil, "default")
	n.Capacity = 2
	w.nodes = fleet{n}
	_, err := w.SetLimit(w.ctx, me, "namespace:default", LimitPut{Rule: LimitRule{Slots: 2}})
	testkit.Must(t, err)
	const dear = "cost: 3 is more than the 2 slots of namespace:default: the task waits until somebody raises that limit"
	d := daily(func(d *schedule.Definition) { d.Task.Reach, d.Task.Cost = "gpu;;", 3 })
	put, err := w.PutSchedule(w.ctx, me, d, PutOptions{DryRun: true})
	if err != nil || !slices.Equal(put.Warnings, []string{noGPU, dear}) {
		t.Errorf("a schedule: %v, warnings %q", err, put.Warnings)
	}
	for slots, want := range map[int][]string{2: nil, 3: {tooLarge(3, 2, "n")}} {
		d.Task.Reach, d.Task.Cost = fmt.Sprint(";;;", slots), 0
		put, err = w.PutSchedule(w.ctx, me, d, PutOptions{DryRun: true})
		if err != nil || !slices.Equal(put.Warnings, want) {
			t.Errorf("a schedule with %d slots: %v, warnings %q, want %q", slots, err, put.Warnings, want)
		}
	}
	const steps = `{"steps": [{"id": "a", "task": {"type": "http", "queue": "default"}},
		{"id": "b", "task": {"type": "http", "select": "gpu", "cost": 3}},
		{"id": "c", "task": {"type": "http", "slots": 2}}, {"id": "d", "task": {"type": "http", "slots": 3}}]}`
	flow, err := w.PutWorkflow(w.ctx, me, "etl", []byte(steps), PutOptions{DryRun: true})
	want := []string{"step b: " + noGPU, "step b: " + dear, "step d: " + tooLarge(3, 2, "n")}
	if err != nil || !slices.Equal(flow.Warnings, want) {
		t.Errorf("a workflow: %v, warnings %q", err, flow.Warnings)
	}
}
