package usage

import (
	"math"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestShare_DividesBySize(t *testing.T) {
	t.Parallel()
	c := newTally()
	sample := []entry{{"a:one", 100, false}, {"b:two", 200, true}, {"b:s@20260102T000000Z", 100, true}}
	c.share(4000, sample, func(ended bool) Kind {
		if ended {
			return Ended
		}
		return Waiting
	})
	if c.kinds[Waiting] != 1000 || c.kinds[Ended] != 3000 || c.of("a:").taskBytes != 1000 || c.of("b:").taskBytes != 3000 {
		t.Errorf("%v, %+v, %+v", c.kinds, c.owners["a"], c.owners["b"])
	}
	if run := c.runs[task.Ref{Namespace: "b", ID: "s"}]; run != 1000 || len(c.runs) != 1 {
		t.Errorf("runs: %v", c.runs)
	}
}

func TestShare_WithoutASampleBelongsToNobody(t *testing.T) {
	t.Parallel()
	c := newTally()
	c.share(4000, nil, func(bool) Kind { return States })
	if c.kinds[States] != 4000 || len(c.owners) != 0 {
		t.Errorf("%v, %v", c.kinds, c.owners)
	}
}

// One of four in the sample has ended, and half of all have.
func TestBalanced_WeighsByTheTrueShare(t *testing.T) {
	t.Parallel()
	sample := []entry{{"a:1", 10, true}, {"a:2", 10, false}, {"a:3", 10, false}, {"a:4", 10, false}}
	var ended, waiting float64
	for _, e := range balanced(sample, 0.5) {
		if e.ended {
			ended += e.bytes
		} else {
			waiting += e.bytes
		}
	}
	if math.Abs(ended-waiting) > 1e-9 {
		t.Errorf("%v have ended, and %v have not", ended, waiting)
	}
	if same := balanced(sample[1:], 0.5); !slices.Equal(same, sample[1:]) {
		t.Errorf("without one that has ended: %v", same)
	}
}

func TestAllot_FollowsTheSizes(t *testing.T) {
	t.Parallel()
	if got := allot(100, []int64{0, 1000, 3000, 1, 5}); !slices.Equal(got, []int64{0, 25, 75, 1, 1}) {
		t.Errorf("allotted %v", got)
	}
}

func TestClass_TellsKeysApart(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]struct {
		kind Kind
		of   string
	}{
		"dts:{3}:attempts:a:x": {Attempts, "a:x"}, "dts:{3}:log:a:x": {Logs, "a:x"}, "dts:{3}:state:a:failed": {Ended, "a"},
		"dts:{3}:lock:a:x": {Administration, ""}, "dts:{3}:lease": {Administration, ""}, "dts:taken:w": {Administration, ""},
		"asynq:{q}:t:a:x:1": {Deliveries, "a:x"}, "asynq:{q}:processed": {Deliveries, ""}, "dtsx:{3}:defs": {Foreign, ""},
		"dts:{3}:minute:12": {Administration, ""}, "dts:{3}:schedule:a:x": {}, "dts:{3}:ledger:a:x": {},
	} {
		kind, of, ok := class(key, "dts:")
		if kind != want.kind || of != want.of || ok != (want.kind != "") {
			t.Errorf("%s is %q of %q, %v", key, kind, of, ok)
		}
	}
}
