package control

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
	"github.com/dts-sched/dts/lua"
)

// A worker by HTTP has no other way to keep its leases. One silent server must not cost it those on the others.
func TestExtendAttempts_GoesOnWhileAServerIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	silent := task.Ref{Namespace: "default", ID: "silent"}
	paused := w.ServerOf(silent)
	refs := append([]task.Ref{silent}, w.Elsewhere(paused, 2)...)
	held := make([]Held, len(refs))
	for i, ref := range refs {
		w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 2}})
		run := w.Begin(ref)
		held[i] = Held{ID: ref, Attempt: 1, Token: run.Token()}
	}
	_, err := w.Tasks.Cancel(w.Ctx, refs[1], "")
	testkit.Must(t, err)
	until := func(ref task.Ref) float64 {
		return w.DB.ZScore(w.Ctx, string(w.KeysOf(ref).Held()), ref.String()).Val()
	}
	control := New(Options{Store: w.Store})

	before := until(refs[2])
	paused.Pause()
	t.Cleanup(paused.Continue)
	verdicts, err := control.ExtendAttempts(w.Ctx, me, "w1", Extension{Attempts: held, Lease: 3 * time.Second})
	if err != nil || fmt.Sprint(verdicts) != fmt.Sprint([]Extended{{Verdict: VerdictUnknown}, {Verdict: VerdictCancelled}, {Verdict: VerdictRunning}}) {
		t.Errorf("%v, %v", verdicts, err)
	}
	if until(refs[2]) <= before {
		t.Errorf("the lease is not extended")
	}
}

// Schedules that start a workflow are looked for to warn of them.
func TestDeleteWorkflow_GoesOnWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	silent := w.ServerOf(task.Ref{Namespace: "default", ID: "silent"})
	ref := w.Elsewhere(silent, 1)[0]
	d, err := text.Parse(ref.Namespace, `{"steps": [{"id": "a", "task": {"type": "noop"}}]}`)
	testkit.Must(t, err)
	d.Ref = ref
	_, err = w.Workflows.Put(w.Ctx, d, 0, "")
	testkit.Must(t, err)
	control := New(Options{Store: w.Store})

	silent.Pause()
	t.Cleanup(silent.Continue)
	if users, err := control.DeleteWorkflow(w.Ctx, me, ref.ID, 0); err != nil || !users.More {
		t.Errorf("it says that there may be more schedules: %t, %v", users.More, err)
	}
	if _, err := control.GetWorkflow(w.Ctx, me, ref.ID); task.CodeOf(err) != workflow.CodeNotFound {
		t.Errorf("it is still there: %v", err)
	}
}

