package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// A command kills its node, beside calls that all hang. Whenever a node dies, another one starts, as under a
// supervisor.
func TestPoison_EndsAfterThreeNodesAndSparesNeighbours(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	const neighbours = 6
	redis, far := redistest.Start(t), newRecorder(t)
	api := startNode(t, redis.URL(), "--roles", "scheduler,api")
	start := func() *node {
		return startNode(t, redis.URL(), "--roles", "scheduler,worker", "--enable-shell")
	}
	worker := start()
	nodes := []*node{worker}
	var tasks []wire.Submission
	for i := range neighbours {
		beside := far.task(fmt.Sprint("beside-", i), "/block")
		beside.Timeout = ptr("1h")
		tasks = append(tasks, beside)
	}
	api.submit(tasks...)
	await(t, 30*time.Second, "the neighbours run", func() bool { return far.count() == neighbours })
	api.submit(wire.Submission{
		ID: ptr("poison"), Type: "shell", Payload: []byte(`{"command": ["sh", "-c", "kill -9 $PPID"]}`),
		Retry: &wire.Retry{MaxAttempts: ptr(10)},
	})
	await(t, 5*time.Minute, "the poison has ended", func() bool {
		select {
		case <-worker.Done():
			worker = start()
			nodes = append(nodes, worker)
		default:
		}
		return api.task("poison").State == wire.StateFailed
	})
	close(far.block)
	await(t, 5*time.Minute, "the neighbours have succeeded", api.has(neighbours, wire.StateSucceeded))

	poison, attempts := api.task("poison"), api.attempts("poison")
	const said = "kill its workers"
	if len(attempts) != 3 || !strings.Contains(*poison.Error, said) {
		t.Errorf("the poison ended with %q; its attempts are %+v", *poison.Error, attempts)
	}
	for i, a := range attempts {
		if a.Node != nodes[i].id || *a.Outcome != wire.OutcomeLost || !strings.Contains(*a.Error, a.Node) {
			t.Errorf("attempt %d is %+v, want lost with %s", i+1, a, nodes[i].id)
		}
	}
	if len(nodes) != 4 {
		t.Errorf("%d nodes were started, want 4: three died", len(nodes))
	}
	for i := range neighbours {
		if history := api.attempts(fmt.Sprint("beside-", i)); len(history) > 4 {
			t.Errorf("beside-%d has %d attempts, want at most 4", i, len(history))
		}
	}
	last := nodes[len(nodes)-1]
	for _, line := range []string{
		"a node has died", "attempts were lost: their node has died", "default:poison (", "workers died again and again",
	} {
		if !api.said(line) && !last.said(line) {
			t.Errorf("the log says nowhere %q", line)
		}
	}
}
