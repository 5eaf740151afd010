package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
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
