package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// The server would try again at once if asynq decided about that: its handler says nothing of asynq.SkipRetry.
func TestForeignServer_HandlesAnAttemptThatFailsOnce(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("boom") },
		"panic": func() error { panic("boom") },
	} {
		for _, attempts := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d attempts", name, attempts), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				handled := make(chan int, 100)
				w.asynqServer(1, func(_ context.Context, received *asynq.Task) error {
					handled <- attemptOf(t, received)
					return fail()
				})
				ref := w.create(task.Definition{Queue: "foreign", Retry: task.Retry{MaxAttempts: attempts, Delays: []time.Duration{time.Millisecond}}})
				// The first look comes as late as it does by default, after the leader has taken back what it claimed before it knew of the
				// server.
				a := w.start("a", never, func(n *node) { n.pace.lookAgain = 50 * time.Millisecond })
				w.leads(map[*node]int{a: 16})
				w.reaches(ref, task.Failed)
				last := task.Delivery{Ref: ref, Attempt: attempts}
				if state := w.db.HGet(t.Context(), string(lua.AsynqQueue("foreign").Delivery(last.String())), "state").Val(); state != "archived" {
					t.Errorf("the last delivery is %s, which asynq may handle again", state)
				}
				var numbers []int
				for len(handled) > 0 {
					numbers = append(numbers, <-handled)
				}
				if want := []int{1, 2}[:attempts]; !slices.Equal(numbers, want) {
					t.Errorf("the attempts %v were handled, want %v", numbers, want)
				}
			})
		}
	}
}

// attemptOf returns the number of the attempt to which a delivery refers.
func attemptOf(t *testing.T, received *asynq.Task) int {
	t.Helper()
	var reference struct{ Attempt int }
	testkit.Must(t, json.Unmarshal(received.Payload(), &reference))
	return reference.Attempt
}
