package scheduler

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestPeek_FindsATaskWhoseWakeUpWasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, func(n *node) { n.pace.peek = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	a.asleep()
	d := task.Definition{Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "x"}, Type: "echo"}.Normalize()
	def, err := codec.EncodeDefinition(d)
	testkit.Must(t, err)
	_, err = redisx.Run(t.Context(), w.db, lua.Create{
		Defs: w.store.KeysOf(d.Ref).Defs(), Events: w.store.Keys.Events(), Wake: "nobody listens here", Tasks: []lua.CreateTask{{Member: d.Ref, Def: def}},
	})
	testkit.Must(t, err)
	w.dispatched(d.Ref, 1)
}

// What is not announced is not looked for: an idle leader runs no scripts.
func TestPeek_RunsNoScriptWhileNothingHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, func(n *node) { n.pace.peek = 20 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	w.dispatched(w.create(task.Definition{Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "x"}}), 1)
	a.asleep()
}
