package test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
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
func (n *node) submit(tasks ...wire.Submission) {
	n.t.Helper()
	for len(tasks) > 0 {
		some := tasks[:min(1000, len(tasks))]
		tasks = tasks[len(some):]
		answer, err := n.SubmitTasksWithResponse(n.t.Context(), nil, wire.SubmissionBatch{Tasks: some})
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

func (n *node) task(id string) wire.Task {
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

func (n *node) attempts(id string) []wire.Attempt {
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
func (n *node) all(states ...wire.State) []wire.Task {
	n.t.Helper()
	var tasks []wire.Task
	for page := range n.pages(500, states...) {
		tasks = append(tasks, page...)
	}
	return tasks
}

// idle is a condition: no task waits or runs.
func (n *node) idle() bool {
	n.t.Helper()
	for page := range n.pages(1, "scheduled", "queued", "running") {
		if len(page) > 0 {
			return false
		}
	}
	return true
}

// pages lists the tasks in the given states, up to limit at a time.
func (n *node) pages(limit int, states ...wire.State) iter.Seq[[]wire.Task] {
	n.t.Helper()
	params := client.ListTasksParams{Limit: &limit, State: states}
	return func(yield func([]wire.Task) bool) {
		for {
			answer, err := n.ListTasksWithResponse(n.t.Context(), &params)
			if err != nil {
				n.t.Fatal(err)
			}
			if answer.JSON200 == nil {
				n.t.Fatalf("listing: %s: %s", answer.Status(), answer.Body)
			}
			next := answer.JSON200.NextCursor
			if !yield(answer.JSON200.Tasks) || next == nil || *next == "" {
				return
			}
			params.Cursor = next
		}
	}
}

const (
	shortestPause = 10 * time.Millisecond
	longestPause  = 200 * time.Millisecond
)

// await checks again and again whether the condition holds, after pauses of a tenth of the time that it has waited: most
// conditions are requests to a node, which has other work.
func await(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	begin := time.Now()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for !condition() {
		pause.Reset(min(max(time.Since(begin)/10, shortestPause), longestPause))
		select {
		case <-pause.C:
		case <-deadline.Done():
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func ptr[T any](v T) *T { return &v }
