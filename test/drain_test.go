package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// A node that is drained takes no task, finishes what it runs, and the command ends when that is done. Meanwhile, the
// node says how many tasks it has left, however many slots they hold. Its partitions and the other node go on.
func TestDrain_EndsWhenTheNodeHasNothingLeft(t *testing.T) {
	t.Parallel()
	redis, far := redistest.Start(t).URL(), newRecorder(t)
	n, other := startNode(t, redis, "--concurrency", "4"), startNode(t, redis, "--concurrency", "4")
	var blocked []wire.Submission
	for i := range 4 {
		s := far.task(fmt.Sprintf("blocked-%d", i), "/block")
		s.Slots = ptr(2)
		blocked = append(blocked, s)
	}
	n.submit(blocked...)
	runs := func() (of []string) {
		for _, task := range other.all(wire.StateRunning) {
			if *task.Node == n.id {
				of = append(of, task.ID)
			}
		}
		return of
	}
	await(t, 30*time.Second, "both nodes are full", func() bool { return len(runs()) == 2 })

	dtsctl := filepath.Join(binaries, "dtsctl")
	cmd := exec.CommandContext(t.Context(), dtsctl, "--server", other.url, "node", "drain", n.id)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	await(t, 30*time.Second, "the node confirms the cordon", func() bool {
		answer, err := other.ListNodesWithResponse(t.Context(), nil)
		if err != nil || answer.JSON200 == nil {
			return false
		}
		for _, node := range answer.JSON200.Nodes {
			if node.ID == n.id && node.Cordon != nil && node.Cordon.Obeyed {
				return node.Running == 4 && wire.Value(node.Tasks) == 2
			}
		}
		return false
	})
	var fresh []wire.Submission
	for i := range 40 {
		fresh = append(fresh, far.task(fmt.Sprintf("fresh-%d", i), "/ok"))
	}
	n.submit(fresh...)
	close(far.block)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("drain: %v\n%s", err, said.String())
	}
	if still := runs(); len(still) > 0 {
		t.Errorf("the node is drained, and still runs %v", still)
	}
	await(t, 30*time.Second, "all have ended", other.idle)
	for _, task := range other.all(wire.StateSucceeded) {
		if strings.HasPrefix(task.ID, "fresh-") && *task.Node == n.id {
			t.Errorf("%s ran on the node that was cordoned", task.ID)
		}
	}
	if done := len(other.all(wire.StateSucceeded)); done != len(blocked)+len(fresh) {
		t.Errorf("%d tasks have succeeded, want %d", done, len(blocked)+len(fresh))
	}
}
