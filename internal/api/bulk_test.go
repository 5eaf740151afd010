package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
)

func TestShownSelection_IsTheFilterOfTheRequest(t *testing.T) {
	t.Parallel()
	for _, by := range []wire.TaskTime{wire.TaskTimeCreated, wire.TaskTimeDue, wire.TaskTimeEnded} {
		want := wire.TaskSelection{
			State: []wire.State{wire.StateFailed}, Queue: wire.Given("low"), Type: wire.Given("http"),
			Owner: wire.Given("ann"), Node: wire.Given("n1"), Schedule: wire.Given("nightly"),
			Labels: wire.LabelsOf(map[string]string{"order": "1"}), Error: wire.Given("boom"),
			Since: wire.AtIfAny(start), Until: wire.AtIfAny(start.Add(time.Hour)), Time: &by,
		}
		f := selectionOf(want)
		if by != wire.TaskTimeEnded {
			f.Ended.Until = start.Add(time.Minute + time.Millisecond) // as control does: those that matched as of a time
		}
		if diff := cmp.Diff(want, shownSelection(f, start.Add(time.Minute))); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
}
