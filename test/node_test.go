package test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// binaries is where the programs are, built once with the race detector.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	// Each test runs several processes, and some of them measure time: few tests at once, and one of the long ones.
	if err := flag.Set("test.parallel", fmt.Sprint(testkit.Amount(3, 1))); err != nil {
		panic(err)
	}
	var err error
	if binaries, err = process.Build("../cmd/dtsd", "../cmd/dtsctl", "./goworker", "./testdata/asynqworker",
		"../examples/go-worker", "../examples/from-asynq"); err != nil {
		panic(err)
	}
	m.Run()
	_ = os.RemoveAll(binaries)
}

// node is a process of the fleet: dtsd, or a worker of another program, which has no API.
type node struct {
	*client.ClientWithResponses
	*process.Process
	t   *testing.T
	id  string
	url string
}

// startNode starts a node on a Redis, which is examined when the test ends.
func startNode(t *testing.T, redis string, flags ...string) *node {
	t.Helper()
	examineAtTheEnd(t, redis)
	return startProcess(t, append([]string{"serve", "--redis", redis, "--concurrency", "20"}, flags...)...)
}

// startProcess starts dtsd on a free port and waits until every role runs. It is killed when the test ends.
func startProcess(t *testing.T, args ...string) *node {
	t.Helper()
	return startProgram(t, "dtsd", args...)
}

// startProgram is startProcess for any program that logs as dtsd does.
func startProgram(t *testing.T, name string, args ...string) *node {
	t.Helper()
	p, err := process.Start(binaries, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Process: p, t: t, id: p.ID, url: p.URL}
	t.Cleanup(n.cleanup)
	n.ClientWithResponses, err = client.NewClientWithResponses(n.url)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) cleanup() {
	n.Kill()
	if n.Raced() {
		n.t.Errorf("node %s has a data race", n.id)
	}
	if n.t.Failed() {
		n.t.Logf("log of node %s:\n%s", n.id, n.Log())
	}
}

// said reports whether the node has logged a text.
func (n *node) said(text string) bool { return strings.Contains(n.Log(), text) }

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// stop ends the node cleanly and expects exit code 0.
func (n *node) stop() {
	n.t.Helper()
	if err := n.Stop(); err != nil {
		n.t.Errorf("node %s did not end cleanly: %v", n.id, err)
	}
}

// kill ends the node as a crash would.
func (n *node) kill() { n.Kill() }

// submit hands in tasks, a thousand at a time, and expects all of them to be accepted.
func (n *node) submit(tasks ...client.Submission) {
	n.t.Helper()
	for len(tasks) > 0 {
		some := tasks[:min(1000, len(tasks))]
		tasks = tasks[len(some):]
		answer, err := n.SubmitTasksWithResponse(n.t.Context(), nil, client.SubmissionBatch{Tasks: some})
		if err != nil {
			n.t.Fatal(err)
		}
		if answer.JSON200 == nil {
			n.t.Fatalf("submitting: %s: %s", answer.Status(), answer.Body)
		}
		for i, r := range answer.JSON200.Results {
			if r.Status != http.StatusCreated {
				n.t.Fatalf("task %v: %d %+v", some[i].ID, r.Status, r.Error)
			}
		}
	}
}

func (n *node) task(id string) client.Task {
	n.t.Helper()
	answer, err := n.GetTaskWithResponse(n.t.Context(), id, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if answer.JSON200 == nil {
		n.t.Fatalf("task %s: %s: %s", id, answer.Status(), answer.Body)
	}
	return *answer.JSON200
}

func (n *node) attempts(id string) []client.Attempt {
	n.t.Helper()
	answer, err := n.ListAttemptsWithResponse(n.t.Context(), id, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if answer.JSON200 == nil {
		n.t.Fatalf("attempts of %s: %s: %s", id, answer.Status(), answer.Body)
	}
	return answer.JSON200.Attempts
}

// all lists the tasks in the given states, every page of them.
func (n *node) all(states ...client.State) []client.Task {
	n.t.Helper()
	var tasks []client.Task
	limit := 500
	params := client.ListTasksParams{Limit: &limit, State: states}
	for {
		answer, err := n.ListTasksWithResponse(n.t.Context(), &params)
		if err != nil {
			n.t.Fatal(err)
		}
		if answer.JSON200 == nil {
			n.t.Fatalf("listing: %s: %s", answer.Status(), answer.Body)
		}
		tasks = append(tasks, answer.JSON200.Tasks...)
		if answer.JSON200.NextCursor == nil || *answer.JSON200.NextCursor == "" {
			return tasks
		}
		params.Cursor = answer.JSON200.NextCursor
	}
}

// await checks every 50 ms whether the condition holds: most conditions are requests to a node, which has other work.
func await(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func ptr[T any](v T) *T { return &v }
