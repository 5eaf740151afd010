package partition_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

// claimed is what came of a claim in the partition of the siblings: ids and names, sorted.
type claimed struct{ Tasks, Backlog, Apart []string }

func claim(t *testing.T, w *storetest.World, q handover.Grant) claimed {
	t.Helper()
	got, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, q, time.Second)
	testkit.Must(t, err)
	w.CheckSets()
	c := claimed{Backlog: names(maps.Keys(got.Backlog)), Apart: names(slices.Values(got.Apart))}
	for _, d := range got.Deliveries {
		c.Tasks = append(c.Tasks, strings.TrimPrefix(d.Ref.ID, "s@"))
	}
	slices.Sort(c.Tasks)
	return c
}

func names(lanes iter.Seq[handover.Lane]) (sorted []string) {
	for lane := range lanes {
		sorted = append(sorted, lua.LaneName(lane.Queue, lane.Type))
	}
	slices.Sort(sorted)
	return sorted
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
	quotas := handover.Grant{Default: 1000, Served: lua.ServedText([]lua.Offer{
		{Queues: []string{"default", "more"}, Types: []string{"http"}}, {Queues: []string{"mail"}, Types: []string{"http2"}},
		{Queues: []string{"any"}, Types: []string{lua.AllTypes}},
		{Queues: []string{"mail", "more"}, Types: []string{"shell"}},
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
	quotas.Lanes = handover.Quotas{{Queue: "default", Type: "shell"}: {Number: 9}, {Queue: "none"}: {Number: 9}}
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
	claim(t, w, handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {}}})
	quotas := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {Number: 4}}, Known: true}
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
	quotas := handover.Grant{Default: 10, Known: true, Served: lua.ServedText(nil)}
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

// many creates tasks of that namespace, which share a partition, each of its own type and due at once.
func many(t *testing.T, w *storetest.World, namespace string, n int) {
	t.Helper()
	var defs []task.Definition
	for i := 0; len(defs) < n; i++ {
		ref := task.Ref{Namespace: namespace, ID: fmt.Sprint("many", i)}
		d := task.Definition{Ref: ref, Type: fmt.Sprint(namespace, "-", i)}
		if w.PartitionOf(d.Ref) == w.PartitionOf(sibling(0)) {
			defs = append(defs, d.Normalize())
		}
	}
	for _, c := range w.Tasks.Create(w.Ctx, defs) {
		testkit.Must(t, c.Err)
	}
}

// waiting is the number of names, without that of all others, and of tasks without a name.
func waiting(w *storetest.World) (names, others int) {
	k := w.KeysOf(sibling(0))
	for _, name := range w.DB.SMembers(w.Ctx, string(k.Backlog())).Val() {
		if name != lua.Unnamed {
			names++
		}
	}
	return names, int(w.DB.ZCard(w.Ctx, string(k.Ready(lua.Unnamed))).Val())
}

func TestClaim_LeavesEachNamespaceAShareOfTheNames(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	const all = contract.WaitingNamesLimit
	served := lua.ServedText([]lua.Offer{{Queues: []string{"default"}, Types: []string{"http"}}})
	quotas := handover.Grant{Default: 10, Served: served}
	before := 0
	for _, c := range []struct {
		namespace string
		least     int // names that it gets
	}{{"first", all/2 - 2}, {"second", all/4 - 2}, {"third", all/8 - 2}} {
		many(t, w, c.namespace, all/2+300)
		for range 4 {
			claim(t, w, quotas)
		}
		names, others := waiting(w)
		if got := names - before; got < c.least || got > c.least+4 || others == 0 {
			t.Errorf("%s got %d names, want about %d; %d tasks have none", c.namespace, got, c.least, others)
		}
		before = names
	}
}

