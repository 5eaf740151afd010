package control

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// fleet is what a registry has seen.
type fleet []cluster.Node

func (f fleet) Nodes(context.Context) ([]cluster.Node, error) { return f, nil }

func (f fleet) View() cluster.View { return cluster.View{At: time.Now(), Nodes: f} }

func aNode(state string, types []string, queues ...string) cluster.Node {
	n := cluster.Node{State: state, Roles: []string{"worker"}, Types: types, Queues: map[string]int{}}
	for _, q := range queues {
		n.Queues[q] = 1
	}
	return n
}

const unserved = `no living node serves the queue "reports": its tasks wait until one does (dtsd serve --queues reports=1)`

func TestSubmit_WarnsOfWhatNoLivingNodeRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"shell": {Setting: "enable-shell"}}
	scheduler := aNode("alive", []string{"http", "shell"}, "reports")
	scheduler.Roles = []string{"scheduler"}
	w.nodes = fleet{
		aNode("alive", []string{"http"}, "default", "mail"), aNode("draining", []string{"email"}, "mail"),
		aNode("dead", []string{"http", "shell"}, "reports", "default"), aNode("alive", nil, "older"), scheduler,
	}
	for _, c := range []struct {
		taskType, queue string
		want            []string
	}{
		{"http", "default", nil},
		{"http", "mail", nil},
		{"email", "mail", nil},
		{"anything", "older", nil},
		{"http", "reports", []string{unserved}},
		{"shell", "default", []string{`no living node that serves the queue "default" runs tasks of type "shell" (dtsd serve --enable-shell)`}},
		{"email", "default", []string{`no living node that serves the queue "default" runs tasks of type "email"`}},
	} {
		got, err := w.Submit(w.ctx, me, task.Definition{Type: c.taskType, Queue: c.queue})
		if err != nil || !slices.Equal(got.Warnings, c.want) {
			t.Errorf("%s in %s: %v, warnings %q, want %q", c.taskType, c.queue, err, got.Warnings, c.want)
		}
	}
}

func TestSubmit_WarnsOfNoQueueThatAsynqsServersServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	server := asynq.NewServerFromRedisClient(w.db.UniversalClient, asynq.Config{Queues: map[string]int{"reports": 1}, LogLevel: asynq.FatalLevel})
	testkit.Must(t, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	t.Cleanup(server.Shutdown)
	testkit.Eventually(t, "the server is listed", func() bool {
		slots, err := w.queues.ForeignSlots(w.ctx)
		return err == nil && slots["reports"] > 0
	})
	got, err := w.Submit(w.ctx, me, task.Definition{Type: "http", Queue: "reports"})
	if err != nil || got.Warnings != nil {
		t.Errorf("%v, warnings %q", err, got.Warnings)
	}
	got, err = w.Submit(w.ctx, me, task.Definition{Type: "http", Queue: "other"})
	if err != nil || len(got.Warnings) != 1 {
		t.Errorf("%v, warnings %q, want one", err, got.Warnings)
	}
}

func TestSubmit_WarnsOfNothingBeforeTheFirstHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = cluster.New(cluster.Options{ID: "a"})
	got, err := w.Submit(w.ctx, me, task.Definition{Type: "http"})
	if err != nil || got.Warnings != nil {
		t.Errorf("%v, warnings %q", err, got.Warnings)
	}
}

func TestPutSchedule_WarnsOfWhatNoLivingNodeRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	d := daily(func(d *schedule.Definition) { d.Task.Queue = "reports" })
	for _, dry := range []bool{true, false} {
		put, err := w.PutSchedule(w.ctx, me, d, PutOptions{DryRun: dry})
		if err != nil || !slices.Equal(put.Warnings, []string{unserved}) {
			t.Errorf("dry run %v: %v, warnings %q", dry, err, put.Warnings)
		}
	}
}
