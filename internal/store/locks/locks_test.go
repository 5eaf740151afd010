package locks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var deploy = task.Ref{Namespace: "default", ID: "deploy"}

// acquire takes a lock that is free, or that the holder has.
func acquire(t *testing.T, w *storetest.World, ref task.Ref, holder string, ttl time.Duration) locks.Lock {
	t.Helper()
	l, err := w.Locks.Acquire(w.Ctx, locks.Lock{Ref: ref, Holder: holder, TTL: ttl, Note: "of " + holder})
	testkit.Must(t, err)
	return l
}

// untilFree waits until a lock has expired.
func untilFree(t *testing.T, w *storetest.World, ref task.Ref) {
	t.Helper()
	testkit.Eventually(t, "the lock expires", func() bool {
		_, err := w.Locks.Get(w.Ctx, ref)
		return task.CodeOf(err) == locks.CodeNotFound
	})
}

func TestAcquire_RefusesAnotherHolderAndSaysForHowLong(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	first := acquire(t, w, deploy, "a", time.Minute)
	_, err := w.Locks.Acquire(w.Ctx, locks.Lock{Ref: deploy, Holder: "b", TTL: time.Minute})
	var held *locks.HeldError
	if !errors.As(err, &held) || held.Holder != "a" || held.Remaining <= 0 || held.Remaining > time.Minute {
		t.Fatalf("got %v", err)
	}
	again := acquire(t, w, deploy, "a", time.Hour)
	if again.Fence != first.Fence || !again.Since.Equal(first.Since) || again.Expires.Sub(first.Expires) < 50*time.Minute {
		t.Errorf("the same holder got %+v after %+v", again, first)
	}
}

func TestAcquire_FencesGrow(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	newest := int64(0)
	for i := range 20 {
		holder := fmt.Sprint("h", i)
		l := acquire(t, w, deploy, holder, time.Minute)
		if l.Fence <= newest {
			t.Fatalf("fence %d after %d", l.Fence, newest)
		}
		newest = l.Fence
		released, err := w.Locks.Release(w.Ctx, deploy, holder, l.Fence)
		testkit.Must(t, err)
		if !released {
			t.Fatal("not released")
		}
		if i%5 == 0 { // a failover lost the counter
			testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(deploy).Token())).Err())
			testkit.Eventually(t, "the time goes on", func() bool {
				now, err := w.Now(w.Ctx, 0)
				testkit.Must(t, err)
				return now.UnixMilli() > newest
			})
		}
	}
	testkit.Must(t, w.DB.Set(w.Ctx, string(w.KeysOf(deploy).Token()), newest+1_000_000, 0).Err()) // the clock of Redis stepped back
	if l := acquire(t, w, deploy, "last", time.Minute); l.Fence != newest+1_000_001 {
		t.Errorf("fence %d after %d", l.Fence, newest+1_000_000)
	}
}

func TestRenew_IsRefusedToWhoeverDoesNotHoldTheLock(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	l := acquire(t, w, deploy, "a", time.Minute)
	_, err := w.Locks.Release(w.Ctx, deploy, "a", l.Fence)
	testkit.Must(t, err)
	refused := func(holder string, fence int64, says string) {
		t.Helper()
		before := redistest.Dump(t, w.DB)
		_, err := w.Locks.Renew(w.Ctx, deploy, holder, fence, nil)
		if task.CodeOf(err) != locks.CodeLost || !strings.Contains(err.Error(), says) {
			t.Errorf("renewing as %s with %d: %v", holder, fence, err)
		}
		if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
			t.Errorf("the refusal changed something:\n%s", diff)
		}
	}
	refused("a", l.Fence, "expired or was released")
	other := acquire(t, w, deploy, "b", time.Minute)
	refused("a", l.Fence, `"b" has it now`)
	refused("a", other.Fence, `"b" has it now`)
	refused("b", other.Fence-1, `"b" has it now`)
	expires, err := w.Locks.Renew(w.Ctx, deploy, "b", other.Fence, new(time.Hour))
	testkit.Must(t, err)
	if expires.Sub(other.Expires) < 50*time.Minute {
		t.Errorf("expires at %s, before at %s", expires, other.Expires)
	}
	expires, err = w.Locks.Renew(w.Ctx, deploy, "b", other.Fence, nil)
	testkit.Must(t, err)
	if got, err := w.Locks.Get(w.Ctx, deploy); err != nil || got.TTL != time.Hour || !got.Expires.Equal(expires) || got.Note != "of b" {
		t.Errorf("without a ttl it became %+v, %v", got, err)
	}
}

func TestRelease_ConcernsTheOwnLockOnly(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	l := acquire(t, w, deploy, "a", time.Minute)
	before := redistest.Dump(t, w.DB)
	for _, c := range []struct {
		holder string
		fence  int64
	}{{"b", l.Fence}, {"b", 0}, {"a", l.Fence - 1}} {
		if released, err := w.Locks.Release(w.Ctx, deploy, c.holder, c.fence); err != nil || released {
			t.Errorf("%s with %d: %t, %v", c.holder, c.fence, released, err)
		}
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
	if released, err := w.Locks.Release(w.Ctx, deploy, "a", 0); err != nil || !released {
		t.Errorf("a holder without an answer: %t, %v", released, err)
	}
	if released, err := w.Locks.Release(w.Ctx, deploy, "a", l.Fence); err != nil || released {
		t.Errorf("again: %t, %v", released, err)
	}
}

// Everything but the times is as after one run.
func TestScripts_RepeatIsHarmless(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	l := acquire(t, w, deploy, "a", time.Minute)
	same := func(name string, repeat func() error) {
		t.Helper()
		before := redistest.Dump(t, w.DB)
		testkit.Must(t, repeat())
		if diff := cmp.Diff(before, redistest.Dump(t, w.DB), withoutExpiry); diff != "" {
			t.Errorf("%s, repeated, changed something:\n%s", name, diff)
		}
	}
	same("acquire", func() error {
		_, err := w.Locks.Acquire(w.Ctx, locks.Lock{Ref: deploy, Holder: "a", TTL: time.Minute, Note: "of a"})
		return err
	})
	same("renew", func() error { _, err := w.Locks.Renew(w.Ctx, deploy, "a", l.Fence, nil); return err })
	_, err := w.Locks.Release(w.Ctx, deploy, "a", l.Fence)
	testkit.Must(t, err)
	same("release", func() error { _, err := w.Locks.Release(w.Ctx, deploy, "a", l.Fence); return err })
}

// withoutExpiry leaves out what a renewal changes.
var withoutExpiry = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == `["expires"]` }, cmp.Ignore()),
	cmp.Transformer("members", func(scores map[string]float64) []string {
		var members []string
		for m := range scores {
			members = append(members, m)
		}
		return members
	}),
}