// What has no name waits as long as it has to, keeps its due time, and costs nothing meanwhile.
func TestClaim_LooksAtTasksWithoutANameAsItIsTold(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	const without = 600
	many(t, w, "default", contract.WaitingNamesLimit/2+without)
	offer := lua.Offer{Queues: []string{"default"}, Types: []string{"http"}}
	quotas := handover.Grant{Default: 1000, Served: lua.ServedText([]lua.Offer{offer})}
	for range 6 {
		claim(t, w, quotas)
	}
	k := w.KeysOf(sibling(0))
	_, others := waiting(w)
	if others < without-2 || others > without+2 || w.DB.ZCard(w.Ctx, string(k.Wheel())).Val() != 0 {
		t.Fatalf("%d tasks have no name, want %d", others, without)
	}
	none := w.DB.ZRangeWithScores(w.Ctx, string(k.Ready(lua.Unnamed)), 0, -1).Val()
	first, last := none[0], none[len(none)-1]
	ref, err := task.ParseRef(last.Member.(string))
	testkit.Must(t, err)
	waits := w.Get(ref)
	due := waits.DueAt
	if waits.State != task.Scheduled || due.UnixMilli() != int64(last.Score) || due.After(w.DB.Time(w.Ctx).Val()) {
		t.Errorf("one of them is %s, due at %s", waits.State, waits.DueAt)
	}
	firstRef, err := task.ParseRef(first.Member.(string))
	testkit.Must(t, err)
	offer.Types = append(offer.Types, w.Get(firstRef).Type, waits.Type)
	quotas.Served = lua.ServedText([]lua.Offer{offer})
	if got := claim(t, w, quotas); len(got.Tasks) != 0 {
		t.Errorf("it was not told to look, and claimed %v", got.Tasks)
	}
	var looks []int
	quotas.Unnamed, quotas.Known = lua.FirstUnnamed, true
	for quotas.Unnamed != "" && len(looks) < 10 {
		got, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
		testkit.Must(t, err)
		w.CheckSets()
		for _, d := range got.Deliveries {
			if at := w.Get(d.Ref).DueAt; !d.DueAt.Equal(time.UnixMilli(int64(first.Score))) && !d.DueAt.Equal(waits.DueAt) {
				t.Errorf("%s was due at %s, and is claimed as due at %s", d.Ref, at, d.DueAt)
			}
		}
		looks = append(looks, len(got.Deliveries))
		if quotas.Unnamed = got.Unnamed; len(looks) == 1 { // where the next one goes on is no task any more
			ref, err := task.ParseRef(strings.SplitN(got.Unnamed, " ", 2)[1])
			testkit.Must(t, err)
			_, err = w.Tasks.Cancel(w.Ctx, ref, "")
			testkit.Must(t, err)
			w.CheckSets()
		}
	}
	total := 0
	for _, n := range looks {
		total += n
	}
	if total != 2 || looks[0] != 1 {
		t.Errorf("claims that were told to look claimed %v", looks)
	}
}

// withUnnamed has more tasks wait than there are names for, and returns the quotas of the claims that put them there.
func withUnnamed(t *testing.T) (*storetest.World, handover.Grant) {
	t.Helper()
	w := storetest.New(t)
	many(t, w, "default", contract.WaitingNamesLimit/2+4)
	http := lua.Offer{Queues: []string{"default"}, Types: []string{"http"}}
	quotas := handover.Grant{Default: 1000, Served: lua.ServedText([]lua.Offer{http})}
	for range 3 {
		claim(t, w, quotas)
	}
	return w, quotas
}

// A node of an earlier release does not know the set, and leaves tasks in it that it cancels or puts on the wheel.
func TestClaim_TakesNothingUnnamedThatDoesNotWait(t *testing.T) {
	t.Parallel()
	w, quotas := withUnnamed(t)
	k := w.KeysOf(sibling(0))
	set := string(k.Ready(lua.Unnamed))
	names := w.DB.ZRange(w.Ctx, set, 0, -1).Val()
	if len(names) < 3 {
		t.Fatalf("%d tasks have no name", len(names))
	}
	offer := lua.Offer{Queues: []string{"default"}}
	for _, member := range slices.Concat(names[:2], names[3:]) {
		ref, err := task.ParseRef(member)
		testkit.Must(t, err)
		offer.Types = append(offer.Types, w.Get(ref).Type)
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), names[0], "cancelled 0 0 0 0 0 0 0 0 0 1").Err())
	later := redis.Z{Member: names[1], Score: float64(w.DB.Time(w.Ctx).Val().Add(time.Hour).UnixMilli())}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Wheel()), later).Err())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, set, redis.Z{Member: names[2], Score: 1.5}).Err())
	quotas.Unnamed, quotas.Known, quotas.Served = lua.FirstUnnamed, true, lua.ServedText([]lua.Offer{offer})
	got, err := w.Leader(sibling(0)).Claim(w.Ctx, 1, quotas, time.Second)
	testkit.Must(t, err)
	for n := 1; got.Unnamed != "" && n < 10; n++ {
		quotas.Unnamed = got.Unnamed
		more, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
		testkit.Must(t, err)
		got.Deliveries, got.Unnamed = append(got.Deliveries, more.Deliveries...), more.Unnamed
	}
	for _, d := range got.Deliveries {
		if member := d.Ref.String(); member == names[0] || member == names[1] {
			t.Errorf("%s is claimed", member)
		}
	}
	if len(got.Deliveries) != len(names)-3 || w.DB.ZCard(w.Ctx, set).Val() != 1 {
		t.Errorf("%d of %d are claimed, %d stay", len(got.Deliveries), len(names), w.DB.ZCard(w.Ctx, set).Val())
	}
}

