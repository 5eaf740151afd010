package partition_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// claimed is what came of a claim in the partition of the siblings: ids and names, sorted.
type claimed struct{ Tasks, Backlog, Apart []string }

func claim(t *testing.T, w *storetest.World, q partition.Quotas) claimed {
	t.Helper()
	got, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, q, time.Second)
	testkit.Must(t, err)
	w.CheckSets()
	c := claimed{Backlog: slices.Sorted(maps.Keys(got.Backlog)), Apart: slices.Sorted(slices.Values(got.Apart))}
	for _, d := range got.Deliveries {
		c.Tasks = append(c.Tasks, strings.TrimPrefix(d.Ref.ID, "s@"))
	}
	slices.Sort(c.Tasks)
	return c
}

func TestClaim_LetsWhatNobodyServesWaitApart(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i, d := range []task.Definition{
		{Type: "http"}, {Type: "shell"}, {Type: "http", Queue: "mail"}, {Type: "shell", Queue: "mail"},
		{Type: "http", Queue: "any"}, {Type: "x", Queue: "any"}, {Type: "http", Queue: "none"},
		{Type: "mail", Queue: "default"}, {Type: "http", Queue: "ma"}, {Type: "http"},
	} {
		d.Ref = sibling(i)
		w.Create(d)
	}
	quotas := partition.Quotas{Default: 1000, Served: lua.ServedText([]lua.Offer{
		{Queues: []string{"default", "more"}, Types: []string{"http"}}, {Queues: []string{"mail"}, Types: []string{"http2"}},
		{Queues: []string{"any"}, Types: []string{lua.AllTypes}}, {Queues: []string{"mail", "more"}, Types: []string{"shell"}},
	})}
	apart := []string{"default mail", "default shell", "ma", "mail http", "none"}
	want := claimed{Tasks: []string{"0", "3", "4", "5", "9"}, Apart: apart}
	if got := claim(t, w, quotas); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	quotas.Known = true
	if got := claim(t, w, quotas); !cmp.Equal(got, claimed{}) {
		t.Errorf("when the leader knows the names, it found %+v", got)
	}
	quotas.Known = false
	if got := claim(t, w, quotas); !cmp.Equal(got, claimed{Apart: apart}) {
		t.Errorf("when it looked at all names, it found %+v", got)
	}
	quotas.Served = lua.ServedText([]lua.Offer{
		{Queues: []string{"default"}, Types: []string{"http", "shell"}}, {Queues: []string{"none"}, Types: []string{"http"}},
	})
	want = claimed{Backlog: []string{"default shell", "none"}, Apart: []string{"default mail", "ma", "mail http"}}
	if got := claim(t, w, quotas); !cmp.Equal(got, want) {
		t.Error("when some are served", cmp.Diff(want, got))
	}
	quotas.Queues = map[string]partition.Quota{"default shell": {Number: 9}, "none": {Number: 9}}
	quotas.Known = true
	if got := claim(t, w, quotas); !cmp.Equal(got, claimed{Tasks: []string{"1", "6"}}) {
		t.Errorf("with quotas for them, it claimed %+v", got)
	}
}

// What waits in the set of its queue may be of a type that nobody runs any more.
func TestClaim_SetsApartWhatWaitedForItsQueue(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 4 {
		w.Create(task.Definition{Ref: sibling(i), Type: []string{"shell", "http"}[i%2]})
	}
	claim(t, w, partition.Quotas{Queues: map[string]partition.Quota{"default": {}}})
	quotas := partition.Quotas{Queues: map[string]partition.Quota{"default": {Number: 4}}, Known: true}
	quotas.Served = lua.ServedText([]lua.Offer{{Queues: []string{"default"}, Types: []string{"http"}}})
	want := claimed{Tasks: []string{"1", "3"}, Apart: []string{"default shell"}}
	if got := claim(t, w, quotas); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestClaim_ReadsNoNamesThatTheLeaderKnows(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	reads := func() int {
		return strings.Count(w.DB.Info(w.Ctx, "commandstats").Val(), "cmdstat_smembers:")
	}
	quotas := partition.Quotas{Default: 10, Known: true, Served: lua.ServedText(nil)}
	for i := range 10 {
		w.Create(task.Definition{Ref: sibling(i), Type: fmt.Sprint("type", i)})
	}
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	_, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
	testkit.Must(t, err)
	if n := reads(); n != 0 {
		t.Errorf("it read them %d times", n)
	}
	quotas.Known = false
	_, err = w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
	testkit.Must(t, err)
	if n := reads(); n != 1 {
		t.Errorf("without that knowledge, it read them %d times, want once", n)
	}
}

func TestClaim_PutsOffWhatHasOneNameTooMany(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const most = task.WaitingNamesLimit
	defs := make([]task.Definition, most+2)
	for i := range defs {
		defs[i] = task.Definition{Ref: sibling(i), Type: fmt.Sprint("type", i)}.Normalize()
	}
	for _, c := range w.Tasks.Create(w.Ctx, defs) {
		testkit.Must(t, c.Err)
	}
	quotas := partition.Quotas{Default: 10, Served: lua.ServedText([]lua.Offer{{Queues: []string{"default"}, Types: []string{"http"}}})}
	for range most/256 + 1 {
		claim(t, w, quotas)
	}
	names := func() int { return int(w.DB.SCard(w.Ctx, string(w.KeysOf(sibling(0)).Backlog())).Val()) }
	onWheel := func() []string { return w.DB.ZRange(w.Ctx, string(w.KeysOf(sibling(0)).Wheel()), 0, -1).Val() }
	wheel := onWheel()
	if names() != most || len(wheel) != 2 {
		t.Fatalf("%d names and %d tasks on the wheel, want %d and 2", names(), len(wheel), most)
	}
	for _, member := range wheel {
		ref, err := task.ParseRef(member)
		testkit.Must(t, err)
		if ahead := w.Get(ref).DueAt.Sub(w.DB.Time(w.Ctx).Val()); ahead < task.PutOffFor/2 || ahead > 2*task.PutOffFor {
			t.Errorf("%s comes again in %s", member, ahead)
		}
	}
	known, err := w.Tasks.Cancel(w.Ctx, sibling(0))
	testkit.Must(t, err)
	w.Create(task.Definition{Ref: sibling(most + 10), Type: known.Type}) // there is room for a name again
	w.Create(task.Definition{Ref: sibling(most + 11), Type: known.Type}) // and this is the same name
	w.Create(task.Definition{Ref: sibling(most + 12), Type: "http"})     // served: never put off
	if got := claim(t, w, quotas); len(got.Tasks) != 1 || names() != most || len(onWheel()) != 2 {
		t.Errorf("claimed %v, with %d names and %v on the wheel", got.Tasks, names(), onWheel())
	}
}
