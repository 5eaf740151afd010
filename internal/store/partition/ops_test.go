package partition

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// What a plan costs Redis, by its ops. Steps that wait have none of their own, and a run without them has as many as
// before there were any.
func TestRunWrite_SaysEachThingOnce(t *testing.T) {
	t.Parallel()
	run := task.Ref{Namespace: task.DefaultNamespace, ID: "etl"}
	step, at := run.Step("load"), time.UnixMilli(1)
	seen := Seen{Ref: step, Text: "succeeded 1"}
	read := Run{Task: task.Task{Definition: task.Definition{Ref: run}}, Seen: Seen{Ref: run, Text: "running 1"}}
	release := []Release{{Task: task.Definition{Ref: step, Type: "echo"}.Normalize(), Attempts: 1}}
	end := &RunEnd{State: task.Succeeded, Kept: at, Free: []task.Ref{step}}
	for want, w := range map[string]RunWrite{
		"run took":           {Idle: true, Took: []string{"plan"}},
		"run asked saw look": {Text: "1", Look: at},
		"run took asked saw begin pin release look": {
			Text: "1", Took: []string{"plan"}, Begin: true, Plan: "{}", Release: release, Look: at,
		},
		"run took asked saw saw release look": {
			Text: "1", Took: []string{"end"}, Saw: []Seen{seen}, Release: release, Look: at,
		},
		"run took asked saw saw took free end": {Text: "1", Took: []string{"end"}, Saw: []Seen{seen}, End: end},
	} {
		w.Run = read
		ops, err := w.ops()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, op := range ops {
			got = append(got, op.Op)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%+v: %s, want %s", w, got, want)
		}
	}
}
