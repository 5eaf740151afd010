package definition_test

import (
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
)

// A weight of 0, which stands for the default within, is refused of who says it.
func TestTask_RefusesAWeightOf0(t *testing.T) {
	t.Parallel()
	next := wire.FollowUpTask{Type: "http", FairKey: new("a"), FairWeight: new(0)}
	for want, s := range map[string]wire.Submission{
		"fair_weight: 0 must be 1 to 100":             {Type: "http", FairKey: new("a"), FairWeight: new(0)},
		"on_end.task.fair_weight: 0 must be 1 to 100": {Type: "http", OnEnd: &wire.FollowUp{When: "ended", Task: next}},
		"": {Type: "http", FairKey: new("a")},
	} {
		said := ""
		if _, err := definition.Task(s); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("got %q, want %q", said, want)
		}
	}
}
