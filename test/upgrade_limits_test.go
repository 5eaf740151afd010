package test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// placed are submissions that say what the previous release does not know: which limits apply, and where the task runs.
func placed(far *recorder) map[string]wire.Submission {
	round := wire.RouteBy("round")
	all := make(map[string]wire.Submission)
	for field, change := range map[string]func(s *wire.Submission){
		"limit_key": func(s *wire.Submission) { s.LimitKey = ptr("a") },
		"cost":      func(s *wire.Submission) { s.Cost = ptr(2) },
		"select":    func(s *wire.Submission) { s.Select = ptr("zone=eu") },
		"prefer":    func(s *wire.Submission) { s.Prefer = wire.Preferences{{Select: "zone=eu"}} },
		"route":     func(s *wire.Submission) { s.Route = &wire.Route{By: &round} },
		"slots":     func(s *wire.Submission) { s.Slots = ptr(2) },
	} {
		s := far.task(field, "/ok")
		change(&s)
		all[field] = s
	}
	return all
}

// move asks a task to move, and returns the answer if that is refused.
func (n *node) move(id string) string {
	n.t.Helper()
	answer, err := n.MoveTaskWithResponse(n.t.Context(), id, nil, wire.TaskMove{})
	testkit.Must(n.t, err)
	if answer.StatusCode() == http.StatusOK {
		return ""
	}
	return string(answer.Body)
}

// limitAll gives each key two slots, and returns the answer if that is refused.
func (n *node) limitAll() (refused string) {
	n.t.Helper()
	set, err := n.SetLimitWithResponse(n.t.Context(), "key:*", nil, wire.LimitRule{Slots: ptr(2)})
	testkit.Must(n.t, err)
	return string(set.Body)
}

// startMover starts a worker that runs tasks of the type go, which may be asked to move.
func startMover(t *testing.T, redis, name string) *node {
	t.Helper()
	return startProgram(t, "goworker", "--redis", redis, "--concurrency", "2", "--node-name", name, "--labels", "mover")
}

// Limits, selectors, slots and moves are refused while a node of the previous release lives, and say so. They work when
// it has gone, and what is submitted meanwhile is not lost.
func TestUpgrade_LimitsAndPlacesWorkAfterTheLastOldNode(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far, slow := redistest.Start(t), newRecorder(t), newRecorder(t)
	db := redis.DB(t)
	examineAtTheEnd(t, redis.URL(), "list-index") // it is built when the previous release is gone
	r := &rolling{t: t, redis: redis.URL(), far: newRecorder(t), nodes: map[string]*node{}}
	for _, role := range []string{"scheduler", "worker"} {
		r.nodes[role] = r.start(role, previousRelease)
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.load(t.Context(), stop) }()
	r.replace("worker", thisRelease)
	newer := r.nodes["worker"]
	a := startMover(t, redis.URL(), "a")
	moving := far.task("moves", "/block?moves=1")
	moving.Type = "go"
	newer.submit(moving)
	await(t, time.Minute, "it runs", newer.is("moves", wire.StateRunning))

	const refusal = "as soon as no living node is of an earlier release: see dtsctl node list"
	for field, s := range placed(far) {
		answer, err := newer.SubmitTaskWithResponse(t.Context(), nil, s)
		testkit.Must(t, err)
		if text := string(answer.Body); answer.StatusCode() != http.StatusBadRequest || !strings.Contains(text, refusal) ||
			!strings.Contains(text, fmt.Sprintf(`"field":%q`, field)) {
			t.Errorf("%s beside the previous release: %s: %s", field, answer.Status(), text)
		}
	}
	if got := newer.move("moves"); !strings.Contains(got, "running tasks move "+refusal) {
		t.Errorf("to move beside the previous release: %q", got)
	}
	const onlyThen = "limits work only while all living nodes have this release"
	if got := newer.limitAll(); !strings.Contains(got, onlyThen) {
		t.Errorf("to set a limit beside the previous release: %s", got)
	}
	expectLayout(t, db, "3")

	r.replace("scheduler", thisRelease)
	await(t, time.Minute, "the layout has moved", func() bool {
		return db.HGet(t.Context(), "dts:meta", "layout").Val() == "7"
	})
	await(t, time.Minute, "limits can be set", func() bool { return newer.limitAll() == "" })
	round := 0
	await(t, time.Minute, "the leader follows the limit", func() bool {
		round++
		return newer.keepsTwo(slow, fmt.Sprint("try", round), 3)
	})
	if !newer.keepsTwo(slow, "limited", 8) {
		t.Error("three tasks of a key with two slots ran at once")
	}
	newer.submit(slices.Collect(maps.Values(placed(far)))...)
	b := startMover(t, redis.URL(), "b")
	await(t, time.Minute, "it is asked to move", func() bool { return newer.move("moves") == "" })
	await(t, time.Minute, "it has moved", func() bool {
		task := newer.task("moves")
		return task.State == wire.StateRunning && task.Attempt == 2
	})
	if first := newer.attempts("moves")[0]; *first.Outcome != wire.OutcomeMoved || first.Node != a.id {
		t.Errorf("the first attempt that moves is %+v, want it moved from %s", first, a.id)
	}
	if got := *newer.task("moves").Node; got != b.id {
		t.Errorf("it has moved to %s, want %s", got, b.id)
	}
	close(far.block)
	close(stop)
	testkit.Must(t, <-ended)
	await(t, time.Minute, "all have ended", newer.idle)
	r.judgePlaced(far, slow)
}

// keepsTwo runs n tasks of a limit key, which is a part of their ids, and reports whether no three ran at once.
func (n *node) keepsTwo(slow *recorder, key string, many int) bool {
	n.t.Helper()
	var all []wire.Submission
	for i := range many {
		s := slow.task(fmt.Sprint(key, "-", i), "/slow")
		s.LimitKey = &key
		all = append(all, s)
	}
	n.submit(all...)
	var calls []call
	await(n.t, time.Minute, "all of "+key+" have begun", func() bool {
		calls = slices.DeleteFunc(slow.since(time.Time{}), func(c call) bool { return !strings.HasPrefix(c.task, key+"-") })
		return len(calls) == many
	})
	for i := 2; i < many; i++ {
		if calls[i].at.Sub(calls[i-2].at) < slowly {
			return false
		}
	}
	return true
}

// judgePlaced checks that all tasks have succeeded, each called once but the one that moved, which was called twice.
func (r *rolling) judgePlaced(far, slow *recorder) {
	r.t.Helper()
	called := 0
	for _, recorded := range []*recorder{r.far, far, slow} {
		for id, calls := range recorded.byTask() {
			called++
			if want := map[bool]int{true: 2, false: 1}[id == "moves"]; len(calls) != want {
				r.t.Errorf("%s was called %d times, want %d", id, len(calls), want)
			}
		}
	}
	if done := len(r.nodes["worker"].all("succeeded")); done != called || r.accepted == 0 {
		r.t.Errorf("%d tasks have succeeded, and %d were called; %d were accepted under load", done, called, r.accepted)
	}
	if calls := r.far.byTask(); len(calls) != r.accepted {
		r.t.Errorf("%d tasks were accepted under load, and %d were called", r.accepted, len(calls))
	}
}
