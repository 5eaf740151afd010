package partition_test

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// anyTask is the name of a task in the namespace default.
var anyTask = task.Ref{Namespace: task.DefaultNamespace, ID: "a"}

// tableOf returns limits by their names.
func tableOf(t *testing.T, rules map[string]limit.Rule) *limit.Table {
	t.Helper()
	all := make(limit.Rules)
	for text, rule := range rules {
		n, err := limit.ParseName(text)
		testkit.Must(t, err)
		all[n] = rule
	}
	return limit.NewTable(all)
}

// desk is the leader of a partition with what it knows of limits.
type desk struct {
	t *testing.T
	w *storetest.World
	*partition.Leader
	book  *limit.Book
	table *limit.Table
	known bool // it knows which lanes wait
}

func newDesk(t *testing.T, w *storetest.World, in task.Ref, rules map[string]limit.Rule) *desk {
	t.Helper()
	d := &desk{t: t, w: w, Leader: w.Leader(in), book: limit.NewBook(), table: tableOf(t, rules)}
	d.book.Read(nil)
	return d
}

// take claims what has room, after it has asked for slots for n tasks of a lane of limits.
func (d *desk) take(n int, limits ...string) partition.Claimed {
	d.t.Helper()
	return d.takeOf(laneUnder(limits...), n)
}

// laneUnder is the lane of tasks of the default queue that have limits.
func laneUnder(limits ...string) handover.Lane {
	return handover.Lane{Queue: task.DefaultQueue, Fair: handover.Fair{Limits: strings.Join(limits, ",")}}
}

// takeOf is take for a lane, whose tasks go to nodes if there are some.
func (d *desk) takeOf(lane handover.Lane, n int, nodes ...string) partition.Claimed {
	d.t.Helper()
	limits, cost := task.SplitLimits(lane.Limits)
	needs := []limit.Need{{Limits: limits, Cost: cost, Waiting: n}}
	d.ask(needs)
	return d.claim(lane, n, needs, nodes...)
}

// ask asks for slots.
func (d *desk) ask(needs []limit.Need) {
	d.t.Helper()
	for range 8 {
		recounts, asks := d.book.Calls(needs, d.table, time.Now())
		if len(recounts) > 0 {
			caps, err := d.Recount(d.w.Ctx, recounts)
			testkit.Must(d.t, err)
			d.book.Counted(caps, time.Now())
			continue
		}
		for _, a := range asks {
			answers, err := d.Settle(d.w.Ctx, d.w.Partitions.HomeOf(a.Limit), []limit.Ask{a})
			testkit.Must(d.t, err)
			d.book.Answered(a, answers[0], time.Now())
		}
	}
}

// claim claims n tasks of the lane that needs slots, which go to nodes if there are some.
func (d *desk) claim(lane handover.Lane, n int, needs []limit.Need, nodes ...string) partition.Claimed {
	d.t.Helper()
	grant := storetest.Quotas
	grant.Limits, grant.Slots = d.table, d.book.Grants(needs, d.table, time.Now())
	grant.Known = d.known
	grant.Lanes = handover.Quotas{lane: {Number: n, Nodes: nodes}}
	claimed, err := d.Claim(d.w.Ctx, 100, grant, time.Second)
	testkit.Must(d.t, err)
	d.book.Claimed(claimed.Slots, time.Now())
	return claimed
}

// holders are the tasks that hold a slot of a limit in the partition of a task.
func (d *desk) holders(in task.Ref, name string) []string {
	d.t.Helper()
	members, err := d.w.DB.SMembers(d.w.Ctx, string(d.w.KeysOf(in).Holds(name))).Result()
	testkit.Must(d.t, err)
	slices.Sort(members)
	return members
}

