package control_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A run that has ended before it began, as its workflow was gone, has no steps, and is shown with what its task says.
func TestGetRun_ShowsOneWhoseWorkflowIsGone(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	c := control.New(control.Options{Store: w.Store, Nodes: fleet(nil)})
	w.Create(task.Definition{
		Ref: etl, Type: task.WorkflowType, Queue: task.WorkflowQueue, Payload: []byte(`{"workflow":"gone"}`),
	})
	who := control.Caller{Namespace: "default"}
	run, err := c.GetRun(w.Ctx, who, "etl")
	if err != nil || run.Task.State != task.Scheduled || len(run.Steps) > 0 {
		t.Errorf("before its begin: %+v, %v", run, err)
	}
	w.Claim(etl)
	read, err := w.Leader(etl).ReadRuns(w.Ctx, partition.ReadRun{Ref: etl})
	testkit.Must(t, err)
	_, err = w.Leader(etl).Advance(w.Ctx, []partition.RunWrite{{Run: read[0], Begin: true, End: &partition.RunEnd{
		State: task.Failed, Error: "no workflow gone", Kept: time.Now().Add(time.Hour),
	}}})
	testkit.Must(t, err)
	run, err = c.GetRun(w.Ctx, who, "etl")
	if err != nil || run.Task.State != task.Failed || run.Task.Error != "no workflow gone" || run.Workflow != "gone" {
		t.Errorf("after its end: %+v, %v", run, err)
	}
	if _, findings, err := c.AuditRun(w.Ctx, who, "etl"); err != nil || len(findings) > 0 {
		t.Errorf("the audit finds %q, %v", findings, err)
	}
	if _, err = c.RunGraph(w.Ctx, who, "etl"); err != nil {
		t.Error(err)
	}
}
