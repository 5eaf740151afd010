package tasks_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A priority, a fair key, a weight and limit keys are content: submissions with other ones are other tasks.
func TestCreate_TakesTheTurnForContent(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	plain := task.Definition{Ref: task.Ref{Namespace: "default", ID: "plain"}, Type: "http", Delay: time.Hour}
	keyed, turn := plain, plain
	keyed.ID, keyed.FairKey = "keyed", "customer-7"
	turn.ID, turn.Priority, turn.FairKey, turn.FairWeight = "turn", 7, "customer-7", 3
	turn.LimitKey = "b,a"
	with := func(d task.Definition, change func(*task.Definition)) task.Definition {
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		first, again task.Definition
		same         bool
	}{
		"nothing":          {plain, plain, true},
		"all":              {turn, turn, true},
		"a weight of 1":    {keyed, with(keyed, func(d *task.Definition) { d.FairWeight = 1 }), true},
		"a weight":         {keyed, with(keyed, func(d *task.Definition) { d.FairWeight = 2 }), false},
		"a priority":       {plain, with(plain, func(d *task.Definition) { d.Priority = 1 }), false},
		"a key":            {plain, with(plain, func(d *task.Definition) { d.FairKey = "customer-7" }), false},
		"no priority":      {turn, with(turn, func(d *task.Definition) { d.Priority = 0 }), false},
		"another priority": {turn, with(turn, func(d *task.Definition) { d.Priority = 8 }), false},
		"another key":      {turn, with(turn, func(d *task.Definition) { d.FairKey = "customer-8" }), false},
		"no key":           {turn, with(turn, func(d *task.Definition) { d.FairKey, d.FairWeight = "", 0 }), false},
		"another weight":   {turn, with(turn, func(d *task.Definition) { d.FairWeight = 4 }), false},
		"limit keys":       {plain, with(plain, func(d *task.Definition) { d.LimitKey = "b,a" }), false},
		"another order":    {turn, with(turn, func(d *task.Definition) { d.LimitKey = "a,b" }), false},
		"no limit keys":    {turn, with(turn, func(d *task.Definition) { d.LimitKey = "" }), false},
		"no weight":        {turn, with(turn, func(d *task.Definition) { d.FairWeight = 0 }), false},
	} {
		w.Create(c.first)
		got := w.Tasks.Create(w.Ctx, []task.Definition{c.again})[0]
		if c.same && (got.Err != nil || !got.Existed) || !c.same && task.CodeOf(got.Err) != task.CodeTaskConflict {
			t.Errorf("%s: existed is %t, %v", name, got.Existed, got.Err)
		}
		stored, err := codec.EncodeDefinition(c.first.Normalize())
		testkit.Must(t, err)
		if codec.SameContent(stored, c.again.Normalize()) != c.same {
			t.Errorf("%s: the same content is %t, want %t", name, !c.same, c.same)
		}
	}
	stored := w.Get(turn.Ref)
	if stored.Priority != 7 || stored.FairKey != "customer-7" || stored.FairWeight != 3 || stored.LimitKey != "b,a" {
		t.Errorf("it is stored as %+v", stored.Definition)
	}
}