func TestLock_LeavesNothingButTheCounter(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	before := redistest.Dump(t, w.DB)
	keys := w.KeysOf(deploy)
	acquire(t, w, deploy, "a", 20*time.Millisecond) // and dies
	untilFree(t, w, deploy)
	l := acquire(t, w, deploy, "b", time.Minute)
	if n := w.DB.ZCard(w.Ctx, string(keys.Locks())).Val(); n != 1 {
		t.Errorf("%d locks in the set", n)
	}
	_, err := w.Locks.Release(w.Ctx, deploy, "b", l.Fence)
	testkit.Must(t, err)
	testkit.Must(t, w.DB.Del(w.Ctx, string(keys.Token())).Err())
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func TestAcquire_RefusesMoreLocksThanAPartitionMayHave(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	set := string(w.KeysOf(deploy).Locks())
	now, err := w.Now(w.Ctx, 0)
	testkit.Must(t, err)
	var all []redis.Z
	for i := range contract.LocksLimit {
		all = append(all, redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: fmt.Sprint("default:x", i)})
	}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, set, all...).Err())
	before := redistest.Dump(t, w.DB)
	_, err = w.Locks.Acquire(w.Ctx, locks.Lock{Ref: deploy, Holder: "a", TTL: time.Minute})
	if task.CodeOf(err) != task.CodeUnavailable || !strings.Contains(err.Error(), "2000 locks") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("the refusal changed something:\n%s", diff)
	}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, set, redis.Z{Score: 1, Member: "default:x0"}).Err()) // one has expired
	acquire(t, w, deploy, "a", time.Minute)
}

func TestList_LosesNoLockBetweenPages(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var want []string
	for i := range 11 {
		name := fmt.Sprintf("l%02d", i)
		acquire(t, w, task.Ref{Namespace: "default", ID: name}, "a", time.Minute)
		want = append(want, name)
	}
	acquire(t, w, task.Ref{Namespace: "other", ID: "l00"}, "a", time.Minute)
	acquire(t, w, task.Ref{Namespace: "default", ID: "dead"}, "a", time.Millisecond)
	untilFree(t, w, task.Ref{Namespace: "default", ID: "dead"})
	var got []string
	for cursor := ""; ; {
		page, err := w.Locks.List(w.Ctx, "default", 3, cursor)
		testkit.Must(t, err)
		for _, l := range page.Locks {
			got = append(got, l.Ref.ID)
			if l.Holder != "a" || l.TTL != time.Minute || l.Expires.Sub(l.Since) != time.Minute || l.Note != "of a" {
				t.Errorf("listed %+v", l)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if _, err := w.Locks.List(w.Ctx, "default", 3, "%"); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("got %v for a cursor that is none", err)
	}
}

func TestAwait_SignalsReleasesAlsoAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	db, err := redisx.Open(t.Context(), redisx.Options{URL: proxy.URL()})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	w := storetest.On(t, db)
	other := task.Ref{Namespace: "default", ID: "other"}
	released, stop := w.Locks.Await(deploy)
	defer stop()
	_, stopOther := w.Locks.Await(other)
	stopOther() // the subscription goes on
	subscribed := func() {
		t.Helper()
		testkit.Eventually(t, "a subscription", func() bool {
			return server.DB(t).PubSubNumSub(w.Ctx, string(w.Keys.Unlocked())).Val()[string(w.Keys.Unlocked())] == 1
		})
	}
	subscribed()
	drain := func() {
		for {
			select {
			case <-released:
				continue
			default:
			}
			return
		}
	}
	proxy.Cut()
	drain()
	proxy.Mend()
	testkit.Receive(t, released, "a signal that releases may have been missed")
	subscribed()
	drain()
	l := acquire(t, w, deploy, "a", time.Minute)
	_, err = w.Locks.Release(w.Ctx, deploy, "a", l.Fence)
	testkit.Must(t, err)
	testkit.Receive(t, released, "the release")
}

// The clock of Redis went back, and with it the time that is left of the lock.
func TestAcquire_CutsALockThatWouldLastLongerThanItsHolderAskedFor(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.MovableClock(t))
	w := storetest.On(t, srv.DB(t))
	acquire(t, w, deploy, "dead", time.Second)
	srv.MoveClock(-time.Hour)
	_, err := w.Locks.Acquire(w.Ctx, locks.Lock{Ref: deploy, Holder: "b", TTL: time.Minute})
	var held *locks.HeldError
	if !errors.As(err, &held) || held.Remaining > time.Second {
		t.Errorf("got %v", err)
	}
	untilFree(t, w, deploy)
	acquire(t, w, deploy, "b", time.Minute)
}