// A task over its limit waits in a lane, and what has no limit does not.
func TestClaim_TakesAsManyAsHaveSlots(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	first := w.NameIn(0, task.DefaultNamespace, "first")
	for i := range 4 {
		w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, fmt.Sprint("a", i)), LimitKey: "a"})
	}
	free := w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, "free")}).Ref
	d := newDesk(t, w, first, map[string]limit.Rule{"key:*": {Slots: 2}, "namespace:other": {Slots: 1}})
	claimed := d.take(4, "key:a")
	if n := len(claimed.Deliveries); n != 3 || len(d.holders(first, "key:a")) != 2 {
		t.Errorf("%d tasks were claimed, and %v hold slots", n, d.holders(first, "key:a"))
	}
	lane := handover.Lane{Queue: task.DefaultQueue, Fair: handover.Fair{Limits: "key:a"}}
	if n := claimed.Numbers[lane]; n != 2 {
		t.Errorf("%d tasks wait in the lane of the limit, want 2: %v", n, claimed.Backlog)
	}
	if w.Get(free).State != task.Queued || len(d.take(4, "key:a").Deliveries) != 0 {
		t.Errorf("the task without a limit is %s, or more were claimed than there are slots", w.Get(free).State)
	}
	w.CheckSets()
}

// Tasks of a cost wait in a lane of their own, where those count that come before.
func TestCountReadyBefore_LooksAtTheLaneOfTheCost(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var refs []task.Ref
	for i, cost := range []int{3, 3, 2} {
		d := task.Definition{Ref: w.NameIn(0, "default", fmt.Sprint("a", i)), Type: "http", LimitKey: "a", Cost: cost}
		d.Priority = 2 - i
		refs = append(refs, w.Create(d).Ref)
	}
	g := handover.Grant{Default: 1000, Limits: limit.NewTable(limit.Rules{{Kind: limit.Key, Of: "*"}: {Slots: 4}})}
	_, err := w.Partitions.At(0).Lead(storetest.Fence).Claim(w.Ctx, 1000, g, time.Minute)
	testkit.Must(t, err)
	for i, want := range []int{0, 1, 0} {
		if before, err := w.CountReadyBefore(w.Ctx, w.Get(refs[i])); err != nil || before.Tasks != want {
			t.Errorf("%+v come before %s, %v; want %d", before, refs[i], err, want)
		}
	}
}

