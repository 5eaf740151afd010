package test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/testkit"
)

// examined are the tests, with the URL of a Redis, that examine it in the end.
var examined sync.Map

// leftBehind are the checks of the data that may find something where all nodes were killed: what they find goes when a worker takes the delivery, or
// a leader looks.
var leftBehind = []string{"delivery-leftovers", "server-leftovers"}

// examineAtTheEnd has a test that starts nodes fail if, after all of them were killed in whatever they did, anything in
// Redis does not fit together. It leaves out the checks of leftBehind, and others.
func examineAtTheEnd(t *testing.T, redis string, others ...string) {
	if _, twice := examined.LoadOrStore(fmt.Sprintf("%p %s", t, redis), true); twice {
		return
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		db, err := redisx.Open(ctx, redisx.Options{URL: redis})
		testkit.Must(t, err)
		defer func() { _ = db.Close() }()
		s, err := store.Open(ctx, store.Options{DB: db})
		testkit.Must(t, err)
		nodes := cluster.NewObserver(cluster.Options{DB: db, Key: s.Keys.Nodes()})
		c := control.New(control.Options{Store: s, Queues: queue.New(queue.Options{DB: db}), Nodes: nodes})
		var checks []string // those of the deployment would find that the nodes are dead
		for _, check := range doctor.Checks {
			if check.OfData && !slices.Contains(leftBehind, check.Name) && !slices.Contains(others, check.Name) {
				checks = append(checks, check.Name)
			}
		}
		for r := (control.DoctorRequest{Checks: checks}); ; {
			report, err := c.Examine(ctx, control.Caller{Namespace: "default"}, r)
			testkit.Must(t, err)
			for _, result := range report.Results {
				unbuilt := result.Name == "list-index" && result.Severity == doctor.Note
				if result.Severity != doctor.OK && !unbuilt {
					t.Errorf("in the end, %s finds %d: %q", result.Name, result.Found, result.Examples)
				}
			}
			if r.Cursor = report.NextCursor; r.Cursor == "" {
				return
			}
		}
	})
}

// While a fleet works, ticks, loses a leader and a worker, and replaces them, doctor raises no false alarm. It examines the
// fleet at least once before the loss, and once afterwards.
func TestDoctor_FindsNoErrorOnALiveSystem(t *testing.T) {
	t.Parallel()
	span := testkit.Amount(4*time.Second, 2*time.Minute)
	redis, far := redistest.Start(t), newRecorder(t)
	api := startNode(t, redis.URL(), "--roles", "api")
	dying := startNode(t, redis.URL())
	startNode(t, redis.URL())
	every := testkit.Amount(500*time.Millisecond, 200*time.Millisecond).String()
	for i := range testkit.Amount(8, 20) { // schedules, as many of each overlap
		overlap := []wire.Overlap{wire.OverlapSkip, wire.OverlapQueue, wire.OverlapReplace, wire.OverlapAllow}[i%4]
		put, err := api.PutScheduleWithResponse(t.Context(), fmt.Sprintf("every-%d", i), nil, wire.ScheduleDefinition{
			Every: &every, Overlap: &overlap, Task: wire.TaskTemplate{Type: "http", Payload: []byte(`{"url": "` + far.URL + `/slow"}`)},
		})
		testkit.Must(t, err)
		if put.JSON201 == nil {
			t.Fatalf("putting: %s", put.Body)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() { keepBusy(ctx, t, api, far) })

	began := time.Now()
	before := examineUntil(t, api, began.Add(span/4))
	dying.kill()
	startNode(t, redis.URL())
	after := examineUntil(t, api, began.Add(span))
	stop()
	load.Wait()
	t.Logf("%d and %d examinations while %d attempts ran", before, after, far.count())
}

// examineUntil examines everything at least once, and until a time. It returns how often.
func examineUntil(t *testing.T, n *node, end time.Time) (rounds int) {
	t.Helper()
	for rounds == 0 || time.Now().Before(end) {
		expectNoError(t, n)
		rounds++
	}
	return rounds
}

// busyBatch is the number of tasks that keepBusy submits at once.
var busyBatch = testkit.Amount(5, 20)

// keepBusy submits tasks, and cancels some of them, until ctx ends.
func keepBusy(ctx context.Context, t *testing.T, api *node, far *recorder) {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-pace.C
		var tasks []wire.Submission
		for k := range busyBatch {
			s := far.task(fmt.Sprintf("t-%d-%d", i, k), []string{"/ok", "/slow"}[k%2])
			s.Delay = ptr(fmt.Sprintf("%dms", 50*k))
			s.Retention = ptr("2s")
			tasks = append(tasks, s)
		}
		if _, err := api.SubmitTasksWithResponse(ctx, nil, wire.SubmissionBatch{Tasks: tasks}); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		_, _ = api.CancelTaskWithResponse(ctx, *tasks[i%busyBatch].ID, nil) // it may have ended
	}
}

// expectNoError examines everything through a node.
func expectNoError(t *testing.T, n *node) {
	t.Helper()
	for params := (client.ExamineParams{}); ; {
		answer, err := n.ExamineWithResponse(t.Context(), &params)
		testkit.Must(t, err)
		if answer.JSON200 == nil {
			t.Fatalf("examining: %s %s", answer.Status(), answer.Body)
		}
		for _, c := range answer.JSON200.Checks {
			if c.Severity == wire.DoctorCheckSeverityError && c.Name != "persistence" { // the Redis of a test writes nothing to its disk
				t.Errorf("a false alarm: %s finds %d: %q", c.Name, c.Found, slices.Concat(c.Examples, []string{c.Means}))
			}
		}
		if params.Cursor = answer.JSON200.NextCursor; params.Cursor == nil {
			return
		}
	}
}

// The page for operators explains every check as dtsctl does.
func TestDocs_ExplainEveryCheck(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operations.md")
	testkit.Must(t, err)
	for _, c := range doctor.Checks {
		row := fmt.Sprintf("\n| `%s` | %s | %s | %s |\n", c.Name, c.Severity, c.Meaning(doctor.OK), c.Repair)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/operations.md lacks the row%s", row)
		}
	}
}
