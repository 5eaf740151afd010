package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// outage is longer than a run may go without its lease, a node without a heartbeat, and a partition without a renewal.
var outage = testkit.Amount(8*time.Second, 15*time.Second)

// An outage of Redis ends nothing that runs. What ends meanwhile is reported when Redis is back, and nobody is taken for dead.
func TestOutage_EndsNothingThatRuns(t *testing.T) {
	t.Parallel()
	for how, stop := range map[string]func(*redistest.Server) (goOn func()){
		"Redis hangs":                              func(s *redistest.Server) func() { s.Pause(); return s.Continue },
		"Redis restarts":                           func(s *redistest.Server) func() { s.Kill(); return s.Restart },
		"Redis refuses all writes":                 func(s *redistest.Server) func() { s.RefuseWrites(); return s.TakeWrites },
		"Redis takes the password for a wrong one": func(s *redistest.Server) func() { s.LockOut(); return s.LetIn },
	} {
		if how != "Redis hangs" && !testkit.Long() {
			continue // the short form has one of them
		}
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const meanwhile, later = 10, 10 // tasks, as many of both
			redis := redistest.Start(t, redistest.AOF(), redistest.User("dtsd", "~*", "&*", "+@all"))
			a, b := startNode(t, redis.URL()), startNode(t, redis.URL())
			quick, slow := newRecorder(t), newRecorder(t)
			var tasks []wire.Submission
			add := func(far *recorder, kind string, n int) {
				for i := range n {
					s := far.task(fmt.Sprint(kind, i), "/block")
					s.Retry = &wire.Retry{MaxAttempts: ptr(1)}
					tasks = append(tasks, s)
				}
			}
			add(quick, "meanwhile", meanwhile)
			add(slow, "later", later)
			a.submit(tasks...)
			await(t, 30*time.Second, "all run", func() bool { return quick.count() == meanwhile && slow.count() == later })

			goOn := stop(redis)
			testkit.Must(t, clock.Sleep(t.Context(), outage/2))
			close(quick.block)
			testkit.Must(t, clock.Sleep(t.Context(), outage/2))
			goOn()
			await(t, time.Minute, "what ended meanwhile is reported", a.has(meanwhile, wire.StateSucceeded))
			now, err := redis.DB(t).Time(t.Context()).Result()
			testkit.Must(t, err)
			await(t, time.Minute, "both nodes send heartbeats", func() bool { return a.beatAfter(now, a.id, b.id) })
			await(t, time.Minute, "the others still run", a.has(later, wire.StateRunning))
			close(slow.block)
			await(t, time.Minute, "they are done", a.has(meanwhile+later, wire.StateSucceeded))
			for _, far := range []*recorder{quick, slow} {
				if n := far.count(); n != meanwhile {
					t.Errorf("the handlers were called %d times, want %d", n, meanwhile)
				}
			}
			a.submit(wire.Submission{ID: ptr("after"), Type: "noop"})
			await(t, time.Minute, "new work runs", a.is("after", wire.StateSucceeded))
		})
	}
}

// has is a condition: the node answers, and so many tasks are in a state, of at most 500.
func (n *node) has(count int, s wire.State) func() bool {
	return func() bool {
		answer, err := n.ListTasksWithResponse(n.t.Context(), &client.ListTasksParams{Limit: ptr(500), State: []wire.State{s}})
		return err == nil && answer.JSON200 != nil && len(answer.JSON200.Tasks) == count
	}
}
