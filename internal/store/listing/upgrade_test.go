package listing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// upgraded is an installation that is upgraded and rolled back. Its tasks have the label app=x.
type upgraded struct {
	*storetest.World
	t     *testing.T
	lists *listing.Listing // of one node, which remembers what it has read
	older bool             // nodes of an earlier release live
	lossy bool             // Redis may have lost writes lately
	token int              // of the newest lease of each partition
	made  int
	kind  string // the type of tasks to create
}

func newUpgraded(t *testing.T) *upgraded {
	t.Helper()
	db := redistest.Start(t).DB(t)
	u := &upgraded{World: storetest.On(t, db), t: t, token: 1, kind: "http"}
	node, err := store.Open(u.Ctx, store.Options{
		DB: db, HasOlder: func() bool { return u.older }, MayHaveLost: func() bool { return u.lossy },
	})
	testkit.Must(t, err)
	u.lists = node.Listing
	return u
}

// lead gives the leases of all partitions to other nodes. A leader of an earlier release does no more.
func (u *upgraded) lead() lua.Fence {
	u.t.Helper()
	u.token++
	fence := lua.Fence(fmt.Sprint(u.token, ":tester"))
	for p := range u.Layout.Partitions() {
		leasetest.Grant(u.t, u.DB, u.Partitions.LeaseKey(p), fence, 0)
	}
	return fence
}

// take makes nodes of this release lead all partitions.
func (u *upgraded) take() (all []*listing.Packer) {
	u.t.Helper()
	fence := u.lead()
	for p := range u.Layout.Partitions() {
		packer := u.lists.Packer(p, fence)
		testkit.Must(u.t, packer.Enter(u.Ctx))
		all = append(all, packer)
	}
	return all
}

// create creates tasks that wait for an hour. An earlier release notes none of them.
func (u *upgraded) create(n int, earlier bool) (refs []task.Ref) {
	u.t.Helper()
	var defs []task.Definition
	for range n {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("t", u.made)}
		refs = append(refs, ref)
		defs = append(defs, task.Definition{
			Ref: ref, Type: u.kind, Delay: time.Hour, Labels: map[string]string{"app": "x"},
		})
		u.made++
	}
	for some := range slices.Chunk(defs, 500) {
		for _, c := range u.Tasks.Create(u.Ctx, some) {
			testkit.Must(u.t, c.Err)
		}
	}
	if earlier {
		u.unnote(refs)
	}
	return refs
}

// end creates tasks that are cancelled: of those, lists show only what the index has, or what is noted.
func (u *upgraded) end(n int, earlier bool) {
	u.t.Helper()
	refs := u.create(n, earlier)
	for _, ref := range refs {
		_, err := u.Tasks.Cancel(u.Ctx, ref, "")
		testkit.Must(u.t, err)
	}
	if earlier {
		u.unnote(refs)
	}
}

// unnote leaves tasks as an earlier release does.
func (u *upgraded) unnote(refs []task.Ref) {
	u.t.Helper()
	for _, ref := range refs {
		testkit.Must(u.t, u.DB.LRem(u.Ctx, string(u.KeysOf(ref).ListedNew()), 0, ref.String()).Err())
	}
}

var ofApp = tasks.Filter{Namespace: "default", Labels: map[string]string{"app": "x"}}

// lacks expects that a list says what it lacks.
func (u *upgraded) lacks(text, when string) {
	u.t.Helper()
	page, err := u.lists.List(u.Ctx, ofApp, 10, "")
	if err != nil || !strings.Contains(page.Missing, text) {
		u.t.Errorf("%s, a list lacks %q, want %q; %v", when, page.Missing, text, err)
	}
}

