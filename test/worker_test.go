package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
)

// pythonWorker is a process of examples/worker.py.
type pythonWorker struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{} // closed when the process has ended, with err
	err  error
}

// startWorker starts examples/worker.py, which is killed when the test ends.
func startWorker(t *testing.T, servers ...string) *pythonWorker {
	t.Helper()
	w := &pythonWorker{t: t, cmd: exec.Command("python3", append([]string{"../examples/worker.py"}, servers...)...), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), "DTS_LEASE=2", "PYTHONDONTWRITEBYTECODE=1")
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		w.err = w.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.done
		if t.Failed() {
			t.Logf("output of a worker:\n%s", w.out.String())
		}
	})
	return w
}

// end sends a signal and returns how the process ended.
func (w *pythonWorker) end(s syscall.Signal) error {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
	<-w.done
	return w.err
}

// counting is a task for examples/worker.py.
func counting(id string, to int, pause float64) wire.Submission {
	payload, _ := json.Marshal(map[string]any{"to": to, "pause": pause})
	return wire.Submission{ID: &id, Type: "count", Payload: payload, Retry: &wire.Retry{Delays: []wire.Duration{"0s", "0s"}}}
}

// remoteWorkers are the workers by HTTP on the list of nodes that are not dead.
func (n *node) remoteWorkers() []wire.Node {
	n.t.Helper()
	answer, err := n.ListNodesWithResponse(n.t.Context(), nil)
	if err != nil || answer.JSON200 == nil {
		n.t.Fatal(err)
	}
	return slices.DeleteFunc(answer.JSON200.Nodes, func(n wire.Node) bool { return n.Via == nil || n.State == wire.Dead })
}

func (n *node) is(id string, s wire.State) func() bool {
	return func() bool { return n.task(id).State == s }
}

// A worker in another language is a worker: what it ran when it was killed is begun by another one, which goes on from the checkpoint;
// it outlasts the node that it talks to, hears of cancels, and leaves cleanly.
func TestPythonWorker_LosesNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, b := startNode(t, redis.URL(), "--roles", "scheduler,api"), startNode(t, redis.URL(), "--roles", "scheduler,api")

	first := startWorker(t, a.url)
	a.submit(counting("quick", 3, 0))
	await(t, 30*time.Second, "the first task has succeeded", a.is("quick", wire.StateSucceeded))
	if got := *a.task("quick").Result; got != "counted from 0 to 3" {
		t.Errorf("its result is %q", got)
	}
	if workers := a.remoteWorkers(); len(workers) != 1 || *workers[0].Via != a.id || workers[0].Capacity != 4 || !slices.Equal(workers[0].Types, []string{"count"}) {
		t.Errorf("on the list of nodes are %+v, want the worker, by way of %s", workers, a.id)
	}

	a.submit(counting("long", 200, 0.02))
	await(t, 30*time.Second, "it has saved a checkpoint", func() bool { return a.task("long").Checkpoint != nil })
	_ = first.end(syscall.SIGKILL)
	second := startWorker(t, b.url, a.url)
	await(t, 30*time.Second, "another worker goes on", func() bool { return a.task("long").Attempt == 2 && a.task("long").State == wire.StateRunning })
	b.kill()
	await(t, 60*time.Second, "the long task has succeeded", a.is("long", wire.StateSucceeded))
	task := a.task("long")
	if result := *task.Result; !strings.HasPrefix(result, "counted from ") || strings.HasPrefix(result, "counted from 0 ") {
		t.Errorf("its result is %q, want that it went on from the checkpoint", result)
	}
	if attempts := a.attempts("long"); len(attempts) != 2 || *attempts[0].Outcome != wire.OutcomeLost || *attempts[1].Outcome != wire.OutcomeSucceeded {
		t.Errorf("its attempts are %+v, want one that was lost and one that succeeded", attempts)
	}

	a.submit(counting("endless", 1_000_000, 0.02))
	await(t, 30*time.Second, "it runs", a.is("endless", wire.StateRunning))
	answer, err := a.CancelTaskWithResponse(t.Context(), "endless", nil)
	if err != nil || answer.StatusCode() != http.StatusOK {
		t.Fatalf("cancelling: %v, %s", err, answer.Status())
	}
	await(t, 30*time.Second, "it is cancelled", a.is("endless", wire.StateCancelled))

	a.submit(counting("last", 50, 0.02))
	await(t, 30*time.Second, "it runs", a.is("last", wire.StateRunning))
	if err := second.end(syscall.SIGTERM); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if got := a.task("last").State; got != wire.StateSucceeded {
		t.Errorf("the task that ran is %s when the worker has left", got)
	}
	await(t, 30*time.Second, "no worker is on the list", func() bool { return len(a.remoteWorkers()) == 0 })
}

// breaking is a server that passes calls on to a node, and breaks every other answer to a take or a finish in the middle. It counts those.
func breaking(t *testing.T, n *node) (_ *httptest.Server, broken *atomic.Int64) {
	broken = &atomic.Int64{}
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := r.Clone(r.Context())
		request.RequestURI, request.URL.Scheme, request.URL.Host = "", "http", strings.TrimPrefix(n.url, "http://")
		request.Host = ""
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil {
			panic(http.ErrAbortHandler)
		}
		taken := path.Base(r.URL.Path) == "take" && strings.Contains(string(body), `"token"`)
		breaks := (taken || path.Base(r.URL.Path) == "finish") && calls.Add(1)%2 == 1
		if breaks && len(body) == 0 {
			broken.Add(1)
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(answer.StatusCode)
		if breaks {
			broken.Add(1)
			body = body[:len(body)/2]
		}
		_, _ = w.Write(body)
		if breaks {
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	return server, broken
}

func TestPythonWorker_UsesUpNoAttemptWhenAnswersAreLost(t *testing.T) {
	t.Parallel()
	n := startNode(t, redistest.Start(t).URL(), "--roles", "scheduler,api")
	between, broken := breaking(t, n)
	startWorker(t, between.URL)
	for i := range 6 {
		id := fmt.Sprint("t", i)
		n.submit(counting(id, 3, 0.05))
		await(t, 30*time.Second, id+" has succeeded", n.is(id, wire.StateSucceeded))
		if got := n.task(id).Attempt; got != 1 {
			t.Errorf("%s took %d attempts", id, got)
		}
	}
	if got := broken.Load(); got < 6 {
		t.Errorf("%d answers were broken, want each task to miss one", got)
	}
}
