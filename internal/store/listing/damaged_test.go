package listing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Lists show a task whose definition is damaged before or after its row is written, whatever sorts them, and the
// leader keeps its row.
func TestList_ShowsATaskWhoseDefinitionIsDamaged(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before its row is written: %t", before), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := task.Ref{Namespace: task.DefaultNamespace, ID: "damaged"}
			packers := packers(w)
			packAll(t, w, packers)
			w.Create(task.Definition{Ref: ref, Type: "noop", Delay: time.Hour})
			if !before {
				packAll(t, w, packers)
			}
			testkit.Must(t, w.DB.HSet(w.Ctx, string(w.Layout.KeysOf(ref).Defs()), ref.String(), "17").Err())
			shown := func(when string) {
				t.Helper()
				for _, by := range []index.By{index.StateTime, index.Created, index.Due} {
					f := tasks.Filter{Type: "noop", States: []task.State{task.Scheduled}, Sort: index.Order{By: by}}
					if diff := cmp.Diff([]string{ref.String()}, listAll(t, w, f, 10)); diff != "" {
						t.Errorf("%s, sorted by %v: -want, +listed:\n%s", when, by, diff)
					}
				}
			}
			shown("after the damage")
			packAll(t, w, packers)
			shown("after its row is written")
			for p := range packers {
				packers[p].Suspect(segmentsOf(t, w)[p])
			}
			packAll(t, w, packers)
			shown("after the leader has looked at the row")
		})
	}
}
