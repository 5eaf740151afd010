package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// Programs of other releases.
const (
	thisRelease     = "dtsd"
	previousRelease = "dtsd-previous" // dtsd as it was at previousCommit
	nextRelease     = "dtsd-next"     // the present one, which serves a layout 8 besides, equal to 7
)

// previousCommit is what was released last.
const previousCommit = "d741e532ad6081db8f7fe1f53e26e19bb6f2b5fb"

// releases builds the programs of other releases, each when a test first starts it.
var releases = map[string]func() error{
	thisRelease: func() error { return nil },
	previousRelease: sync.OnceValue(func() error {
		return process.BuildCommit(binaries, previousRelease, previousCommit, "./cmd/dtsd")
	}),
	nextRelease: sync.OnceValue(func() error {
		return process.BuildWith(binaries, nextRelease, "../cmd/dtsd", "internal/store/layout.served", "3,4,5,6,7,8")
	}),
}

// startRelease is startNode for the dtsd of a release. Of a checkout without history, such as an archive of the sources, the previous one
// cannot be built.
func startRelease(t *testing.T, release, redis string, flags ...string) *node {
	t.Helper()
	err := releases[release]()
	if errors.Is(err, process.ErrNoCommit) {
		t.Skip("nothing is known of upgrades: ", err)
	}
	testkit.Must(t, err)
	return startProgram(t, release, append([]string{"serve", "--redis", redis, "--concurrency", "20"}, flags...)...)
}

// rolling is a fleet of two nodes, one that leads and one that works, both with an API. They are replaced by those of another release while
// tasks are submitted through both and schedules tick.
type rolling struct {
	t     *testing.T
	redis string
	far   *recorder

	mu       sync.Mutex
	nodes    map[string]*node // by role
	accepted int
	repeated int // submissions that both have answered, and one of them after the other one
}

func (r *rolling) start(role, release string) *node {
	r.t.Helper()
	flags := []string{"--roles", role + ",api"}
	if release == thisRelease { // what the previous one does not know of the list of nodes, it must not mind
		flags = append(flags, "--labels", "zone=eu,spot")
	}
	return startRelease(r.t, release, r.redis, flags...)
}

// replace starts the node that takes a role, and stops the one that has it.
func (r *rolling) replace(role, release string) {
	r.t.Helper()
	n := r.start(role, release)
	r.mu.Lock()
	before := r.nodes[role]
	r.nodes[role] = n
	r.mu.Unlock()
	before.stop()
}

// apis are both nodes, the one with the role first.
func (r *rolling) apis(first string) []*node {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []*node{r.nodes[first]}
	for role, n := range r.nodes {
		if role != first {
			all = append(all, n)
		}
	}
	return all
}

// load submits tasks, each through both nodes, until stop is closed.
func (r *rolling) load(ctx context.Context, stop <-chan struct{}) error {
	pace := time.NewTicker(15 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
		if err := r.submit(ctx, i); err != nil {
			return err
		}
	}
}

