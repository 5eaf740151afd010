package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
)

// members is a list of nodes that keeps who left.
type members struct {
	mu   sync.Mutex
	left []string
}

func (m *members) View() cluster.View {
	return cluster.View{At: start, Nodes: []cluster.Node{{ID: "n1", State: cluster.StateAlive}}}
}
func (m *members) BeatNow() {}
func (m *members) RemoveGuest(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = append(m.left, id)
	return nil
}

// workersOfTest is how many workers the address of the tests may have at a node.
const workersOfTest = 10

// workerRig is a rig on which workers may take attempts.
type workerRig struct {
	*rig
	members *members
	metrics *telemetry.Metrics // of all nodes
	remote  *remote.Workers
}

func startWorkerRig(t *testing.T) *workerRig {
	t.Helper()
	b, _ := startBackend(t)
	w := &workerRig{members: &members{}, metrics: telemetry.New()}
	w.rig = w.join(b)
	return w
}

// join starts a node on a backend.
func (w *workerRig) join(b *backend) *rig {
	b.t.Helper()
	db := b.redis.DB(b.t)
	w.remote = remote.New(remote.Options{
		DB: db, Store: openStore(b.t, db), Members: w.members, Metrics: w.metrics, Log: slog.New(slog.DiscardHandler), PerAddress: workersOfTest,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	workers := w.remote
	go func() { ended <- workers.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := testkit.Receive(b.t, ended, "the end of the workers"); err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
	useCases := control.New(control.Options{Store: openStore(b.t, db), Queues: queue.New(queue.Options{DB: db}), Events: b.events, Workers: workers})
	return startRigOn(b.t, b, useCases)
}

// dispatch does what the leader does.
func (w *workerRig) dispatch() { w.claim(handover.Grant{Default: 1000}) }

func (w *workerRig) claim(g handover.Grant) handover.Backlog {
	w.t.Helper()
	claimed, err := w.store.Partitions.At(0).Lead(fence).Claim(w.ctx, 100, g, time.Second)
	testkit.Must(w.t, err)
	testkit.Must(w.t, w.queues.HandOver(w.ctx, claimed.Deliveries, nil).Failure())
	return claimed.Backlog
}

// dispatchTo does so with what was given up, which is to go to a worker.
func (w *workerRig) dispatchTo(worker string) {
	lanes := make(handover.Quotas)
	for lane := range w.claim(handover.Grant{Default: 1000}) {
		lanes[lane] = handover.Quota{Number: 1, Nodes: []string{worker}}
	}
	w.claim(handover.Grant{Default: 1000, Lanes: lanes})
}

func (w *workerRig) submit(id string, retry *wire.Retry) {
	w.t.Helper()
	s := wire.Submission{ID: &id, Type: "count", Payload: json.RawMessage(`{"to":3}`), Retry: retry, Timeout: new("10s")}
	if answer, err := w.SubmitTaskWithResponse(w.ctx, nil, s); err != nil || answer.JSON201 == nil {
		w.t.Fatalf("%v: %s", err, answer.Body)
	}
	w.dispatch()
}

func (w *workerRig) take(worker string, limit int) []wire.TakenAttempt {
	w.t.Helper()
	answer, err := w.TakeAttemptsWithResponse(w.ctx, worker, wire.TakeRequest{Types: []string{"count"}, Max: &limit, Wait: new("10s"), Lease: new("1m")})
	testkit.Must(w.t, err)
	if answer.JSON200 == nil {
		w.t.Fatalf("take: %s", answer.Body)
	}
	return answer.JSON200.Attempts
}

func (w *workerRig) extend(r *rig, a wire.TakenAttempt) wire.ExtendedAttemptVerdict {
	w.t.Helper()
	held := wire.HeldAttempt{Namespace: &a.Namespace, Task: a.Task, Attempt: a.Attempt, Token: a.Token}
	answer, err := r.ExtendAttemptsWithResponse(w.ctx, "py-1", wire.ExtendRequest{Attempts: []wire.HeldAttempt{held}, Lease: new("1m")})
	testkit.Must(w.t, err)
	if answer.JSON200 == nil || len(answer.JSON200.Attempts) != 1 {
		w.t.Fatalf("extend: %s", answer.Body)
	}
	return answer.JSON200.Attempts[0].Verdict
}

// finish ends an attempt and returns the code of the problem; "" for none.
func (w *workerRig) finish(a wire.TakenAttempt, end wire.AttemptEnd) wire.ProblemCode {
	w.t.Helper()
	end.Token = a.Token
	answer, err := w.FinishAttemptWithResponse(w.ctx, a.Task, a.Attempt, nil, end)
	testkit.Must(w.t, err)
	if answer.StatusCode() == http.StatusNoContent {
		return ""
	}
	return answer.ApplicationProblemJSONDefault.Code
}

// Whoever hangs up in many calls leaves places to the workers of other addresses.
func TestWorker_OneAddressCannotTakeAllPlaces(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	const body = `{"types": ["count"], "wait": "0s", "lease": "10m"}`
	for i := range workersOfTest {
		if got := w.call("POST", fmt.Sprintf("/v1/workers/w%d/take", i), body); got.status != http.StatusOK {
			t.Fatalf("worker %d: %d %s", i, got.status, got.body)
		}
	}
	p := w.call("POST", "/v1/workers/one-more/take", body).problem(t)
	if p.Code != "unavailable" || !strings.Contains(p.Detail, "from the address 127.0.0.1") {
		t.Errorf("one more is answered with %s: %s", p.Code, p.Detail)
	}
}

// What would be left out is refused, and the attempt goes on.
func TestWorker_ReportsMustMakeSense(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("a", nil)
	a := w.take("py-1", 1)[0]
	at := "/v1/tasks/a/attempts/1/"
	for _, c := range []struct{ call, body, field string }{
		{"report", `"note": "row 5"`, "note"},
		{"finish", `"outcome": "succeeded", "error": "none"`, "error"},
		{"finish", `"outcome": "failed", "result": "42"`, "result"},
		{"finish", `"outcome": "succeeded", "permanent": true`, "permanent"},
		{"finish", `"outcome": "cancelled", "retry_after": "1s"`, "retry_after"},
		{"finish", `"outcome": "failed", "pause_keys": "999ms"`, "pause_keys"},
		{"finish", `"outcome": "failed", "pause_keys": "3601s"`, "pause_keys"},
	} {
		p := w.call("POST", at+c.call, `{"token": "`+a.Token+`", `+c.body+`}`).problem(t)
		if p.Code != wire.ProblemCode(task.CodeInvalid) || wire.Value(p.Field) != c.field {
			t.Errorf("%s %s: %+v", c.call, c.body, p)
		}
	}
	if code := w.finish(a, wire.AttemptEnd{Outcome: wire.EndTimeout, Error: new("too slow"), Permanent: new(true)}); code != "" {
		t.Errorf("an end that makes sense: %s", code)
	}
}

func TestWorker_TakesExtendsReportsAndFinishes(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("a", nil)
	w.submit("b", nil)
	taken := w.take("py-1", 2)
	if len(taken) != 2 {
		t.Fatalf("took %d attempts, want 2", len(taken))
	}
	a := taken[0]
	if a.Attempt != 1 || string(a.Payload) != `{"to":3}` || a.Timeout != "10s" || a.Checkpoint != nil || *a.IdempotencyKey != "default:"+a.Task || a.LeaseUntil.Sub(a.StartedAt.Time) != time.Minute {
		t.Errorf("taken: %+v", a)
	}
	if guests := w.remote.Guests(); len(guests) != 1 || guests[0].ID != "py-1" || guests[0].Running != 2 || guests[0].Capacity != 2 {
		t.Errorf("guests: %+v", guests)
	}
	if got := w.extend(w.rig, a); got != wire.VerdictRunning {
		t.Errorf("the verdict is %s", got)
	}
	reported, err := w.ReportAttemptWithResponse(w.ctx, a.Task, 1, nil, wire.AttemptReport{
		Token: a.Token, Progress: new(40), Note: new("row 5"), Checkpoint: json.RawMessage(`{"row": 5}`), FirstLine: new(1),
		Lines: []wire.ReportedLine{{Text: "one"}, {Text: "two", Stream: new(wire.LineStderr)}},
	})
	testkit.Must(t, err)
	if reported.StatusCode() != http.StatusNoContent {
		t.Errorf("reported: %s", reported.Body)
	}
	got := w.get(ref(a.Task))
	if got.Node != "py-1" || got.Progress != 40 || got.ProgressNote != "row 5" || string(got.Checkpoint) != `{"row":5}` {
		t.Errorf("it is %+v", got)
	}
	page, err := w.store.Tasks.Logs(w.ctx, ref(a.Task), tasks.LogQuery{Limit: 10})
	lines := page.Lines
	if err != nil || len(lines) != 2 || lines[1].Stream != "stderr" || lines[1].Text != "two" {
		t.Errorf("the log is %+v, %v", lines, err)
	}
	for range 2 { // a repeat is harmless
		if code := w.finish(a, wire.AttemptEnd{Outcome: wire.EndSucceeded, Result: new("done")}); code != "" {
			t.Errorf("finish: %s", code)
		}
	}
	if got := w.get(ref(a.Task)); got.State != task.Succeeded || got.Result != "done" {
		t.Errorf("it is %+v", got)
	}
	if code := w.finish(a, wire.AttemptEnd{Outcome: wire.EndFailed, Error: new("no")}); code != wire.StaleAttempt && code != wire.TaskNotRunning {
		t.Errorf("another end: %q", code)
	}
	testkit.Eventually(t, "its delivery is settled", func() bool {
		return w.db.Exists(w.ctx, "asynq:{default}:t:default:"+a.Task+":1").Val() == 0
	})
}

func TestWorker_FailuresFollowTheRetryPolicy(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	again := wire.Retry{Delays: []wire.Duration{"1m", "1m"}}
	for id, c := range map[string]struct {
		end   wire.AttemptEnd
		state task.State
		wait  time.Duration
	}{
		"failed":    {wire.AttemptEnd{Outcome: wire.EndFailed, Error: new("no")}, task.Scheduled, time.Minute},
		"later":     {wire.AttemptEnd{Outcome: wire.EndFailed, RetryAfter: new("1h")}, task.Scheduled, time.Hour},
		"permanent": {wire.AttemptEnd{Outcome: wire.EndFailed, Permanent: new(true)}, task.Failed, 0},
		"timeout":   {wire.AttemptEnd{Outcome: wire.EndTimeout}, task.Scheduled, time.Minute},
		"cancelled": {wire.AttemptEnd{Outcome: wire.EndCancelled}, task.Cancelled, 0},
		"snoozed":   {wire.AttemptEnd{Outcome: wire.EndSnoozed, RetryAfter: new("1h"), Error: new("no file yet")}, task.Scheduled, time.Hour},
	} {
		w.submit(id, &again)
		a := w.take("py-1", 1)[0]
		before, err := w.store.Now(w.ctx, 0)
		testkit.Must(t, err)
		if code := w.finish(a, c.end); code != "" {
			t.Errorf("%s: %s", id, code)
		}
		got := w.get(ref(id))
		if got.State != c.state || c.wait > 0 && (got.DueAt.Sub(before.Truncate(time.Millisecond)) < c.wait || got.DueAt.Sub(before) > c.wait+c.wait/10+time.Minute) {
			t.Errorf("%s: it is %s, due at %s", id, got.State, got.DueAt)
		}
		if snoozed := c.end.Outcome == wire.EndSnoozed; (got.MaxAttempts == 4) != snoozed {
			t.Errorf("%s: it may make %d attempts", id, got.MaxAttempts)
		}
	}
}

// The answer of a finish may be lost at any time. Whoever repeats it hears that all is well, also when the next attempt runs already.
func TestWorker_MayRepeatAFinish(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	again := wire.Retry{Delays: []wire.Duration{"0s"}}
	for id, c := range map[string]struct {
		end, other wire.AttemptEnd
		state      task.State
		outcome    task.Outcome
		cancel     bool
	}{
		"succeeded": {wire.AttemptEnd{Outcome: wire.EndSucceeded}, wire.AttemptEnd{Outcome: wire.EndFailed}, task.Succeeded, task.OutcomeSucceeded, false},
		"failed":    {wire.AttemptEnd{Outcome: wire.EndFailed}, wire.AttemptEnd{Outcome: wire.EndTimeout}, task.Running, task.OutcomeFailed, false},
		"for-good":  {wire.AttemptEnd{Outcome: wire.EndFailed, Permanent: new(true)}, wire.AttemptEnd{Outcome: wire.EndSucceeded}, task.Failed, task.OutcomeFailed, false},
		"timeout":   {wire.AttemptEnd{Outcome: wire.EndTimeout}, wire.AttemptEnd{Outcome: wire.EndCancelled}, task.Running, task.OutcomeTimeout, false},
		"off":       {wire.AttemptEnd{Outcome: wire.EndInterrupted}, wire.AttemptEnd{Outcome: wire.EndFailed}, task.Running, task.OutcomeInterrupted, false},
		"moved":     {wire.AttemptEnd{Outcome: wire.EndMoved}, wire.AttemptEnd{Outcome: wire.EndFailed}, task.Running, task.OutcomeMoved, false},
		"cancelled": {wire.AttemptEnd{Outcome: wire.EndFailed}, wire.AttemptEnd{Outcome: wire.EndSucceeded}, task.Cancelled, task.OutcomeCancelled, true},
	} {
		t.Run(id, func(t *testing.T) {
			w.submit(id, &again)
			a := w.take("py-1", 1)[0]
			if c.cancel {
				_, err := w.CancelTaskWithResponse(w.ctx, id, nil)
				testkit.Must(t, err)
			}
			counted := w.counted(c.outcome)
			for range 2 {
				if code := w.finish(a, c.end); code != "" {
					t.Errorf("finish: %s", code)
				}
			}
			if c.state == task.Running {
				w.dispatch()
				w.take("py-2", 1)
			}
			if code := w.finish(a, c.end); code != "" {
				t.Errorf("finish once more: %s", code)
			}
			refused := testkit.Metric(t, w.metrics.Refused)
			if code := w.finish(a, c.other); code != wire.StaleAttempt {
				t.Errorf("another end: %q", code)
			}
			if got := w.get(ref(id)).State; got != c.state {
				t.Errorf("it is %s, want %s", got, c.state)
			}
			if n := w.counted(c.outcome) - counted; n != 1 {
				t.Errorf("%v ends are counted", n)
			}
			if n := testkit.Metric(t, w.metrics.Refused) - refused; n != 1 {
				t.Errorf("%v ends are counted as refused", n)
			}
		})
	}
	if n := testkit.Metric(t, w.metrics.AttemptSeconds.WithLabelValues("count")); n != 7 {
		t.Errorf("the durations of %v attempts are counted, want 7", n)
	}
}

// An attempt that may not be put off any more has failed, also for who repeats the report.
func TestWorker_MayRepeatAFinishThatPutsOffTooLate(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("a", &wire.Retry{MaxElapsed: new("1m")})
	a := w.take("py-1", 1)[0]
	for range 2 {
		if code := w.finish(a, wire.AttemptEnd{Outcome: wire.EndSnoozed, RetryAfter: new("1h")}); code != "" {
			t.Errorf("finish: %s", code)
		}
	}
	if got := w.get(ref("a")); got.State != task.Failed || !strings.Contains(got.Error, "not put off again: retry.max_elapsed") {
		t.Errorf("it is %s: %s", got.State, got.Error)
	}
	if n := w.counted(task.OutcomeFailed); n != 1 {
		t.Errorf("%v failures are counted", n)
	}
}

// counted is how many attempts the metrics say that ended so.
func (w *workerRig) counted(o task.Outcome) float64 {
	return testkit.Metric(w.t, w.metrics.Attempts.WithLabelValues("count", string(o)))
}

// The answer of a take is lost on its way. The same call through another node gets the same attempt.
func TestWorker_MayRepeatATake(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	other := w.join(w.backend)
	w.submit("a", nil)
	call := func(r *rig, request string) []wire.TakenAttempt {
		t.Helper()
		answer, err := r.TakeAttemptsWithResponse(w.ctx, "py-1", wire.TakeRequest{Types: []string{"count"}, Wait: new("10s"), Lease: new("1m"), Request: &request})
		testkit.Must(t, err)
		if answer.JSON200 == nil {
			t.Fatalf("take: %s", answer.Body)
		}
		return answer.JSON200.Attempts
	}
	first, second := call(w.rig, "7"), call(other, "7")
	if len(first) != 1 || len(second) != 1 || second[0].Token != first[0].Token || second[0].Attempt != 1 || string(second[0].Payload) != `{"to":3}` {
		t.Fatalf("first %+v, then %+v", first, second)
	}
	if code := w.finish(second[0], wire.AttemptEnd{Outcome: wire.EndSucceeded}); code != "" {
		t.Errorf("finish: %s", code)
	}
	if got := w.get(ref("a")); got.State != task.Succeeded || got.Attempt != 1 {
		t.Errorf("it is %s after attempt %d", got.State, got.Attempt)
	}
}

func TestWorker_IsToldToStop(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("cancelled", nil)
	cancelled := w.take("py-1", 1)[0]
	_, err := w.CancelTaskWithResponse(w.ctx, "cancelled", nil)
	testkit.Must(t, err)
	if got := w.extend(w.rig, cancelled); got != wire.VerdictCancelled {
		t.Errorf("after a cancel: %s", got)
	}
	if code := w.finish(cancelled, wire.AttemptEnd{Outcome: wire.EndFailed, Error: new("interrupted")}); code != "" {
		t.Errorf("finish: %s", code)
	}
	if got := w.get(ref("cancelled")); got.State != task.Cancelled {
		t.Errorf("it is %s, though it was asked to stop", got.State)
	}
	if got := w.extend(w.rig, cancelled); got != wire.VerdictLost {
		t.Errorf("after its end: %s", got)
	}
	id := "brief"
	s := wire.Submission{ID: &id, Type: "count", Timeout: new("1ms")}
	_, err = w.SubmitTaskWithResponse(w.ctx, nil, s)
	testkit.Must(t, err)
	w.dispatch()
	brief := w.take("py-1", 1)[0]
	testkit.Eventually(t, "its time is over", func() bool { return w.extend(w.rig, brief) == wire.VerdictTimeout })
}

// A worker that was asked to move, or wants to, gives its attempt up with what the next one goes on with.
func TestWorker_MovesWithItsParams(t *testing.T) {
	t.Parallel()
	b, _ := startBackend(t)
	testkit.Must(t, b.redis.DB(t).HSet(t.Context(), "dts:meta", "layout", "7").Err())
	w := &workerRig{members: &members{}, metrics: telemetry.New()}
	w.rig = w.join(b)
	w.submit("a", &wire.Retry{MaxAttempts: new(1)})
	a := w.take("py-1", 1)[0]
	held := wire.ExtendRequest{Attempts: []wire.HeldAttempt{{Task: "a", Attempt: 1, Token: a.Token}}}
	for _, asked := range []bool{false, true} {
		if asked {
			moved, err := w.MoveTaskWithResponse(w.ctx, "a", nil, wire.TaskMove{})
			if err != nil || moved.JSON200 == nil || moved.JSON200.MoveRequestedAt == nil {
				t.Fatalf("%v: %s", err, moved.Body)
			}
		}
		answer, err := w.ExtendAttemptsWithResponse(w.ctx, "py-1", held)
		testkit.Must(t, err)
		if got := answer.JSON200.Attempts[0]; got.Verdict != wire.VerdictRunning || wire.Value(got.Move) != asked {
			t.Errorf("it is told %+v, want to move: %t", got, asked)
		}
	}
	report := wire.AttemptReport{Token: a.Token, Progress: new(40), Rebalance: new(true), Params: json.RawMessage(`{"row":5}`)}
	for range 2 { // as after a lost answer
		answer, err := w.ReportAttemptWithResponse(w.ctx, "a", 1, nil, report)
		if err != nil || answer.StatusCode() != http.StatusNoContent {
			t.Fatalf("%v: %s", err, answer.Body)
		}
	}
	if n := w.counted(task.OutcomeMoved); n != 1 {
		t.Errorf("%v ends are counted", n)
	}
	w.dispatchTo("py-2")
	if next := w.take("py-2", 1)[0]; next.Attempt != 2 || string(next.Checkpoint) != `{"row":5}` {
		t.Errorf("the next attempt is %+v", next)
	}
	for field, report := range map[string]wire.AttemptReport{
		"needs rebalance": {Params: json.RawMessage(`1`)},
		"stands in place": {Params: json.RawMessage(`1`), Rebalance: new(true), Checkpoint: json.RawMessage(`1`)},
	} {
		report.Token = a.Token
		answer, err := w.ReportAttemptWithResponse(w.ctx, "a", 1, nil, report)
		testkit.Must(t, err)
		if p := answer.ApplicationProblemJSONDefault; p == nil || wire.Value(p.Field) != "params" || !strings.Contains(p.Detail, field) {
			t.Errorf("%s: %s", field, answer.Body)
		}
	}
}

// What a worker has begun is not bound to the node through which it did.
func TestWorker_GoesOnThroughAnotherNode(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("a", nil)
	a := w.take("py-1", 1)[0]
	first := w.remote
	other := w.join(w.backend)
	if got := w.extend(other, a); got != wire.VerdictRunning {
		t.Errorf("the verdict is %s", got)
	}
	answer, err := other.FinishAttemptWithResponse(w.ctx, "a", 1, nil, wire.AttemptEnd{Token: a.Token, Outcome: wire.EndSucceeded})
	if err != nil || answer.StatusCode() != http.StatusNoContent {
		t.Fatalf("finish: %v, %s", err, answer.Body)
	}
	if got := w.get(ref("a")).State; got != task.Succeeded {
		t.Errorf("it is %s", got)
	}
	if got := w.extend(w.rig, a); got != wire.VerdictLost {
		t.Errorf("the first node says %s", got)
	}
	testkit.Eventually(t, "the first node drops it", func() bool { return first.Guests()[0].Running == 0 || first == w.remote })
}

func TestWorker_LeavesTheList(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("a", nil)
	w.take("py-1", 1)
	answer, err := w.LeaveWorkerWithResponse(w.ctx, "py-1")
	testkit.Must(t, err)
	if answer.StatusCode() != http.StatusNoContent || len(w.remote.Guests()) != 0 || fmt.Sprint(w.members.left) != "[py-1]" {
		t.Errorf("%d; guests %+v, left %v", answer.StatusCode(), w.remote.Guests(), w.members.left)
	}
}

// The server does not keep a worker waiting that has nothing to do when it stops.
func TestWorker_IsAnsweredWhenTheServerStops(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	answered := make(chan []wire.TakenAttempt, 1)
	go func() { answered <- w.take("py-1", 1) }()
	testkit.Eventually(t, "it waits", func() bool { return len(w.remote.Guests()) == 1 })
	testkit.Must(t, w.stop())
	if got := testkit.Receive(t, answered, "the answer"); len(got) != 0 {
		t.Errorf("it got %+v", got)
	}
}

// A caller that goes away while it waits takes nothing with it.
func TestWorker_ThatHangsUpTakesNothing(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	ctx, hangUp := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := w.TakeAttemptsWithResponse(ctx, "py-1", wire.TakeRequest{Types: []string{"count"}, Wait: new("1m")})
		ended <- err
	}()
	testkit.Eventually(t, "it waits", func() bool { return len(w.remote.Guests()) == 1 })
	hangUp()
	if err := testkit.Receive(t, ended, "its end"); err == nil {
		t.Error("it was answered")
	}
	w.submit("a", nil)
	if got := w.take("py-2", 1); len(got) != 1 {
		t.Errorf("another worker got %+v", got)
	}
}

// labels are so many, as JSON.
func labels(n int) string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint("l", i)] = "v"
	}
	text, _ := json.Marshal(all)
	return string(text)
}