// Batches wait for their turn behind others. What a batch needs may be on those servers that answer.
func TestSubmitEach_WaitsForItsTurnBehindBatchesForASilentServer(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	silent := task.Ref{Namespace: "default", ID: "silent"}
	paused := w.ServerOf(silent)
	other := w.Elsewhere(paused, 1)[0]
	control := New(Options{Store: w.Store})
	submit := func(ref task.Ref) (tasks []Submitted, err error) {
		return control.SubmitEach(w.Ctx, me, []task.Definition{{Ref: ref, Type: "http"}, {Ref: ref, Type: "http"}})
	}
	_, err := submit(other)
	testkit.Must(t, err)

	paused.Pause()
	t.Cleanup(paused.Continue)
	hurried, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := w.Tasks.Get(hurried, silent); err == nil || w.DB.Link().Up() {
		t.Fatal("the outage is not noticed")
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for range 2 * turnsLimit {
		waiting.Go(func() { _, _ = submit(silent) })
	}
	testkit.Eventually(t, "they wait", func() bool { return control.admission.busy.Load() == 4*turnsLimit && len(control.turns) == turnsLimit })
	answers, err := submit(other)
	if err != nil || answers[0].Err != nil {
		t.Errorf("%+v, %v", answers, err)
	}
}

// How full a server is can only be read of the server.
func TestSubmitEach_WaitsForAllSilentServersAtOnce(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	control := New(Options{Store: w.Store})
	defs := make([]task.Definition, 20)
	for i := range defs {
		defs[i] = task.Definition{Ref: task.Ref{Namespace: me.Namespace, ID: fmt.Sprint(i)}, Type: "http"}
	}
	for _, s := range w.Cluster.Servers {
		s.Pause()
		t.Cleanup(s.Continue)
	}
	watch := testkit.StartStopwatch(t)
	answers, err := control.SubmitEach(w.Ctx, me, defs)
	testkit.Must(t, err)
	for i, a := range answers {
		if task.CodeOf(a.Err) != task.CodeUnavailable {
			t.Errorf("task %d: %v", i, a.Err)
		}
	}
	if took := watch.Elapsed(); took > 12*time.Second { // the memory takes one, and the tasks take five
		t.Errorf("a batch of %d tasks took %s", len(defs), took)
	}
}

// A process that sends no heartbeat reads the list of nodes when it submits. Its server is not needed for tasks on the others.
func TestSubmit_GoesOnWhileTheServerOfTheListOfNodesIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	nodes := cluster.NewObserver(cluster.Options{DB: w.DB, Key: w.Keys.Nodes(), Beat: time.Millisecond})
	t.Cleanup(nodes.Close)
	control := New(Options{Store: w.Store, Nodes: nodes})
	silent := w.Cluster.Primary(string(w.Keys.Nodes()))
	refs := w.Elsewhere(silent, 11)
	submit := func(ref task.Ref) error {
		_, err := control.Submit(t.Context(), me, task.Definition{Ref: ref, Type: "http", RunAt: time.Now().Add(time.Hour)})
		return err
	}
	testkit.Must(t, submit(refs[0])) // it notes the namespace, too

	silent.Pause()
	t.Cleanup(silent.Continue)
	watch := testkit.StartStopwatch(t)
	for _, ref := range refs[1:] {
		testkit.Must(t, submit(ref))
	}
	if took := watch.Elapsed(); took > 5*time.Second {
		t.Errorf("%d submissions took %s", len(refs)-1, took)
	}
}

// Whether one of asynq's own servers serves a queue is for a warning only.
func TestSubmit_GoesOnWhileTheServerOfTheListOfAsynqsServersIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	control := New(Options{Store: w.Store, Nodes: fleet{}, Queues: queue.New(queue.Options{DB: w.DB})})
	silent := w.Cluster.Primary(string(lua.AsynqServers))
	refs := w.Elsewhere(silent, 11)
	control.noteNamespaces(w.Ctx, me.Namespace)

	silent.Pause()
	t.Cleanup(silent.Continue)
	watch := testkit.StartStopwatch(t)
	var all sync.WaitGroup
	for _, ref := range refs {
		all.Go(func() {
			submitted, err := control.Submit(t.Context(), me, task.Definition{Ref: ref, Type: "http", Delay: time.Hour})
			if err != nil || submitted.Warnings != nil {
				t.Errorf("%v, warnings %q", err, submitted.Warnings)
			}
		})
	}
	all.Wait()
	if took := watch.Elapsed(); took > 5*time.Second {
		t.Errorf("%d submissions took %s", len(refs), took)
	}
}

// The list of namespaces is for those who look.
func TestSubmit_GoesOnWhileTheServerOfTheListOfNamespacesIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	control := New(Options{Store: w.Store})
	silent := w.Cluster.Primary(string(w.Store.Keys.Namespaces()))
	refs := w.Elsewhere(silent, 5)

	silent.Pause()
	t.Cleanup(silent.Continue)
	watch := testkit.StartStopwatch(t)
	for _, ref := range refs {
		if _, err := control.Submit(t.Context(), me, task.Definition{Ref: ref, Type: "http", Delay: time.Hour}); err != nil {
			t.Error(err)
		}
	}
	if took := watch.Elapsed(); took > 8*time.Second {
		t.Errorf("%d submissions took %s", len(refs), took)
	}
}