// submit submits a task through both nodes, and again where one of them has just stopped.
func (r *rolling) submit(ctx context.Context, i int) error {
	s := r.far.task(fmt.Sprintf("t%05d", i), "/ok")
	s.Labels, s.Delay = &wire.Labels{"n": fmt.Sprint(i)}, ptr([]string{"0s", "200ms", "1s"}[i%3])
	if i%5 == 0 { // a long payload is stored apart
		s.Payload = r.far.long()
	}
	first := []string{"scheduler", "worker"}[i%2]
	var answers []int
	try := 0
	for ; len(answers) < 2; try++ {
		for _, n := range r.apis(first) {
			answer, err := n.SubmitTaskWithResponse(ctx, nil, s)
			switch {
			case err != nil || answer.StatusCode() == http.StatusServiceUnavailable: // it has stopped
				if try == 100 || ctx.Err() != nil {
					return fmt.Errorf("%s is accepted by nobody: %w", *s.ID, err)
				}
			case answer.JSON200 == nil && answer.JSON201 == nil:
				return fmt.Errorf("%s: %s: %s", *s.ID, answer.Status(), answer.Body)
			default:
				answers = append(answers, answer.StatusCode())
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted++
	if answers[1] != http.StatusOK {
		return fmt.Errorf("%s was answered with %v", *s.ID, answers)
	}
	if answers[0] == http.StatusCreated && try == 1 {
		r.repeated++
	}
	return nil
}

// put puts schedules of all overlap policies.
func (r *rolling) put(n *node) (ids []string) {
	r.t.Helper()
	for _, overlap := range []wire.Overlap{wire.OverlapAllow, wire.OverlapSkip, wire.OverlapQueue} {
		for _, every := range []string{"200ms", "1s"} {
			id := string(overlap) + "-" + every
			put, err := n.PutScheduleWithResponse(r.t.Context(), id, nil, wire.ScheduleDefinition{
				Every: &every, Overlap: &overlap, Task: wire.TaskTemplate{Type: "http", Payload: r.far.task("", "/ok").Payload},
			})
			testkit.Must(r.t, err)
			if put.JSON201 == nil {
				r.t.Fatalf("%s: %s: %s", id, put.Status(), put.Body)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// ran waits until n more calls, and two more of each schedule, were made.
func (r *rolling) ran(n int, schedules []string, when string) {
	r.t.Helper()
	since := time.Now()
	await(r.t, time.Minute, "tasks and schedules go on with "+when, func() bool {
		calls := r.far.since(since)
		return len(calls) >= n && !slices.ContainsFunc(schedules, func(id string) bool {
			ticks := 0
			for _, c := range calls {
				if strings.HasPrefix(c.task, id+"@") {
					ticks++
				}
			}
			return ticks < 2
		})
	})
}

// Promises 1 to 4 while a fleet is upgraded to this release and back, under load. The way back ends with the last node
// of the previous release, as the layout moves then.
func TestUpgrade_RollsForthAndBackUnderLoad(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis := redistest.Start(t)
	examineAtTheEnd(t, redis.URL(), "list-index") // it is built when the previous release is gone
	r := &rolling{t: t, redis: redis.URL(), far: newRecorder(t), nodes: map[string]*node{}}
	for _, role := range []string{"scheduler", "worker"} {
		r.nodes[role] = r.start(role, previousRelease)
	}
	last := startRelease(t, previousRelease, redis.URL(), "--roles", "api")
	schedules := r.put(r.nodes["scheduler"])
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.load(t.Context(), stop) }()
	const calls = 400
	r.ran(calls, schedules, "the previous release")
	for range 3 {
		for _, step := range []struct{ role, release string }{
			{"worker", thisRelease}, {"scheduler", thisRelease}, // the old leads, the new works; then both are new
			{"worker", previousRelease}, {"scheduler", previousRelease}, // the new leads, the old works; then both are old
			{"scheduler", thisRelease}, {"worker", thisRelease}, // the other way round
			{"scheduler", previousRelease}, {"worker", previousRelease},
		} {
			r.replace(step.role, step.release)
			r.ran(calls, schedules, "a "+step.role+" of "+step.release)
		}
	}
	r.replace("scheduler", thisRelease)
	r.replace("worker", thisRelease)
	last.stop()
	r.ran(calls, schedules, "this release in its own layout")
	close(stop)
	testkit.Must(t, <-ended)
	for _, id := range schedules {
		paused, err := r.nodes["scheduler"].PauseScheduleWithResponse(t.Context(), id, nil, wire.SchedulePause{})
		testkit.Must(t, err)
		if paused.JSON200 == nil {
			t.Fatalf("%s: %s: %s", id, paused.Status(), paused.Body)
		}
	}
	newer := startRelease(t, thisRelease, redis.URL(), "--roles", "api")
	await(t, time.Minute, "all have ended", newer.idle)
	r.judge(schedules, newer)
}

// judge checks that what was accepted has succeeded and each tick has run once or has a record that says why not, whichever release is asked.
func (r *rolling) judge(schedules []string, newer *node) {
	record, ticks := r.far.byTask(), 0
	for _, id := range schedules {
		for _, n := range []*node{r.nodes["scheduler"], newer} {
			a, err := (&fleet{t: r.t, api: n}).readOne(r.t.Context(), &living{id: id})
			testkit.Must(r.t, err)
			if !a.report.Proved {
				r.t.Errorf("the audit of %s by %s: %+v", id, n.id, a.report)
			}
			if n != newer {
				continue
			}
			fired := 0
			for _, e := range a.ledger {
				if e.Task != nil {
					fired++
				}
			}
			ticks += fired
			r.judgeDays(id, newer, fired)
		}
	}
	done := newer.all("succeeded")
	if len(done) != r.accepted+ticks || len(record) != len(done) {
		r.t.Errorf("%d tasks were accepted and %d ticks fired; %d have succeeded, %d were called", r.accepted, ticks, len(done), len(record))
	}
	for _, task := range done {
		started := map[int]bool{}
		for _, call := range record[task.ID] {
			if started[call.attempt] {
				r.t.Errorf("attempt %d of %s was started twice", call.attempt, task.ID)
			}
			started[call.attempt] = true
		}
		if !started[task.Attempt] {
			r.t.Errorf("%s has succeeded with attempt %d, and was called for %v", task.ID, task.Attempt, started)
		}
	}
	r.t.Logf("%d tasks, %d ticks; both releases answered to %d", r.accepted, ticks, r.repeated)
	if r.repeated < r.accepted/2 {
		r.t.Errorf("of %d tasks, only %d were submitted through both nodes", r.accepted, r.repeated)
	}
}

// judgeDays checks that the counts by day know of no tick that did not run. They miss those that the older release ended.
func (r *rolling) judgeDays(id string, newer *node, fired int) {
	r.t.Helper()
	got, err := newer.GetScheduleWithResponse(r.t.Context(), id, nil)
	testkit.Must(r.t, err)
	counted := 0
	for _, day := range got.JSON200.Days {
		counted += day.Succeeded
		if day.Failed > 0 || day.Cancelled > 0 {
			r.t.Errorf("%s: %+v, though no tick failed", id, day)
		}
	}
	if counted == 0 || counted > fired {
		r.t.Errorf("%s: the days count %d successes of %d ticks", id, counted, fired)
	}
}

// A client that gets no answer repeats its request, and may reach a node of another release then.
func TestUpgrade_BothReleasesAnswerARepeatAlike(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	examineAtTheEnd(t, redis.URL())
	older, newer := startRelease(t, previousRelease, redis.URL()), startRelease(t, thisRelease, redis.URL())
	later, jitter, factor := ptr("1h0m0s"), 0.0, 1.5
	retry := &wire.Retry{MaxAttempts: ptr(3), Backoff: &wire.Backoff{Initial: ptr("1s"), Factor: &factor, Jitter: &jitter}}
	for name, s := range map[string]wire.Submission{
		"plain": {Type: "noop", Delay: later},
		"everything": {
			Type: "noop", Delay: later, Owner: ptr("me"), Labels: &wire.Labels{"b": "", "a": "1"}, Retry: retry, Timeout: ptr("3s"),
			Queue: ptr("critical"), Retention: ptr("1h0m0s"),
		},
		"long":    {Type: "http", Delay: later, Payload: far.long()},
		"changed": {Type: "http", Delay: later, Payload: far.long()},
		"ended":   {Type: "noop"},
	} {
		for order, nodes := range map[string][]*node{"old-new": {older, newer}, "new-old": {newer, older}} {
			s.ID = ptr(name + "-" + order)
			first := nodes[0].answer(s, http.StatusCreated)
			switch name {
			case "changed":
				changed, err := nodes[0].ChangeTaskWithResponse(t.Context(), *s.ID, nil, wire.TaskChange{Payload: far.task("", "/ok").Payload})
				testkit.Must(t, err)
				if changed.JSON200 == nil {
					t.Fatalf("%s: %s", *s.ID, changed.Body)
				}
			case "ended":
				await(t, time.Minute, *s.ID+" has ended", func() bool { return older.task(*s.ID).State == wire.StateSucceeded })
			}
			again := expectRepeats(s, nodes...)
			for i, n := range nodes {
				if got := n.task(*s.ID).Retry; !cmp.Equal(got, again[i].Retry) {
					t.Errorf("%s: a repeat at %s says %+v, and GET %+v", *s.ID, n.id, again[i].Retry, got)
				}
				maskDefaults(&again[i], s.Retry)
			}
			if diff := cmp.Diff(again[0], again[1]); diff != "" || !again[0].CreatedAt.Equal(first.CreatedAt.Time) {
				t.Errorf("%s was created at %s, and the repeats say (-%s +%s):\n%s", *s.ID, first.CreatedAt, nodes[0].id, nodes[1].id, diff)
			}
		}
	}
}

// maskDefaults leaves out of a task's retry policy what was not submitted: each release has defaults of its own for that (ADR 31).
func maskDefaults(t *wire.Task, submitted *wire.Retry) {
	if submitted == nil {
		t.MaxAttempts, t.Retry = 0, wire.Retry{}
	} else if submitted.Backoff.Max == nil {
		t.Retry.Backoff.Max = nil
	}
}

// Leaders delete finished tasks as soon as they lead, and remember their names.
func TestUpgrade_BothReleasesKnowWhatEitherHasDeleted(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	examineAtTheEnd(t, redis.URL())
	older := startRelease(t, previousRelease, redis.URL(), "--roles", "worker,api")
	newer := startRelease(t, thisRelease, redis.URL(), "--roles", "worker,api")
	leader := startRelease(t, previousRelease, redis.URL(), "--roles", "scheduler")
	for _, deleting := range []string{thisRelease, previousRelease} {
		var gone []wire.Submission
		for i, n := range []*node{older, newer} {
			for length, payload := range map[string]json.RawMessage{"short": far.task("", "/ok").Payload, "long": far.long()} {
				s := wire.Submission{ID: ptr(fmt.Sprintf("%s-%d-%s", length, i, deleting)), Type: "http", Payload: payload, Retention: ptr("1ms")}
				n.answer(s, http.StatusCreated)
				gone = append(gone, s)
			}
		}
		await(t, time.Minute, "all have ended", newer.idle)
		leader.stop()
		leader = startRelease(t, deleting, redis.URL(), "--roles", "scheduler")
		await(t, time.Minute, deleting+" has deleted all", func() bool {
			return !slices.ContainsFunc(gone, func(s wire.Submission) bool {
				got, err := newer.GetTaskWithResponse(t.Context(), *s.ID, nil)
				return err != nil || got.StatusCode() != http.StatusNotFound
			})
		})
		for _, s := range gone {
			expectRepeats(s, older, newer)
		}
	}
	if calls := far.count(); calls != 8 {
		t.Errorf("8 tasks were called %d times", calls)
	}
}

// expectRepeats submits an accepted task again to nodes, which must know it, and with other content, which they must refuse.
func expectRepeats(s wire.Submission, nodes ...*node) (answers []wire.Task) {
	for _, n := range nodes {
		n.t.Helper()
		answers = append(answers, n.answer(s, http.StatusOK))
		other := s
		other.Owner = ptr("another")
		n.answer(other, http.StatusConflict)
	}
	return answers
}

// long is the payload of a call, so long that it is stored apart.
func (r *recorder) long() json.RawMessage {
	return json.RawMessage(`{"url": "` + r.URL + `/ok", "body": "` + strings.Repeat("x", 1500) + `"}`)
}

// answer submits a task and expects a status.
func (n *node) answer(s wire.Submission, status int) (answered wire.Task) {
	n.t.Helper()
	answer, err := n.SubmitTaskWithResponse(n.t.Context(), nil, s)
	testkit.Must(n.t, err)
	if answer.StatusCode() != status {
		n.t.Errorf("%s through %s: %s, want %d: %s", *s.ID, n.id, answer.Status(), status, answer.Body)
	}
	for _, task := range []*wire.Task{answer.JSON200, answer.JSON201} {
		if task != nil {
			answered = *task
		}
	}
	return answered
}