func TestWorker_TellsItsLabelsAndItsMachine(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	expect := func(path, body string, want cluster.Machine) {
		t.Helper()
		if got := w.call("POST", path, body); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		guests := w.remote.Guests()
		if len(guests) != 1 || fmt.Sprint(guests[0].Labels) != "spot,zone=eu" {
			t.Fatalf("on the list are %+v", guests)
		}
		if diff := cmp.Diff(&want, guests[0].Machine); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	expect("/v1/workers/py-1/take", `{"types":["a"],"wait":"0s","labels":{"zone":"eu","spot":""},"machine":{"cpu":0,"disk":{"used":1,"total":2}}}`,
		cluster.Machine{CPU: new(0.0), Disk: &cluster.Space{Used: 1, Total: 2}})
	expect("/v1/workers/py-1/extend", `{"attempts":[],"machine":{"load":1.5,"memory":{"used":1,"total":2},"network":{"received":3,"sent":4}}}`,
		cluster.Machine{Load: new(1.5), Memory: &cluster.Space{Used: 1, Total: 2}, Network: &cluster.Traffic{Received: 3, Sent: 4}})
	expect("/v1/workers/py-1/extend", `{"attempts":[]}`,
		cluster.Machine{Load: new(1.5), Memory: &cluster.Space{Used: 1, Total: 2}, Network: &cluster.Traffic{Received: 3, Sent: 4}})
}

func TestWorker_RefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	w := startWorkerRig(t)
	w.submit("a", nil)
	a := w.take("py-1", 1)[0]
	for _, c := range []struct{ name, method, path, body, field string }{
		{"no types", "POST", "/v1/workers/py-1/take", `{"types":[]}`, "types"},
		{"a type that is none", "POST", "/v1/workers/py-1/take", `{"types":["a b"]}`, "types[0]"},
		{"too many at once", "POST", "/v1/workers/py-1/take", `{"types":["a"],"max":65}`, "max"},
		{"a wait that is too long", "POST", "/v1/workers/py-1/take", `{"types":["a"],"wait":"2m"}`, "wait"},
		{"a name of a call that is none", "POST", "/v1/workers/py-1/take", `{"types":["a"],"request":"a b"}`, "request"},
		{"a lease that is too short", "POST", "/v1/workers/py-1/take", `{"types":["a"],"lease":"1ms"}`, "lease"},
		{"a label of every node", "POST", "/v1/workers/py-1/take", `{"types":["a"],"labels":{"id":"x"}}`, "labels"},
		{"an odd label", "POST", "/v1/workers/py-1/take", `{"types":["a"],"labels":{"zone":"a b"}}`, "labels"},
		{"a label that is too long", "POST", "/v1/workers/py-1/take", `{"types":["a"],"labels":{"z":"` + strings.Repeat("v", 64) + `"}}`, "labels.z"},
		{"too many labels", "POST", "/v1/workers/py-1/take", `{"types":["a"],"labels":` + labels(33) + `}`, "labels"},
		{"an impossible share", "POST", "/v1/workers/py-1/take", `{"types":["a"],"machine":{"cpu":1.5}}`, "machine.cpu"},
		{"a used memory without a whole", "POST", "/v1/workers/py-1/take", `{"types":["a"],"machine":{"memory":{"used":1}}}`, "machine.memory.total"},
		{"more than all memory", "POST", "/v1/workers/py-1/take", `{"types":["a"],"machine":{"memory":{"used":2,"total":1}}}`, "machine.memory"},
		{"more than all of the disk", "POST", "/v1/workers/py-1/extend", `{"attempts":[],"machine":{"disk":{"used":2,"total":1}}}`, "machine.disk"},
		{"a negative load", "POST", "/v1/workers/py-1/extend", `{"attempts":[],"machine":{"load":-1}}`, "machine.load"},
		{"what no machine has", "POST", "/v1/workers/py-1/extend", `{"attempts":[],"machine":{"gpu":1}}`, "machine.gpu"},
		{"the id of a node", "POST", "/v1/workers/n1/take", `{"types":["a"]}`, "worker"},
		{"a worker that is none", "DELETE", "/v1/workers/a%20b", "", "worker"},
		{"another token", "POST", "/v1/workers/py-1/extend", `{"attempts":[{"task":"a","attempt":1,"token":"x"}]}`, "attempts[0].token"},
		{"no token", "POST", "/v1/tasks/a/attempts/1/finish", `{"outcome":"succeeded"}`, "token"},
		{"no outcome of an attempt", "POST", "/v1/tasks/a/attempts/1/finish", `{"token":"x","outcome":"lost"}`, "outcome"},
		{"the token of another attempt", "POST", "/v1/tasks/a/attempts/2/finish", `{"token":"` + a.Token + `","outcome":"succeeded"}`, "token"},
		{"the token of another task", "POST", "/v1/tasks/b/attempts/1/report", `{"token":"` + a.Token + `","progress":1}`, "token"},
	} {
		got := w.call(c.method, c.path, c.body)
		if p := got.problem(t); p.Code != wire.Invalid || wire.Value(p.Field) != c.field {
			t.Errorf("%s: %d %+v, want the field %s", c.name, got.status, p, c.field)
		}
	}
}

