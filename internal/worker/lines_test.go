package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func (w *world) lines(ref task.Ref) []task.LogLine {
	w.t.Helper()
	all, err := w.store.Tasks.Logs(w.t.Context(), ref, tasks.LogQuery{Limit: 2 * task.LogLimit})
	testkit.Must(w.t, err)
	return all.Lines
}

func TestLog_KeepsLinesInOrderWithTheirNumbers(t *testing.T) {
	t.Parallel()
	const n = 700
	w := newWorld(t)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		for i := range n {
			a.Log("stdout", fmt.Sprint("line ", i+1))
		}
		return "", nil
	})
	ref := w.submit(task.Definition{})
	w.reaches(ref, task.Succeeded)
	got := w.lines(ref)
	if len(got) != n {
		t.Fatalf("there are %d lines, want %d", len(got), n)
	}
	for i, l := range got {
		if l.Cursor != fmt.Sprint("1-", i+1) || l.Text != fmt.Sprint("line ", i+1) || l.Stream != "stdout" || l.Attempt != 1 {
			t.Fatalf("line %d is %+v", i+1, l)
		}
	}
}

func TestLog_ShowsLinesWhileTheAttemptRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := make(chan struct{})
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		a.Log("stderr", "first")
		<-seen
		a.Log("stderr", "second")
		return "", nil
	})
	ref := w.submit(task.Definition{})
	testkit.Eventually(t, "the first line is there", func() bool { return len(w.lines(ref)) == 1 })
	close(seen)
	w.reaches(ref, task.Succeeded)
	if got := w.lines(ref); len(got) != 2 || got[1].Text != "second" {
		t.Errorf("the log is %+v, want two lines", got)
	}
}

func TestLog_NumbersTheLinesOfEveryAttemptFromOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		a.Log("stdout", "hello")
		return "", fmt.Errorf("boom")
	})
	ref := w.submit(task.Definition{})
	w.reaches(ref, task.Scheduled)
	w.hurry(ref)
	got := w.lines(ref)
	if len(got) != 2 || got[0].Cursor != "1-1" || got[1].Cursor != "2-1" {
		t.Errorf("the log is %+v, want 1-1 and 2-1", got)
	}
}

// One task that writes all it can must not keep Redis busy for everybody else.
func TestLog_BoundsAFloodOfLinesWithoutDelayingTheTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wrote int
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		second := time.NewTimer(time.Second)
		for {
			a.Log("stdout", fmt.Sprint(wrote+1))
			wrote++
			select {
			case <-second.C:
				return "", nil
			default:
			}
		}
	})
	ref := w.submit(task.Definition{})
	w.reaches(ref, task.Succeeded)
	got := w.lines(ref)
	if len(got) > task.LogLimit || len(got) < task.LogLimit-linesAtOnce {
		t.Errorf("the log has %d lines, want about %d", len(got), task.LogLimit)
	}
	if last := got[len(got)-1]; last.Text != fmt.Sprint(wrote) || last.Cursor != fmt.Sprint("1-", wrote) {
		t.Errorf("the last of %d lines is %+v", wrote, last)
	}
	logged := int(time.Second/linesInterval+3) * task.LogLimit
	if n := w.added(); n > logged {
		t.Errorf("%d of %d lines went to Redis, want at most %d", n, wrote, logged)
	}
	t.Logf("%d lines written, %d sent", wrote, w.added())
}

// added is how many lines were written to logs.
func (w *world) added() int {
	w.t.Helper()
	info, err := w.db.Info(w.t.Context(), "commandstats").Result()
	testkit.Must(w.t, err)
	_, rest, _ := strings.Cut(info, "cmdstat_xadd:calls=")
	var n int
	_, err = fmt.Sscan(strings.Split(rest, ",")[0], &n)
	testkit.Must(w.t, err)
	return n
}

func TestLog_LostLinesDoNotFailTheTask(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		close(begun)
		<-end
		a.Log("stdout", "into the void")
		return "done", nil
	})
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	w.reports.Cut()
	close(end)
	testkit.Eventually(t, "it cannot report", func() bool { return w.said.contain("cannot report") })
	w.reports.Mend()
	w.reaches(ref, task.Succeeded)
}
