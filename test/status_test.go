package test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
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
