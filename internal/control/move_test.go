package control

import (
	"context"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
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
	_, err := w.MoveTask(w.ctx, me, "runs")
	if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "earlier release") {
		t.Errorf("while nodes of an earlier release live: %v", err)
	}
	testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	for id, want := range map[string]task.Code{
		"waits": task.CodeNotRunning, "shell": task.CodeCannotMove, "gone": task.CodeTaskNotFound,
	} {
		if _, err := w.MoveTask(w.ctx, me, id); task.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
	if got, err := w.MoveTask(w.ctx, me, "runs"); err != nil || got.State != task.Running || got.MoveRequested.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}
