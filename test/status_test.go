package test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// awaitStatus waits until the status has a reason with that code about that thing; with the code "" until it has none.
func (n *node) awaitStatus(code wire.StatusReasonCode, id string) {
	n.t.Helper()
	await(n.t, 30*time.Second, fmt.Sprintf("the status tells %q of %q", code, id), func() bool {
		answer, err := n.GetStatusWithResponse(n.t.Context())
		testkit.Must(n.t, err)
		if answer.JSON200 == nil {
			return false
		}
		if code == "" {
			return len(answer.JSON200.Reasons) == 0
		}
		return slices.ContainsFunc(answer.JSON200.Reasons, func(r wire.StatusReason) bool {
			return r.Code == code && (id == "" || r.ID != nil && *r.ID == id)
		})
	})
}

// The scheduler computes the status, and another node shows it.
func TestStatus_TellsEachNodeWhatNeedsSomebody(t *testing.T) {
	testkit.OnlyLong(t) // some conditions must last for ten seconds
	t.Parallel()
	redis := redistest.Start(t)
	leader := startNode(t, redis.URL(), "--roles", "scheduler,api", "--lease-ttl", "1s")
	worker := startNode(t, redis.URL(), "--roles", "worker,api", "--concurrency", "1")
	worker.awaitStatus("", "")

	worker.submit(wire.Submission{ID: ptr("a"), Type: "noop", Queue: ptr("reports"), Payload: []byte("{}")})
	worker.awaitStatus(wire.StatusQueueUnserved, "reports")
	worker.submit(wire.Submission{ID: ptr("b"), Type: "shell", Payload: []byte(`{"command": ["true"]}`)})
	worker.awaitStatus(wire.StatusTypeUnserved, "default")
	testkit.Must(t, worker.pauseQueue("default"))
	worker.submit(noop("c", "{}"))
	worker.awaitStatus(wire.StatusQueuePaused, "default")

	failing := wire.ScheduleDefinition{
		Every: ptr(wire.Duration("1s")), PauseOnFailure: ptr(2),
		Task: wire.TaskTemplate{
			Type: "noop", Payload: []byte(`{"fail": "no such host"}`), Retry: &wire.Retry{MaxAttempts: ptr(1)},
		},
	}
	_, err := worker.PutScheduleWithResponse(t.Context(), "failing", nil, failing)
	testkit.Must(t, err)
	_, err = worker.ResumeQueueWithResponse(t.Context(), "default")
	testkit.Must(t, err)
	worker.awaitStatus(wire.StatusPausedByFailures, "failing")

	redis.Pause()
	worker.awaitStatus(wire.StatusRedisSilent, "")
	redis.Continue()
	leader.kill()
	worker.awaitStatus(wire.StatusNodeDied, leader.id)
	worker.awaitStatus(wire.StatusNoLeader, "")
}

// A user of Redis may lack the right to run scripts, from the start or later. Everything else works then.
func TestNode_SaysThatItMayRunNoScripts(t *testing.T) {
	testkit.NotQuick(t) // a Redis is away only after it has refused for a second
	t.Parallel()
	redis := redistest.Start(t, redistest.User("dts", "~*", "&*", "+@all", "-eval", "-evalsha"))
	address := fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	p, err := process.Launch(binaries, "dtsd", "serve", "--redis", redis.URL(), "--listen", address)
	testkit.Must(t, err)
	n := &node{Process: p, t: t, url: "http://" + address}
	t.Cleanup(n.cleanup)
	n.ClientWithResponses, err = client.NewClientWithResponses(n.url)
	testkit.Must(t, err)
	saysSo := func() bool {
		answer, err := n.ReadyzWithResponse(t.Context())
		return err == nil && answer.StatusCode() == http.StatusServiceUnavailable &&
			strings.Contains(string(answer.Body), "'evalsha'")
	}

	await(t, 30*time.Second, "/readyz names the right", saysSo)
	alive, err := n.HealthzWithResponse(t.Context())
	if err != nil || alive.JSON200 == nil {
		t.Errorf("/healthz: %v, %+v", err, alive)
	}
	list, err := n.ListTasksWithResponse(t.Context(), nil)
	if err != nil || list.StatusCode() != http.StatusServiceUnavailable ||
		!strings.Contains(string(list.Body), "it waits for Redis") {
		t.Errorf("a request: %v, %s", err, list.Body)
	}

	testkit.Must(t, redis.Admin().Do(t.Context(), "acl", "setuser", "dts", "+@all").Err())
	testkit.Must(t, p.AwaitRunning())
	n.awaitStatus("", "")
	testkit.Must(t, redis.Admin().Do(t.Context(), "acl", "setuser", "dts", "-eval", "-evalsha").Err())
	await(t, 30*time.Second, "/readyz names the right again", saysSo)
	n.awaitStatus(wire.StatusRedisSilent, "") // the node shows the status of the last second
	found, err := n.GetStatusWithResponse(t.Context())
	testkit.Must(t, err)
	r := found.JSON200.Reasons[0]
	if r.Code != wire.StatusRedisSilent || !strings.Contains(r.Detail, "'evalsha'") ||
		!strings.Contains(r.ToDo, "that Redis names") {
		t.Errorf("the status tells %+v", r)
	}
}