// A look goes on where the one before it ended, also if that task waits from another time on meanwhile.
func TestClaim_LooksOnIfTheLastTaskHasAnotherTime(t *testing.T) {
	t.Parallel()
	w, quotas := withUnnamed(t)
	set := string(w.KeysOf(sibling(0)).Ready(lua.Unnamed))
	names := w.DB.ZRange(w.Ctx, set, 0, -1).Val()
	quotas.Unnamed, quotas.Known = lua.FirstUnnamed, true
	first, err := w.Leader(sibling(0)).Claim(w.Ctx, 1, quotas, time.Second)
	testkit.Must(t, err)
	later := redis.Z{Member: names[0], Score: float64(w.DB.Time(w.Ctx).Val().UnixMilli())}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, set, later).Err())
	offer := lua.Offer{Queues: []string{"default"}}
	for _, member := range names {
		ref, err := task.ParseRef(member)
		testkit.Must(t, err)
		offer.Types = append(offer.Types, w.Get(ref).Type)
	}
	quotas.Unnamed, quotas.Served = first.Unnamed, lua.ServedText([]lua.Offer{offer})
	got, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
	testkit.Must(t, err)
	if len(names) < 3 || len(got.Deliveries) != len(names) {
		t.Errorf("of %d tasks, %d are claimed", len(names), len(got.Deliveries))
	}
}

func TestTakeBack_LeavesOthersAShareOfTheNames(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const without, all = 30, contract.WaitingNamesLimit/2 + 30
	many(t, w, "default", all)
	quotas := handover.Grant{Default: 1000, Lanes: handover.Quotas{{Queue: "default"}: {Number: 1000}}}
	for claimed := 0; claimed < all; { // how many claims that takes depends on how late they are
		got, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
		testkit.Must(t, err)
		if len(got.Deliveries) == 0 {
			t.Fatalf("a claim takes none, after %d of %d", claimed, all)
		}
		testkit.Must(t, w.Leader(sibling(0)).TakeBack(w.Ctx, got.Deliveries, true))
		w.CheckSets()
		claimed += len(got.Deliveries)
	}
	if names, others := waiting(w); names+others != all || others < without-2 {
		t.Errorf("%d tasks have names and %d have none", names, others)
	}
}

// When others with a name have ended, those without one get theirs: they are seen, and limits count them.
func TestClaim_GivesANameToWhatHadNone(t *testing.T) {
	t.Parallel()
	w, quotas := withUnnamed(t)
	k := w.KeysOf(sibling(0))
	named, before := waiting(w)
	for _, name := range w.DB.SMembers(w.Ctx, string(k.Backlog())).Val()[:20] {
		if name == lua.Unnamed {
			continue
		}
		ref, err := task.ParseRef(w.DB.ZRange(w.Ctx, string(k.Ready(name)), 0, 0).Val()[0])
		testkit.Must(t, err)
		_, err = w.Tasks.Cancel(w.Ctx, ref, "")
		testkit.Must(t, err)
	}
	quotas.Unnamed, quotas.Known = lua.FirstUnnamed, true
	_, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
	testkit.Must(t, err)
	w.CheckSets()
	names, after := waiting(w)
	if before < 3 || after != 0 || names < named-20+before {
		t.Errorf("%d tasks had no name and %d have none; %d names were there and %d are", before, after, named, names)
	}
	if left, err := w.DB.SIsMember(w.Ctx, string(k.Backlog()), lua.Unnamed).Result(); left || err != nil {
		t.Errorf("the empty set is listed: %v %v", left, err)
	}
}