// A worker says that a service wants fewer calls: the keys of the task are paused, once, and the next attempt waits.
func TestWorker_PausesTheKeysOfItsTask(t *testing.T) {
	t.Parallel()
	b, _ := startBackend(t)
	testkit.Must(t, b.store.Advance(b.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	w := &workerRig{members: &members{}, metrics: telemetry.New()}
	w.rig = w.join(b)
	answer, err := w.SubmitTaskWithResponse(w.ctx, nil, wire.Submission{ID: new("a"), Type: "count", LimitKey: new("tenant-7")})
	if err != nil || answer.JSON201 == nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	w.dispatch()
	a := w.take("py-1", 1)[0]
	paused := func() rules.Entry {
		entries, _, err := w.store.Rules.All(w.ctx)
		testkit.Must(t, err)
		if len(entries) != 1 || entries[0].Name.String() != "key:tenant-7" {
			t.Fatalf("the limits are %+v", entries)
		}
		return entries[0]
	}
	end := wire.AttemptEnd{Outcome: wire.EndFailed, Error: new("HTTP 429"), PauseKeys: new("30s")}
	if code := w.finish(a, end); code != "" {
		t.Fatalf("finish: %s", code)
	}
	first, got := paused(), w.get(ref("a"))
	now, err := w.store.Now(w.ctx, 0)
	testkit.Must(t, err)
	lasts := first.Rule.Paused.Sub(now)
	if lasts > 30*time.Second || lasts < 20*time.Second || first.By != "task a" || first.Note != "HTTP 429" {
		t.Errorf("it lasts %s: %+v", lasts, first)
	}
	if got.State != task.Scheduled || got.DueAt.Before(first.Rule.Paused) {
		t.Errorf("it is %s, and due at %s; the pause lasts until %s", got.State, got.DueAt, first.Rule.Paused)
	}
	if code := w.finish(a, end); code != "" {
		t.Errorf("a repeat: %s", code)
	}
	if again := paused(); !again.Rule.Paused.Equal(first.Rule.Paused) {
		t.Errorf("a repeat pauses until %s, want %s", again.Rule.Paused, first.Rule.Paused)
	}
}