// Whatever ends an attempt frees its slots in the same moment, and says so.
func TestSlots_AreFreedByWhateverEndsAnAttempt(t *testing.T) {
	t.Parallel()
	end := func(state task.State, outcome task.Outcome, delay time.Duration, last int) func(d *desk, ref task.Ref) {
		return func(d *desk, ref task.Ref) {
			run := d.begin(ref)
			testkit.Must(d.t, d.w.Tasks.FinishEach(d.w.Ctx, []tasks.End{
				{Run: run, State: state, Outcome: outcome, Delay: delay, Last: last},
			})[0])
		}
	}
	for name, ends := range map[string]func(d *desk, ref task.Ref){
		"succeeded": end(task.Succeeded, task.OutcomeSucceeded, 0, 0),
		"failed":    end(task.Failed, task.OutcomeFailed, 0, 0),
		"retried":   end(task.Scheduled, task.OutcomeFailed, time.Hour, 0),
		"snoozed":   end(task.Scheduled, task.OutcomeSnoozed, time.Hour, 3),
		"moved":     end(task.Scheduled, task.OutcomeMoved, time.Hour, 3),
		"lost": func(d *desk, ref task.Ref) {
			d.begin(ref)
			d.w.Lapse(ref)
			testkit.Must(d.t, d.Reap(d.w.Ctx, d.w.Get(ref), time.Now(), time.UnixMilli(1), partition.Loss{Reason: "dead"}))
		},
		"cancelled before it began": func(d *desk, ref task.Ref) {
			_, err := d.w.Tasks.Cancel(d.w.Ctx, ref, "")
			testkit.Must(d.t, err)
		},
		"cancelled while it ran": func(d *desk, ref task.Ref) {
			run := d.begin(ref)
			_, err := d.w.Tasks.Cancel(d.w.Ctx, ref, "")
			testkit.Must(d.t, err)
			testkit.Must(d.t, run.Finish(d.w.Ctx, task.Cancelled, task.OutcomeCancelled, "", ""))
		},
		"taken back": func(d *desk, ref task.Ref) {
			testkit.Must(d.t, d.TakeBack(d.w.Ctx, []task.Delivery{{Ref: ref, Attempt: 1}}, false))
		},
		"moved to another queue": func(d *desk, ref task.Ref) {
			testkit.Must(d.t, d.w.Requeue(d.w.Get(ref).Definition, "other", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := anyTask
			w.Create(task.Definition{Ref: ref, LimitKey: "a", Cost: 2, Retry: task.Retry{MaxAttempts: 2}})
			d := newDesk(t, w, ref, map[string]limit.Rule{"key:a": {Slots: 2}, "all": {Slots: 5}})
			d.take(1, "2", "key:a", "all")
			for _, of := range []string{"key:a", "all"} {
				if diff := cmp.Diff([]string{ref.String(), ref.String() + " 2"}, d.holders(ref, of)); diff != "" {
					t.Fatalf("holders of %s (-want +got):\n%s", of, diff)
				}
			}
			if diff := cmp.Diff([]string{"key:a", "all"}, w.Get(ref).Limits); diff != "" {
				t.Errorf("limits of the task (-want +got):\n%s", diff)
			}
			heard := w.DB.Subscribe(w.Ctx, string(w.WakeOf(ref)))
			defer func() { _ = heard.Close() }()
			_, err := heard.Receive(w.Ctx)
			testkit.Must(t, err)
			ends(d, ref)
			for _, of := range []string{"key:a", "all"} {
				if holders := d.holders(ref, of); len(holders) > 0 {
					t.Errorf("%v hold slots of %s", holders, of)
				}
			}
			testkit.Must(t, w.DB.Publish(w.Ctx, string(w.WakeOf(ref)), "end").Err())
			told := ""
			for m := range heard.Channel() {
				if m.Payload == "end" {
					break
				}
				if strings.HasPrefix(m.Payload, "freed ") {
					told = m.Payload
				}
			}
			if told != "freed key:a=2 all=2" {
				t.Errorf("the leader was told %q", told)
			}
		})
	}
}

// begin begins the attempt of a queued task.
func (d *desk) begin(ref task.Ref) *tasks.Run {
	d.t.Helper()
	run, err := d.w.Tasks.Begin(d.w.Ctx, ref, 1, "node-a#1")
	testkit.Must(d.t, err)
	return run
}

// A task that waits under limits is found there by what looks for it, also after the limits have changed.
func TestClaim_FindsATaskUnderLimitsThatAreNoMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]map[string]limit.Rule{
		"others": {"type:http": {Slots: 5}, "all": {Slots: 5}}, "none": {}, "fewer": {"all": {Slots: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := anyTask
			w.Create(task.Definition{Ref: ref, LimitKey: "a"})
			d := newDesk(t, w, ref, map[string]limit.Rule{"key:a": {Paused: time.Now().Add(time.Hour)}, "all": {Slots: 5}})
			d.take(1, "key:a", "all")
			if w.Get(ref).State != task.Scheduled {
				t.Fatalf("it is %s", w.Get(ref).State)
			}
			d.table = tableOf(t, c)
			var limits []string
			for _, n := range []string{"type:http", "all"} {
				if _, is := d.table.For(n); is {
					limits = append(limits, n)
				}
			}
			grant := storetest.Quotas
			grant.Limits = d.table
			grant.Lanes = handover.Quotas{
				{Queue: task.DefaultQueue, Fair: handover.Fair{Limits: "key:a,all"}}: {Number: 10},
			}
			if _, err := d.Claim(w.Ctx, 100, grant, time.Second); err != nil { // it comes into its new lane
				t.Fatal(err)
			}
			if len(limits) > 0 {
				d.take(1, limits...)
			}
			if w.Get(ref).State != task.Queued || !slices.Equal(w.Get(ref).Limits, limits) {
				t.Errorf("it is %s under %v, want queued under %v", w.Get(ref).State, w.Get(ref).Limits, limits)
			}
			w.CheckSets()
		})
	}
}

func TestCancel_RemovesATaskThatWaitsForASlot(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]*task.FollowUp{
		"alone":            nil,
		"with a follow-up": child(task.WhenEnded),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := anyTask
			w.Create(task.Definition{Ref: ref, LimitKey: "a", FairKey: "f", OnEnd: next})
			d := newDesk(t, w, ref, map[string]limit.Rule{"key:a": {Paused: time.Now().Add(time.Hour)}})
			d.take(1, "key:a")
			_, err := w.Tasks.Cancel(w.Ctx, ref, "")
			testkit.Must(t, err)
			if names := w.DB.SMembers(w.Ctx, string(w.KeysOf(ref).Backlog())).Val(); len(names) > 0 {
				t.Errorf("tasks wait under %q", names)
			}
			w.CheckSets()
		})
	}
}

