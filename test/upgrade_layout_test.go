package test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// The layout of the data moves when the last node is gone that does not serve the newer one. Nobody stops for it, and who cannot follow says so.
func TestUpgrade_MovesTheLayoutWhenAllNodesServeIt(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	const want = "this dtsd serves only layout"
	redis, far := redistest.Start(t), newRecorder(t)
	db := redis.DB(t)
	previous, this := startRelease(t, previousRelease, redis.URL()), startRelease(t, thisRelease, redis.URL(), "--roles", "api", "--heartbeat", "300ms")
	next := []*node{startRelease(t, nextRelease, redis.URL()), startRelease(t, nextRelease, redis.URL())}
	stays := func(because ...*node) func() bool {
		ids := make([]string, len(because))
		for i, n := range because {
			ids[i] = n.id
		}
		slices.Sort(ids)
		return func() bool { return next[0].holdsBack(ids) && next[1].holdsBack(ids) }
	}
	await(t, time.Minute, "both say who serves no newer layout", stays(previous, this))
	next[0].submit(far.task("beside-both", "/ok"))
	followed := far.task("followed", "/ok")
	followed.OnEnd = &wire.FollowUp{
		When: wire.FollowUpWhenEnded, Task: wire.FollowUpTask{Type: "http", Payload: followed.Payload},
	}
	expectLayout(t, db, "3")
	next[0].answer(followed, http.StatusBadRequest) // the previous release knows no follow-ups
	next[0].putFlow("etl", http.StatusBadRequest)   // nor workflows
	previous.stop()
	await(t, time.Minute, "both say that only one is left", stays(this))
	expectLayout(t, db, "7")
	next[0].answer(followed, http.StatusCreated)
	next[0].putFlow("etl", http.StatusCreated)
	payload := json.RawMessage(`{"workflow": "etl"}`)
	next[1].submit(wire.Submission{ID: ptr("run"), Type: "workflow", Payload: payload})
	await(t, time.Minute, "the run has ended", next[1].is("run", wire.StateSucceeded))
	await(t, time.Minute, "what follows has run", func() bool {
		return slices.ContainsFunc(next[0].all("succeeded"), func(task wire.Task) bool { return task.ID == "followed@e1" })
	})

	this.signal(syscall.SIGSTOP) // it counts as dead soon
	await(t, time.Minute, "the layout has moved", func() bool {
		return db.HGet(t.Context(), "dts:meta", "layout").Val() == "8"
	})
	next[1].submit(far.task("in-the-new-one", "/ok"))
	this.signal(syscall.SIGCONT)
	testkit.Receive(t, this.Done(), "the end of the node that does not serve it")
	if err := this.Stop(); err == nil || !this.said(want) {
		t.Errorf("it ended with %v", err)
	}
	for _, release := range []string{thisRelease, previousRelease} {
		p, err := process.Start(binaries, release, "serve", "--redis", redis.URL())
		if err == nil {
			p.Kill()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", release, err)
		}
	}
	startRelease(t, nextRelease, redis.URL())
	await(t, time.Minute, "all tasks have run", func() bool { return len(next[0].all("succeeded")) == 7 })
	expectLayout(t, db, "8")
	expectNoError(t, next[0]) // the doctor of this release cannot read it any more
}

// putFlow puts a workflow of two steps. If that is refused, the answer says why.
func (n *node) putFlow(id string, status int) {
	n.t.Helper()
	definition := wire.WorkflowDefinition(`{"steps": [
		{"id": "extract", "task": {"type": "noop"}}, {"id": "load", "needs": ["extract"], "task": {"type": "noop"}}]}`)
	answer, err := n.PutWorkflowWithResponse(n.t.Context(), id, nil, definition)
	testkit.Must(n.t, err)
	refused := strings.Contains(string(answer.Body), "workflows work as soon as no living node is of an earlier release")
	if answer.StatusCode() != status || refused != (status == http.StatusBadRequest) {
		n.t.Errorf("workflow %s: %s, want %d: %s", id, answer.Status(), status, answer.Body)
	}
}

func expectLayout(t *testing.T, db *redisx.DB, want string) {
	t.Helper()
	if got := db.HGet(t.Context(), "dts:meta", "layout").Val(); got != want {
		t.Errorf("the layout is %q, want %s", got, want)
	}
}

// holdsBack reports whether the node has said that it does not move the layout because of those nodes, the ids of which are sorted.
func (n *node) holdsBack(ids []string) bool {
	for line := range strings.SplitSeq(n.Log(), "\n") {
		var entry struct {
			Msg   string
			Nodes []string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && strings.HasPrefix(entry.Msg, "the data stays in its layout") {
			if slices.Equal(entry.Nodes, ids) {
				return true
			}
		}
	}
	return false
}
