package test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Promises 1 and 3 in a fleet of all kinds of workers, which run different types of tasks of the same queue, while one of each kind dies in
// the middle of its work.
func TestMixedFleet_LosesNothingWhenOneOfEachKindDies(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	lead := startNode(t, redis.URL(), "--roles", "scheduler,api")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string][]*node{}
	for range 2 {
		nodes["http"] = append(nodes["http"], startNode(t, redis.URL(), "--roles", "worker", "--concurrency", "4"))
		nodes["go"] = append(nodes["go"], startProgram(t, "goworker", "--redis", redis.URL(), "--concurrency", "4"))
	}
	python := []*pythonWorker{startWorker(t, lead.url), startWorker(t, lead.url)}
	dying := []string{nodes["http"][0].id, nodes["go"][0].id, fmt.Sprintf("%s-%d", host, python[0].cmd.Process.Pid)}

	var tasks []wire.Submission
	for i := range 20 {
		path := []string{"/slow", "/block"}[i%2] // there are more that block than slots
		ofNode, ofGo := far.task(fmt.Sprintf("http-%d", i), path), far.task(fmt.Sprintf("go-%d", i), path)
		ofGo.Type = "go"
		tasks = append(tasks, ofNode, ofGo, counting(fmt.Sprintf("count-%d", i), 30, 0.05))
	}
	lead.submit(tasks...)
	var ran map[string][]string // by worker
	await(t, 30*time.Second, "each of those that will die runs something", func() bool {
		ran = map[string][]string{}
		for _, task := range lead.all("running") {
			ran[*task.Node] = append(ran[*task.Node], task.ID)
		}
		return !slices.ContainsFunc(dying, func(id string) bool { return len(ran[id]) == 0 })
	})
	nodes["http"][0].kill()
	nodes["go"][0].kill()
	_ = python[0].end(syscall.SIGKILL)
	close(far.block)
	await(t, time.Minute, "all have ended", lead.idle)

	if done := len(lead.all("succeeded")); done != len(tasks) {
		t.Errorf("%d tasks have succeeded, want %d", done, len(tasks))
	}
	lost := map[string]int{}
	for _, task := range tasks {
		history := lead.attempts(*task.ID)
		for i, a := range history {
			last := i == len(history)-1
			switch {
			case a.Number != i+1 || last != (*a.Outcome == wire.OutcomeSucceeded):
				t.Errorf("%s: attempt %d of the history is number %d, and %s", *task.ID, i+1, a.Number, *a.Outcome)
			case !last && (*a.Outcome != wire.OutcomeLost || !slices.Contains(dying, a.Node)):
				t.Errorf("%s: attempt %d ended as %s on %s, which did not die", *task.ID, a.Number, *a.Outcome, a.Node)
			case !last:
				lost[a.Node]++
			}
		}
	}
	for _, id := range dying {
		if lost[id] == 0 {
			t.Errorf("no attempt was lost with %s, which ran %v", id, ran[id])
		}
	}
	for id, calls := range far.byTask() {
		for i, call := range calls[1:] {
			if call.attempt <= calls[i].attempt {
				t.Errorf("%s: attempt %d was called after attempt %d", id, call.attempt, calls[i].attempt)
			}
		}
	}
}