// The script has the same bucket as limit.Bucket.
func TestSettle_GivesTheTokensOfTheBucket(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := anyTask
	l, rule := w.Leader(ref), limit.Rule{Rate: 5, Per: time.Hour, Burst: 7}
	var got, want []int
	bucket, version := limit.Bucket{}, 0
	for _, tokens := range []int{3, 2, 0, 5, 1} {
		version++
		ask := limit.Ask{Limit: "all", Version: version, Have: 10, Tokens: tokens, Rule: rule}
		ask.Rule.Slots = 100
		answers, err := l.Settle(w.Ctx, w.Partitions.HomeOf("all"), []limit.Ask{ask})
		testkit.Must(t, err)
		again, err := l.Settle(w.Ctx, w.Partitions.HomeOf("all"), []limit.Ask{ask})
		testkit.Must(t, err)
		if again[0].Tokens != answers[0].Tokens {
			t.Errorf("a repeat has %d tokens, the call had %d", again[0].Tokens, answers[0].Tokens)
		}
		took, next := bucket.Take(rule, time.Now(), tokens)
		got, want = append(got, answers[0].Tokens), append(want, took)
		if until := time.Until(next); !next.IsZero() && (until-answers[0].Next).Abs() > 5*time.Second {
			t.Errorf("the next token comes in %s, want %s", answers[0].Next, until)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// Go and Lua say alike which limits a task has: those that a claim notes are those that the planner plans with.
func TestClaim_SeesTheLimitsThatTheTableHas(t *testing.T) {
	t.Parallel()
	rules := map[string]limit.Rule{
		"key:a*": {Slots: 1}, "key:b": {Slots: 1}, "type:ht*": {Slots: 1}, "queue:mails": {Slots: 1}, "queue:m*": {Slots: 1},
		"namespace:*": {Slots: 1}, "all": {Slots: 1},
	}
	for i, c := range []task.Definition{
		{LimitKey: "b,a1"}, {LimitKey: "ab,a1,c"}, {LimitKey: "c"}, {Type: "shell"}, {Queue: "mails"},
		{Queue: "mx", LimitKey: "b"},
		{FairKey: "k", LimitKey: "a", Priority: 3}, {Ref: task.Ref{Namespace: "team"}},
	} {
		w := storetest.New(t)
		c.Ref.Namespace = stdcmp.Or(c.Ref.Namespace, task.DefaultNamespace)
		c.Ref.ID = fmt.Sprint("t", i)
		made := w.Create(c)
		d := newDesk(t, w, c.Ref, rules)
		grant := storetest.Quotas
		grant.Limits = d.table
		_, err := d.Claim(w.Ctx, 100, grant, time.Second)
		testkit.Must(t, err)
		want := d.table.Of(limit.Subject{
			Keys: made.LimitKeys(), Type: made.Type, Queue: made.Queue, Namespace: made.Namespace,
		})
		if diff := cmp.Diff(want, w.Get(c.Ref).Limits); diff != "" {
			t.Errorf("%+v (-table +claim):\n%s", c, diff)
		}
	}
}

// While what a claim needs of a limit is damaged, its tasks wait and others are claimed. A value that cannot be read is
// counted anew.
func TestClaim_GoesOnPastDamagedSlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(pipe redis.Pipeliner, k lua.Partition)
		mended bool // the tasks of the limit go on, too
	}{
		"the caps are a string": {func(pipe redis.Pipeliner, k lua.Partition) { spoil(pipe, string(k.Caps())) }, false},
		"the holders are a string": {func(pipe redis.Pipeliner, k lua.Partition) {
			spoil(pipe, string(k.Holds("key:a")))
		}, false},
		"a cap is garbage": {func(pipe redis.Pipeliner, k lua.Partition) {
			pipe.HSet(t.Context(), string(k.Caps()), "key:a", "garbage")
		}, true},
		"the newest version is garbage": {func(pipe redis.Pipeliner, k lua.Partition) {
			pipe.HSet(t.Context(), string(k.Caps()), partition.NewestCap, "garbage")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			create := func(id, key string) task.Ref {
				return w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, id), LimitKey: key}).Ref
			}
			first := create("first", "a")
			d := newDesk(t, w, first, map[string]limit.Rule{"key:*": {Slots: 2}})
			d.take(1, "key:a")
			limited, free := create("limited", "a"), create("free", "")
			needs := []limit.Need{{Limits: []string{"key:a"}, Waiting: 1}}
			d.ask(needs)
			pipe := w.DB.TxPipeline()
			c.damage(pipe, w.KeysOf(first))
			_, err := pipe.Exec(w.Ctx)
			testkit.Must(t, err)
			claimed := d.claim(laneUnder(needs[0].Limits...), 1, needs)
			if w.Get(free).State != task.Queued {
				t.Errorf("the task without a limit is %s", w.Get(free).State)
			}
			if n := len(claimed.Slots); n != 1 {
				t.Errorf("the leader hears of %d limits, want 1", n)
			}
			if !c.mended {
				if room := d.book.Room([]string{"key:a"}, 1, d.table, time.Now()); room > 0 {
					t.Errorf("the leader takes %d slots for free", room)
				}
				testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(first).Caps()), string(w.KeysOf(first).Holds("key:a"))).Err())
				d.book.Forget()
				d.book.Read(nil)
			}
			d.take(1, "key:a")
			if got := w.Get(limited).State; got != task.Queued {
				t.Errorf("at the end, the task with the limit is %s", got)
			}
		})
	}
}

