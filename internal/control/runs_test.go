package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// A run that is to begin again may have to wait as one that begins. It keeps its definition.
func TestGetRun_SaysWhatARunWaitsForThatBeginsAgain(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	reads, err := w.Leader(etl).ReadRuns(w.Ctx, partition.ReadRun{Ref: etl})
	testkit.Must(t, err)
	end := partition.RunWrite{
		Run: reads[0], Text: reads[0].Text, End: &partition.RunEnd{State: task.Failed, Kept: time.Now().Add(time.Hour)},
	}
	_, err = w.Leader(etl).Advance(w.Ctx, []partition.RunWrite{end})
	testkit.Must(t, err)
	testkit.Must(t, w.Workflows.Leave(w.Ctx, ref("flow"), workflows.Place{Run: etl, Attempt: 1}))
	_, err = w.Tasks.RerunIn(w.Ctx, etl, "rerun", time.Time{})
	testkit.Must(t, err)
	w.Claim(etl)
	_, err = w.Workflows.Enter(w.Ctx, ref("flow"),
		workflows.Place{Run: ref("before"), Attempt: 3}, workflows.Place{Run: etl, Attempt: 2})
	testkit.Must(t, err)
	expect := func(want string) {
		t.Helper()
		run, err := w.control.GetRun(w.Ctx, control.Caller{Namespace: "default"}, etl.ID)
		testkit.Must(t, err)
		says := strings.HasSuffix(run.Waits, want) && (want == "") == (run.Waits == "")
		if !says || run.Revision != 2 || run.Flow.Len() != 3 {
			t.Errorf("%q; revision %d with %d steps", run.Waits, run.Revision, run.Flow.Len())
		}
	}
	expect("max_runs of the workflow flow is 1, and before runs. It is the next one.")
	line := make([]workflows.Place, 1000)
	for i := range line {
		line[i] = workflows.Place{Run: ref(fmt.Sprintf("r-%d", i)), Attempt: 1}
	}
	own := workflows.Place{Run: etl, Attempt: 2}
	testkit.Must(t, w.Workflows.Leave(w.Ctx, ref("flow"), own))
	for some := range slices.Chunk(append(line, own), 100) {
		_, err = w.Workflows.Enter(w.Ctx, ref("flow"), some...)
		testkit.Must(t, err)
	}
	expect("max_runs of the workflow flow is 1, and before runs. 1,000 or more wait before it.")
	_, err = w.Workflows.Pause(w.Ctx, ref("flow"), "", "")
	testkit.Must(t, err)
	expect("The workflow flow is paused (dtsctl flow resume --workflow flow).")
	testkit.Must(t, w.Workflows.Delete(w.Ctx, ref("flow"), 0, ""))
	expect("")
}

func TestGetRun_SaysThatNoStepIsReleasedWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	w := &ward{World: storetest.New(t), t: t}
	w.control = control.New(control.Options{Store: w.Store, Nodes: fleet(nil)})
	w.startFlow()
	w.replace(w.KeysOf(etl).Runs(), etl, func(text string) string { // as its leader has left it
		r, err := workflow.DecodeRun(text, 3)
		testkit.Must(t, err)
		r.Steps[1] = workflow.StepRun{State: workflow.Blocked}
		return r.Encode()
	})
	why := func(step int) string {
		run, err := w.control.GetRun(w.Ctx, control.Caller{Namespace: "default"}, etl.ID)
		testkit.Must(t, err)
		return run.Steps[step].Why
	}
	if got := why(1); got != "is released next" {
		t.Errorf("with room: %s", got)
	}
	testkit.Must(t, w.DB.ConfigSet(w.Ctx, "maxmemory", "1").Err())
	testkit.Eventually(t, "it says so", func() bool {
		return why(1) == "waits for memory: Redis is almost full, so leaders release no steps"
	})
	if got := why(2); got != "waits for load (rule success)" {
		t.Errorf("the step behind it: %s", got)
	}
}
