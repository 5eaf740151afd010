package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// fleet is what a registry has seen.
type fleet []cluster.Node

func (f fleet) Nodes(context.Context) ([]cluster.Node, error) { return f, nil }

func (f fleet) View() cluster.View { return cluster.View{At: time.Now(), Nodes: f} }

func aNode(state string, types []string, queues ...string) cluster.Node {
	n := cluster.Node{State: state, Roles: []string{"worker"}, Types: types, Queues: map[string]int{}, Capacity: 1}
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

func TestSubmit_WarnsOfAQueueWhoseNodesAreCordoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = cordoned(fleet{aNode("alive", []string{"http"}, "default")}, "vm")
	const want = `no node takes tasks of the queue "default": vm is cordoned (dtsctl node uncordon vm)`
	got, err := w.Submit(w.ctx, me, task.Definition{Type: "http"})
	if err != nil || !slices.Equal(got.Warnings, []string{want}) {
		t.Errorf("%v, warnings %q", err, got.Warnings)
	}
	w.nodes = append(w.nodes.(fleet), aNode("alive", []string{"http"}, "default"))
	if got, err = w.Submit(w.ctx, me, task.Definition{Type: "http"}); err != nil || len(got.Warnings) > 0 {
		t.Errorf("beside another node: %v, warnings %q", err, got.Warnings)
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
	testkit.Must(t, w.queues.Add(w.ctx, "reports"))
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || !slices.ContainsFunc(queues, func(q QueueInfo) bool { return q.Name == "reports" && q.Foreign > 0 }) {
		t.Errorf("the list of queues does not know asynq's server: %+v, %v", queues, err)
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

func TestPutWorkflow_WarnsOfWhatNoLivingNodeRuns(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	w.nodes = fleet{}
	const definition = `{"steps": [{"id": "a", "task": {"type": "http", "queue": "reports"}}],
		"finally": [{"id": "b", "task": {"type": "http", "queue": "reports"}}]}`
	want := []string{"step a: " + unserved}
	for _, dry := range []bool{true, false} {
		put, err := w.PutWorkflow(w.ctx, me, "etl", []byte(definition), PutOptions{DryRun: dry})
		if err != nil || !slices.Equal(put.Warnings, want) {
			t.Errorf("dry run %v: %v, warnings %q", dry, err, put.Warnings)
		}
	}
	run, err := w.SubmitRun(w.ctx, me, task.Definition{
		Type: task.WorkflowType, Payload: []byte(`{"definition": ` + definition + `}`),
	}, false)
	if err != nil || !slices.Equal(run.Warnings, want) {
		t.Errorf("a run: %v, warnings %q", err, run.Warnings)
	}
}

func TestPutWorkflow_WarnsOfSchedulesWhoseParamsDoNotFit(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	const old = `{"params": {"day": {"type": "string"}}, "steps": [{"id": "a", "task": {"type": "noop"}}]}`
	next := strings.Replace(old, `{"day"`, `{"min_rows": {"type": "integer", "required": true}, "day"`, 1)
	put := func(definition string, dry bool) PutOfWorkflow {
		put, err := w.PutWorkflow(w.ctx, me, "etl", []byte(definition), PutOptions{DryRun: dry})
		testkit.Must(t, err)
		return put
	}
	put(old, false)
	for id, params := range map[string]string{"north": `{"day": "x"}`, "south": `{}`} {
		w.put(daily(func(d *schedule.Definition) {
			d.ID = id
			d.Task = task.Definition{Type: task.WorkflowType, Payload: []byte(`{"workflow": "etl", "params": ` + params + `}`)}
		}))
	}
	missing := func(id string) string {
		return "schedule " + id + ": its runs will fail: params.min_rows: is missing: a run needs it"
	}
	want := []string{missing("north"), missing("south")}
	for _, dry := range []bool{true, false} {
		if got := put(next, dry).Warnings; !slices.Equal(got, want) {
			t.Errorf("dry run %t: warnings %q", dry, got)
		}
	}
	if got := put(old, false).Warnings; got != nil {
		t.Errorf("of a definition that fits: warnings %q", got)
	}
	broken := task.Ref{Namespace: nightly.Namespace, ID: "south"}
	testkit.Must(t, w.db.HSet(w.ctx, w.key(broken, "schedule"), "def", "{").Err())
	want[1] = "there may be more schedules whose params do not fit: not all were checked"
	rolled, err := w.RollbackWorkflow(w.ctx, me, "etl", 2, PutOptions{})
	if err != nil || !slices.Equal(rolled.Warnings, want) {
		t.Errorf("rolled back: %v, warnings %q", err, rolled.Warnings)
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

func TestWhyWaiting_NamesWhatKeepsADueTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"shell": {Setting: "enable-shell"}}
	w.nodes = fleet{aNode("alive", []string{"http"}, "default", "held")}
	testkit.Must(t, w.queues.Add(w.ctx, "held"))
	testkit.Must(t, w.PauseQueue(w.ctx, me, "held", ""))
	due := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		task task.Task
		want []string
	}{
		"served":              {task.Task{Definition: task.Definition{Type: "http", Queue: "default"}, State: task.Queued, DueAt: due}, nil},
		"unserved":            {task.Task{Definition: task.Definition{Type: "http", Queue: "reports"}, State: task.Scheduled, DueAt: due}, []string{unserved}},
		"not due":             {task.Task{Definition: task.Definition{Type: "http", Queue: "reports"}, State: task.Scheduled, DueAt: due.Add(time.Hour)}, nil},
		"running":             {task.Task{Definition: task.Definition{Type: "http", Queue: "reports"}, State: task.Running, DueAt: due}, nil},
		"ended":               {task.Task{Definition: task.Definition{Type: "http", Queue: "reports"}, State: task.Failed, DueAt: due}, nil},
		"paused":              {task.Task{Definition: task.Definition{Type: "http", Queue: "held"}, State: task.Queued, DueAt: due}, []string{held}},
		"cannot be read":      {task.Task{State: task.Queued, DueAt: due, Damage: "its definition cannot be read"}, nil},
		"not run, and paused": {task.Task{Definition: task.Definition{Type: "shell", Queue: "held"}, State: task.Scheduled, DueAt: due}, []string{shellInHeld, held}},
	} {
		if got := w.WhyWaiting(w.ctx, c.task); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	testkit.Must(t, w.ResumeQueue(w.ctx, me, "held"))
	resumed := task.Task{Definition: task.Definition{Type: "http", Queue: "held"}, State: task.Queued, DueAt: due}
	if got := w.WhyWaiting(w.ctx, resumed); got != nil {
		t.Errorf("after the queue was resumed: %q", got)
	}
}

const (
	held        = `the queue "held" is paused (dtsctl queue resume held)`
	shellInHeld = `no living node that serves the queue "held" runs tasks of type "shell" (dtsd serve --enable-shell)`
)

// A list of many tasks asks Redis once for each queue.
func TestWhyWaiting_AsksRedisSeldom(t *testing.T) {
	t.Parallel()
	var p pausedQueues
	reads := 0
	read := func(context.Context, string) (bool, error) { reads++; return true, nil }
	for range 100 {
		if !p.is(t.Context(), "a", read) {
			t.Fatal("it is not paused")
		}
	}
	if reads > 2 { // the machine may be slow
		t.Errorf("it was read %d times", reads)
	}
}

// A list may have tasks of several queues whose servers are silent.
func TestWhyWaiting_WaitsForASilentQueueOnceInAList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pausedQueues
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		for range 100 {
			for _, queue := range []string{"a", "b", "c"} {
				if p.is(ctx, queue, func(ctx context.Context, _ string) (bool, error) { return false, silent(ctx) }) {
					t.Fatalf("%s is paused", queue)
				}
			}
		}
		if took := time.Since(begin); took != 3*latestTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

// blockedQueue is a queue that somebody reads whose server does not answer before the test lets it.
func blockedQueue(t *testing.T, p *pausedQueues, queue string, paused bool) (answer func()) {
	t.Helper()
	begun, allowed, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.is(t.Context(), queue, func(context.Context, string) (bool, error) {
			close(begun)
			<-allowed
			return paused, nil
		})
	}()
	_ = testkit.Receive(t, begun, "the reading")
	answer = sync.OnceFunc(func() { close(allowed); <-ended })
	t.Cleanup(answer)
	return answer
}

func TestWhyWaiting_WaitsForNobodyElse(t *testing.T) {
	t.Parallel()
	var p pausedQueues
	_ = blockedQueue(t, &p, "silent", true)
	for queue, want := range map[string]bool{"other": true, "silent": false} {
		got := make(chan bool, 1)
		go func() {
			got <- p.is(t.Context(), queue, func(context.Context, string) (bool, error) { return true, nil })
		}()
		if got := testkit.Receive(t, got, queue); got != want {
			t.Errorf("%s is paused: %v, want %v", queue, got, want)
		}
	}
}

// Who has resumed a queue is not told that it is paused, by somebody who asked before.
func TestWhyWaiting_IgnoresAnOlderReadingOfAQueueThatWasResumed(t *testing.T) {
	t.Parallel()
	var p pausedQueues
	answer := blockedQueue(t, &p, "resumed", true)
	forgotten := make(chan struct{})
	go func() { p.forget("resumed"); close(forgotten) }()
	_ = testkit.Receive(t, forgotten, "the resumption")
	answer()
	if p.is(t.Context(), "resumed", func(context.Context, string) (bool, error) { return false, nil }) {
		t.Error("it is paused")
	}
}

// holdBack makes a schedule of every hour with a tick that is due, and does what its leader does while its queue is full.
func (w *world) holdBack(d schedule.Definition) {
	w.t.Helper()
	w.put(d)
	w.rewind(d.Ref, 90*time.Minute)
	leader := w.store.Partitions.At(w.store.PartitionOf(d.Ref)).Lead(fence)
	due, err := leader.Due(w.ctx, 10, true)
	testkit.Must(w.t, err)
	for _, a := range due.Agendas {
		testkit.Must(w.t, leader.Fire(w.ctx, []partition.Planned{partition.HoldBack(a)})[0].Err)
	}
}

func TestWhyHeldBack_NamesTheLimitAndWhatTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Must(t, w.queues.Add(w.ctx, "held"))
	testkit.Must(t, w.PauseQueue(w.ctx, me, "held", ""))
	for queueName, limit := range map[string]int{"small": 5, "held": 1, "default": 7} {
		testkit.Must(t, w.SetQueueCapacity(w.ctx, me, queueName, limit))
	}
	for name, c := range map[string]struct {
		queue string
		want  []string
	}{
		"no-queue": {"", []string{atCapacity("default", 7)}},
		"small":    {"small", []string{atCapacity("small", 5)}},
		"paused":   {"held", []string{atCapacity("held", 1), held}},
		"no-limit": {"large", nil},
	} {
		d := daily(func(d *schedule.Definition) {
			d.Ref.ID, d.Rules, d.Task.Queue = name, []schedule.Rule{{Every: time.Hour}}, c.queue
		})
		w.holdBack(d)
		s := w.schedule(d.Ref)
		first := s.Cursor.Add(time.Hour).UTC().Format(time.RFC3339)
		for i := range c.want {
			c.want[i] = strings.ReplaceAll(c.want[i], "FIRST", first)
		}
		if got := w.WhyHeldBack(w.ctx, s); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		w.lookNow(d.Ref)
		if got := w.WhyHeldBack(w.ctx, w.schedule(d.Ref)); got != nil {
			t.Errorf("%s, decided: %q", name, got)
		}
	}
}

// atCapacity is what is said of a schedule whose queue is full; FIRST is its first tick that is not decided.
func atCapacity(queueName string, capacity int) string {
	return fmt.Sprintf("the queue %q is at its capacity of waiting tasks (%d): "+
		"ticks from FIRST on are held back until it has room (dtsctl queue capacity %s N)",
		queueName, capacity, queueName)
}