// A limit whose holders cannot be counted keeps its cap, and others are counted.
func TestRecount_GoesOnPastADamagedKey(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	first := w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, "first"), LimitKey: "a,b"}).Ref
	d := newDesk(t, w, first, map[string]limit.Rule{"key:*": {Slots: 2}})
	d.take(1, "key:a", "key:b")
	testkit.Must(t, w.DB.Set(w.Ctx, string(w.KeysOf(first).Holds("key:a")), "garbage", 0).Err())
	caps, err := d.Recount(w.Ctx, []limit.Recount{{Limit: "key:a", Known: -1}, {Limit: "key:b", Known: -1}})
	testkit.Must(t, err)
	for _, c := range caps {
		if c.Cap != 1 {
			t.Errorf("the cap of %s is %d, want 1", c.Limit, c.Cap)
		}
	}
}

// Of a limit whose use is damaged at its home, nothing is granted; others of that home are.
func TestSettle_GoesOnPastADamagedKey(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := newDesk(t, w, w.NameIn(0, task.DefaultNamespace, "first"), nil)
	rule := limit.Rule{Slots: 2, Rate: 1, Per: time.Hour}
	testkit.Must(t, w.DB.Set(w.Ctx, string(w.Keys.Partition(0).Use("key:a")), "garbage", 0).Err())
	answers, err := d.Settle(w.Ctx, 0, []limit.Ask{
		{Limit: "key:a", Version: 1, Have: 1, Want: 1, Tokens: 1, Rule: rule},
		{Limit: "key:b", Version: 1, Have: 1, Want: 1, Tokens: 1, Rule: rule},
	})
	testkit.Must(t, err)
	if a, b := answers[0], answers[1]; a.Count != 1 || a.Tokens != 0 || b.Count != 2 || b.Tokens != 1 {
		t.Errorf("granted %+v and %+v", a, b)
	}
}

// spoil makes a key a string.
func spoil(pipe redis.Pipeliner, key string) {
	pipe.Del(context.Background(), key)
	pipe.Set(context.Background(), key, "garbage", 0)
}

