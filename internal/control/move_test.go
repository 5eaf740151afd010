package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMoveTask_RefusesWhatCannotMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"shell": {}}
	w.submit([]task.Definition{
		{Ref: task.Ref{ID: "runs"}, Type: "train"}, {Ref: task.Ref{ID: "shell"}, Type: "shell"},
		{Ref: task.Ref{ID: "waits"}, Type: "train"},
	})
	w.begun(me.Ref("runs"))
	w.begun(me.Ref("shell"))
	_, err := w.MoveTask(w.ctx, me, "runs", "")
	if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "earlier release") {
		t.Errorf("while nodes of an earlier release live: %v", err)
	}
	testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	for id, want := range map[string]task.Code{
		"waits": task.CodeNotRunning, "shell": task.CodeCannotMove, "gone": task.CodeTaskNotFound,
	} {
		if _, err := w.MoveTask(w.ctx, me, id, ""); task.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
	w.nodes = fleet{node("other", nil)}
	if _, err := w.MoveTask(w.ctx, me, "runs", "gone"); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("to a node that does not exist: %v", err)
	}
	got, err := w.MoveTask(w.ctx, me, "runs", "")
	if err != nil || got.State != task.Running || got.MoveRequested.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// node is a worker of the tasks of the test, after a change.
func node(id string, change func(n *cluster.Node)) cluster.Node {
	n := cluster.Node{
		ID: id, Name: id, State: cluster.StateAlive, Roles: []string{config.RoleWorker}, Capacity: 4,
		Queues: map[string]int{"mails": 1}, Types: []string{"train"}, Labels: config.Labels{"gpu": "1"},
	}
	if change != nil {
		change(&n)
	}
	return n
}

func TestCanGoTo_RefusesNodesThatCannotRunTheTask(t *testing.T) {
	t.Parallel()
	running := task.Task{State: task.Running, Node: "home", Definition: task.Definition{
		Ref: task.Ref{ID: "a"}, Type: "train", Queue: "mails", Reach: "gpu;;failover:home,ok,dead,busy,twin,bare,other",
	}}
	nodes := []cluster.Node{
		node("home", nil), node("ok", nil),
		node("dead", func(n *cluster.Node) { n.State = cluster.StateDead }),
		node("leaves", func(n *cluster.Node) { n.State = cluster.StateDraining }),
		node("cordoned", func(n *cluster.Node) { n.Cordon = &cluster.Cordon{Of: "rack-1"} }),
		node("leader", func(n *cluster.Node) { n.Roles = []string{config.RoleScheduler} }),
		node("other", func(n *cluster.Node) { n.Queues = map[string]int{"sms": 1} }),
		node("typed", func(n *cluster.Node) { n.Types = []string{"sms"} }),
		node("bare", func(n *cluster.Node) { n.Labels = nil }),
		node("unordered", nil),
		node("twin-1", func(n *cluster.Node) { n.Name, n.State = "twin", cluster.StateDraining }),
		node("twin-2", func(n *cluster.Node) { n.Name = "twin" }),
	}
	for to, want := range map[string]string{
		"ok": "", "twin": "", "gone": "no living node has the id or the name", "dead": "no living node",
		"home": "runs on home already", "leaves": "shuts down", "cordoned": "dtsctl node uncordon rack-1",
		"leader": "takes no tasks", "other": `does not serve the queue "mails", only ["sms"]`,
		"typed": `does not run the type "train", only ["sms"]`, "bare": `does not satisfy the selector of the task, "gpu"`,
		"unordered": "not in the order of the task's route", "twin-1": "shuts down",
	} {
		err := canGoTo(running, nodes, to)
		if want == "" && err == nil {
			continue
		}
		var invalid *task.Error
		if want == "" || !errors.As(err, &invalid) || invalid.Field != "to" || !strings.Contains(invalid.Message, want) {
			t.Errorf("%s: %v, want %q", to, err, want)
		}
	}
}