// hasAll expects that lists show all tasks.
func (u *upgraded) hasAll(when string) {
	u.t.Helper()
	seen := map[task.Ref]bool{}
	for cursor := ""; ; {
		page, err := u.lists.List(u.Ctx, ofApp, 500, cursor)
		testkit.Must(u.t, err)
		if page.Missing != "" {
			u.t.Errorf("%s, a list lacks %s", when, page.Missing)
		}
		for _, listed := range page.Tasks {
			seen[listed.Ref] = true
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != u.made {
		u.t.Errorf("%s, %d of %d tasks are listed", when, len(seen), u.made)
	}
}

func (u *upgraded) packAll(packers []*listing.Packer) {
	u.t.Helper()
	packAll(u.t, u.World, packers)
}

func TestList_SaysHowFarTheIndexIsBuilt(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	u.create(6000, true)
	u.lacks("no leader has begun", "without an index")
	all := u.take()
	for range 3 {
		for _, p := range all {
			_, err := p.Pack(u.Ctx)
			testkit.Must(t, err)
		}
	}
	u.lacks("% of it is there", "while the index is built")
	if page, err := u.lists.List(u.Ctx, ofApp, 10, ""); err != nil || len(page.Tasks) != 10 {
		t.Errorf("while the index is built, %d tasks are listed, %v", len(page.Tasks), err)
	}
	u.packAll(all)
	u.hasAll("when it is built")
	u.older = true
	u.lacks("earlier release", "when a node of an earlier release comes")
	u.packAll(all)
	u.create(10, true)
	u.older = false
	u.lacks("no leader has begun", "when that node has gone")
	u.packAll(all)
	u.hasAll("when the index is built again")
}

// A list that can do without the index is whole while there is none. Its counts are not, and say so.
func TestListAndCount_SaysWhatCountsLack(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	u.end(10, false)
	u.packAll(u.take())
	u.older = true
	for _, states := range [][]task.State{nil, {task.Cancelled}} {
		page, counts, err := u.lists.ListAndCount(u.Ctx, tasks.Filter{Namespace: "default", States: states}, 20, "")
		if err != nil || len(page.Tasks) != 10 || page.Missing != "" {
			t.Errorf("%d of 10 tasks are listed, which lack %q; %v", len(page.Tasks), page.Missing, err)
		}
		for _, state := range task.States {
			if c := counts[state]; !c.Unbuilt || !strings.Contains(c.Missing, "earlier release") {
				t.Errorf("%s: counted %+v, as if that were all", state, c)
			}
		}
	}
}

// A node remembers what it has read of an index that began anew meanwhile.
func TestList_ShowsTheIndexThatBeganAnew(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	u.end(100, false)
	all := u.take()
	u.packAll(all)
	u.hasAll("when it is built")
	for i := range 5 {
		u.older = true
		u.packAll(all)
		u.kind = fmt.Sprint("kind-", i)
		u.end(10, true)
		u.older = false
		u.packAll(all)
		ofKind := ofApp
		ofKind.Type = u.kind
		if page, err := u.lists.List(u.Ctx, ofKind, 20, ""); err != nil || len(page.Tasks) != 10 {
			t.Errorf("%d of 10 tasks of %s are listed, %v", len(page.Tasks), u.kind, err)
		}
	}
}

func TestPacker_GoesOnWithTheIndexOfTheLeaderBefore(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	u.end(100, false)
	u.packAll(u.take())
	u.take() // which pack nothing
	u.end(10, false)
	for _, p := range u.take() {
		if more, err := p.Pack(u.Ctx); err != nil || more {
			t.Errorf("the next leader has more to do (%t), as if it built the index; %v", more, err)
		}
	}
	u.hasAll("after the third leader")
}

// All nodes are replaced by those of an earlier release at once, and again by those of this one. The list of nodes does
// not tell.
func TestPacker_BeginsAnewAfterALeaderOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	u.end(100, false)
	u.packAll(u.take())
	u.hasAll("before the rollback")
	u.lead()
	u.end(50, true)
	u.lacks("a new leader has yet to look", "when nodes of this release are back, and none leads yet")
	u.packAll(u.take())
	u.hasAll("after it")
}

// A leader reads notes, Redis loses them and gets others, and the leader has it remove as many as it has read.
func TestPacker_BeginsAnewWhenRedisHasLostWrites(t *testing.T) {
	t.Parallel()
	for _, next := range []bool{false, true} {
		t.Run(fmt.Sprintf("the next leader: %t", next), func(t *testing.T) {
			t.Parallel()
			u := newUpgraded(t)
			u.end(100, false)
			all := u.take()
			u.packAll(all)
			before := time.Now()
			u.end(50, true)
			for p := range u.Layout.Partitions() {
				u.Layout.RecordLossBeside(u.Ctx, string(u.Keys.Partition(p).States()), before, time.Now(), "a test")
			}
			if u.lossy = !next; next {
				all = u.take()
			}
			u.packAll(all)
			u.hasAll("after the loss")
			for _, p := range all {
				if more, err := p.Pack(u.Ctx); err != nil || more {
					t.Errorf("a leader begins the index anew once more: %t, %v", more, err)
				}
			}
		})
	}
}

// A program with an earlier release of package dts creates a task, and is no node.
func TestList_FindsWhatNobodyNotedWhenItHasEnded(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	u.packAll(packers(u.World))
	ref := u.create(1, true)[0]
	testkit.Must(t, u.DB.ZAdd(u.Ctx, string(u.KeysOf(ref).Wheel()), redis.Z{Score: 1, Member: ref.String()}).Err())
	testkit.Must(t, u.Begin(ref).Finish(u.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	u.hasAll("when it has ended")
	u.packAll(packers(u.World))
	u.hasAll("when it is packed")
}

// The index has rows of a task that waits and of one that has ended, whose states were damaged afterwards.
func TestList_ShowsWhatCannotBeReadAnyMore(t *testing.T) {
	t.Parallel()
	u := newUpgraded(t)
	refs := u.create(2, false)
	_, err := u.Tasks.Cancel(u.Ctx, refs[1], "")
	testkit.Must(t, err)
	u.packAll(u.take())
	for _, ref := range refs {
		testkit.Must(t, u.DB.HSet(u.Ctx, string(u.KeysOf(ref).States()), ref.String(), "lost").Err())
	}
	page, err := u.lists.List(u.Ctx, tasks.Filter{Namespace: "default", Type: u.kind}, 10, "")
	if err != nil || len(page.Tasks) != 2 {
		t.Errorf("%d tasks are listed, want both; %v", len(page.Tasks), err)
	}
	for _, listed := range page.Tasks {
		if listed.State != task.Unreadable {
			t.Errorf("%s is %s", listed.Ref, listed.State)
		}
	}
}