// A task of the cost 3 is three holders of each of its limits, which its end frees together. No task takes what is too
// little for it.
func TestClaim_TakesAsManySlotsAsATaskCosts(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	first := w.NameIn(0, task.DefaultNamespace, "first")
	for i := range 3 {
		w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, fmt.Sprint("a", i)), LimitKey: "a", Cost: 3})
	}
	d := newDesk(t, w, first, map[string]limit.Rule{"key:*": {Slots: 7}, "all": {Rate: 9, Per: time.Hour}})
	claimed := d.take(3, "3", "key:a", "all")
	if n := len(claimed.Deliveries); n != 2 {
		t.Fatalf("%d tasks were claimed, want 2 with 7 slots and 9 tokens", n)
	}
	one, two := claimed.Deliveries[0].Ref, claimed.Deliveries[1].Ref
	if one.ID > two.ID {
		one, two = two, one
	}
	var want []string
	for _, ref := range []task.Ref{one, two} {
		want = append(want, ref.String(), ref.String()+" 2", ref.String()+" 3")
	}
	for _, name := range []string{"key:a", "all"} {
		if diff := cmp.Diff(want, d.holders(first, name)); diff != "" {
			t.Errorf("holders of %s (-want +got):\n%s", name, diff)
		}
	}
	if n := claimed.Numbers[laneUnder("3", "key:a", "all")]; n != 1 {
		t.Errorf("%d tasks wait in the lane of the cost, want 1: %v", n, claimed.Backlog)
	}
	testkit.Must(t, d.begin(one).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	if n := len(d.holders(first, "key:a")); n != 3 {
		t.Errorf("%v hold slots after one of two tasks has ended", d.holders(first, "key:a"))
	}
	w.CheckSets()
}

// The home grants what is enough for a task or nothing, and keeps it for the partition that has waited longest. So it
// does with tokens.
func TestSettle_KeepsWhatATaskNeeds(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	rule := limit.Rule{Slots: 5, Rate: 5, Per: time.Hour}
	settle := func(in task.Ref, a limit.Ask) limit.Answer {
		a.Limit, a.Rule = "all", rule
		answers, err := w.Leader(in).Settle(w.Ctx, w.Partitions.HomeOf("all"), []limit.Ask{a})
		testkit.Must(t, err)
		return answers[0]
	}
	one, other := w.NameIn(0, task.DefaultNamespace, "a"), w.NameIn(1, task.DefaultNamespace, "b")
	got := []limit.Answer{
		settle(one, limit.Ask{Version: 1, Have: 2, Tokens: 3, LeastTokens: 1}),
		settle(other, limit.Ask{Version: 1, Want: 5, Least: 5, Tokens: 5, LeastTokens: 5}), // too little is free of both
		settle(one, limit.Ask{Version: 2, Have: 2, Want: 1, Least: 1, Tokens: 1, LeastTokens: 1}),
		settle(one, limit.Ask{Version: 3}), // it gives back what it has, and wants nothing
		settle(other, limit.Ask{Version: 1, Want: 5, Least: 5}),
		settle(one, limit.Ask{Version: 3, Tokens: 1, LeastTokens: 1}),
	}
	for i, want := range []limit.Answer{
		{Count: 2, Tokens: 3}, {}, {Count: 2, Wanted: true}, {Wanted: true}, {Count: 5}, {Tokens: 1},
	} {
		if got[i].Count != want.Count || got[i].Tokens != want.Tokens || got[i].Wanted != want.Wanted {
			t.Errorf("answer %d is %+v, want %+v", i+1, got[i], want)
		}
	}
}

// The home forgets a limit soon after nothing of it is in use, but not while its bucket is not full.
func TestSettle_ForgetsWhatNobodyUses(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := newDesk(t, w, anyTask, nil)
	home := d.w.Partitions.HomeOf("key:a")
	for version, c := range []struct {
		have, tokens int
		rate         int
		least, most  time.Duration
	}{
		{1, 0, 0, -1, -1}, {0, 0, 0, time.Minute, 5 * time.Minute}, {0, 1, 1, 59 * time.Minute, time.Hour},
	} {
		a := limit.Ask{
			Limit: "key:a", Version: version + 1, Have: c.have, Tokens: c.tokens,
			Rule: limit.Rule{Slots: 5, Rate: c.rate, Per: time.Hour},
		}
		_, err := d.Settle(w.Ctx, home, []limit.Ask{a})
		testkit.Must(t, err)
		left, err := w.DB.PTTL(w.Ctx, string(w.Layout.Keys.Partition(home).Use("key:a"))).Result()
		testkit.Must(t, err)
		if left < c.least || left > c.most {
			t.Errorf("after %+v, it expires in %s, want %s to %s", a, left, c.least, c.most)
		}
	}
}
