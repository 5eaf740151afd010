package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// attemptRecord is what the commands of tasks have written, outside of Redis: for each attempt of a task, how often it began and ended.
type attemptRecord map[string]map[string]struct{ begun, ended int }

func readAttempts(t *testing.T, file string) attemptRecord {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	record := attemptRecord{}
	for line := range strings.Lines(string(text)) {
		word := strings.Fields(line)
		task, attempt := word[1], word[2]
		if record[task] == nil {
			record[task] = map[string]struct{ begun, ended int }{}
		}
		r := record[task][attempt]
		if word[0] == "begun" {
			r.begun++
		} else {
			r.ended++
		}
		record[task][attempt] = r
	}
	return record
}

// Promises 1 to 3 while all nodes restart again and again, with less time to drain than their tasks take: an attempt that a restart cuts short
// counts as lost, and another one begins at once.
func TestRollingRestarts_LoseNothingThatTheyCutShort(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	const restarts = 36
	redis, file := redistest.Start(t), filepath.Join(t.TempDir(), "record")
	api := startNode(t, redis.URL(), "--roles", "api")
	start := func() *node {
		return startNode(t, redis.URL(), "--roles", "scheduler,worker", "--enable-shell", "--drain-timeout", "500ms")
	}
	nodes := []*node{start(), start()}
	stopped := map[string]bool{}

	command := fmt.Sprintf("echo begun $DTS_TASK_ID $DTS_ATTEMPT >> %[1]s; sleep 2; echo ended $DTS_TASK_ID $DTS_ATTEMPT >> %[1]s", file)
	accepted := 0
	submit := func() { // what comes due during a restart
		tasks := make([]wire.Submission, 20)
		for i := range tasks {
			delay := time.Duration(i) * 150 * time.Millisecond
			tasks[i] = wire.Submission{
				ID: ptr(fmt.Sprintf("t%04d", accepted)), Type: "shell", Payload: fmt.Appendf(nil, `{"command": ["sh", "-c", %q]}`, command),
				Delay: ptr(delay.String()), Retry: &wire.Retry{MaxAttempts: ptr(restarts + 1)},
			}
			accepted++
		}
		api.submit(tasks...)
	}
	for i := range restarts {
		submit()
		at := i % len(nodes)
		old := nodes[at]
		await(t, time.Minute, "the node runs something", func() bool {
			for _, task := range api.all(wire.StateRunning) {
				if *task.Node == old.id {
					return true
				}
			}
			return false
		})
		old.stop()
		stopped[old.id] = true
		nodes[at] = start()
	}
	await(t, time.Minute, "all have ended", api.idle)

	done := api.all(wire.StateSucceeded)
	if len(done) != accepted {
		t.Errorf("%d tasks have succeeded, want %d", len(done), accepted)
	}
	record, lost := readAttempts(t, file), 0
	for _, task := range done {
		history := api.attempts(task.ID)
		if len(history) != task.Attempt || len(record[task.ID]) > task.Attempt {
			t.Errorf("%s has succeeded with attempt %d; history %+v, record %v", task.ID, task.Attempt, history, record[task.ID])
		}
		for i, a := range history {
			last, r := i == len(history)-1, record[task.ID][fmt.Sprint(a.Number)]
			switch {
			case a.Number != i+1 || last != (*a.Outcome == wire.OutcomeSucceeded):
				t.Errorf("%s: attempt %d of the history is number %d, and %s", task.ID, i+1, a.Number, *a.Outcome)
			case last && (r.begun != 1 || r.ended != 1):
				t.Errorf("%s: attempt %d has succeeded, and began %d times and ended %d times", task.ID, a.Number, r.begun, r.ended)
			case !last && (*a.Outcome != wire.OutcomeInterrupted || !stopped[a.Node] || r.begun > 1):
				t.Errorf("%s: attempt %d is %s on %s (which was stopped: %v), and began %d times",
					task.ID, a.Number, *a.Outcome, a.Node, stopped[a.Node], r.begun)
			case !last:
				lost++
			}
		}
	}
	t.Logf("%d restarts cut %d attempts of %d tasks short", restarts, lost, accepted)
	if lost == 0 {
		t.Error("no restart has cut an attempt short")
	}
}
