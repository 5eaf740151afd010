package partition_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// child is the follow-up of the tests.
func child(when task.When) *task.FollowUp {
	return &task.FollowUp{When: when, Task: task.Definition{Type: "mail", Queue: "mails"}}
}

// followed is the world with a task that has a follow-up.
type followed struct {
	*storetest.World
	t   *testing.T
	ref task.Ref
}

func newFollowed(t *testing.T, d task.Definition) *followed {
	t.Helper()
	f := &followed{World: storetest.New(t), t: t, ref: task.Ref{Namespace: task.DefaultNamespace, ID: "order"}}
	d.Ref = f.ref
	f.Create(d)
	return f
}

// follow has the leader follow up, and returns the names of the tasks that it creates.
func (f *followed) follow() (created []string) {
	f.t.Helper()
	done, err := f.Leader(f.ref).Follow(f.Ctx, 10)
	testkit.Must(f.t, err)
	for _, ref := range done.Created {
		created = append(created, ref.ID)
	}
	return created
}

// outbox is what the outbox has.
func (f *followed) outbox() []string {
	f.t.Helper()
	entries, err := f.DB.ZRange(f.Ctx, string(f.KeysOf(f.ref).Outbox()), 0, -1).Result()
	testkit.Must(f.t, err)
	return entries
}

func (f *followed) finish(to task.State, o task.Outcome, result, reason string) {
	f.t.Helper()
	testkit.Must(f.t, f.Begin(f.ref).Finish(f.Ctx, to, o, result, reason))
}

// Whatever ends a task owes its follow-up, which is created once, after the ends that it names.
func TestFollow_CreatesATaskOnceForEachEnd(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		end    func(f *followed)
		parent task.Parent
	}{
		"succeeded": {
			func(f *followed) { f.finish(task.Succeeded, task.OutcomeSucceeded, `{"n":1}`, "") },
			task.Parent{Attempt: 1, State: task.Succeeded, Result: `{"n":1}`},
		},
		"failed": {
			func(f *followed) { f.finish(task.Failed, task.OutcomeFailed, "", "boom") },
			task.Parent{Attempt: 1, State: task.Failed, Error: "boom"},
		},
		"failed again": {
			func(f *followed) {
				f.finish(task.Scheduled, task.OutcomeFailed, "", "once")
				wheel := string(f.KeysOf(f.ref).Wheel())
				testkit.Must(f.t, f.DB.ZAdd(f.Ctx, wheel, redis.Z{Score: 1, Member: f.ref.String()}).Err())
				f.finish(task.Failed, task.OutcomeFailed, "", "twice")
			},
			task.Parent{Attempt: 2, State: task.Failed, Error: "twice"},
		},
		"lost": {
			func(f *followed) {
				run := f.Begin(f.ref)
				f.Lapse(f.ref)
				testkit.Must(f.t, f.Leader(f.ref).Reap(f.Ctx, run.Task, time.Now(), time.UnixMilli(1), partition.Loss{
					Reason: "its worker died",
				}))
			},
			task.Parent{Attempt: 1, State: task.Failed, Error: "its worker died"},
		},
		"cancelled while it waits": {
			func(f *followed) { f.cancel() },
			task.Parent{State: task.Cancelled, Error: "cancelled by ann"},
		},
		"cancelled in its queue": {
			func(f *followed) {
				f.Claim(f.ref)
				f.cancel()
			},
			task.Parent{Attempt: 1, State: task.Cancelled, Error: "cancelled by ann"},
		},
		"cancelled while it runs": {
			func(f *followed) {
				run := f.Begin(f.ref)
				f.cancel()
				testkit.Must(f.t, run.Finish(f.Ctx, task.Cancelled, task.OutcomeCancelled, "", "stopped"))
			},
			task.Parent{Attempt: 1, State: task.Cancelled, Error: "asked to stop by ann: stopped"},
		},
	}
	for name, c := range ends {
		for _, when := range task.Whens {
			t.Run(name+", "+string(when), func(t *testing.T) {
				t.Parallel()
				f := newFollowed(t, task.Definition{
					Owner: "shop", Labels: map[string]string{"order": "1"}, Retry: task.Retry{MaxAttempts: 1}, OnEnd: child(when),
				})
				c.end(f)
				want := c.parent
				want.Namespace, want.ID = f.ref.Namespace, f.ref.ID
				name := f.ref.FollowUp(want.Attempt)
				var created []string
				if when == task.WhenEnded || string(when) == string(want.State) {
					created = []string{name.ID}
				}
				if diff := cmp.Diff(created, f.follow()); diff != "" {
					t.Fatalf("created (-want +got):\n%s", diff)
				}
				if again, left := f.follow(), f.outbox(); again != nil || len(left) > 0 {
					t.Errorf("a second look creates %v; the outbox has %q", again, left)
				}
				if created == nil {
					return
				}
				got := f.Get(name)
				var payload task.Parent
				testkit.Must(t, json.Unmarshal(got.Payload, &payload))
				if diff := cmp.Diff(want, *got.Parent); diff != "" || payload != want {
					t.Errorf("the follow-up has the payload %+v, and the parent (-want +got):\n%s", payload, diff)
				}
				if got.Type != "mail" || got.Queue != "mails" || got.Owner != "shop" || got.Labels["order"] != "1" {
					t.Errorf("the follow-up is %+v", got.Definition)
				}
			})
		}
	}
}

func (f *followed) cancel() {
	f.t.Helper()
	_, err := f.Tasks.Cancel(f.Ctx, f.ref, "ann")
	testkit.Must(f.t, err)
}

// A task that is retried by hand ends again, with another attempt, and another task follows.
func TestFollow_CreatesAnotherTaskAfterARetry(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{OnEnd: child(task.WhenEnded)})
	f.finish(task.Failed, task.OutcomeFailed, "", "boom")
	_, err := f.Tasks.Retry(f.Ctx, f.ref) // before the leader has followed up
	testkit.Must(t, err)
	f.finish(task.Succeeded, task.OutcomeSucceeded, "done", "")
	if got, want := f.follow(), []string{"order@e1", "order@e2"}; !slices.Equal(got, want) {
		t.Errorf("created %q, want %q", got, want)
	}
	first, second := f.Get(f.ref.FollowUp(1)).Parent, f.Get(f.ref.FollowUp(2)).Parent
	if first.State != task.Failed || first.Error != "" || second.State != task.Succeeded || second.Result != "done" {
		t.Errorf("the parents are %+v and %+v", first, second)
	}
}

// Redis has lost an end and what followed it. Workers restore both, and the follow-up is deleted before the leader
// follows up again.
func TestFollow_CreatesNothingThatWasDeletedAMomentAgo(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{OnEnd: child(task.WhenEnded)})
	f.finish(task.Succeeded, task.OutcomeSucceeded, "done", "")
	owed := f.outbox()[0]
	f.follow()
	next := f.ref.FollowUp(1)
	_, err := f.Tasks.Cancel(f.Ctx, next, "")
	testkit.Must(t, err)
	_, err = f.Tasks.Forget(f.Ctx, next, f.Get(next).FinishedAt, tasks.Forgetting{Remember: time.Hour, Names: 1000})
	testkit.Must(t, err)
	testkit.Must(t, f.DB.ZAdd(f.Ctx, string(f.KeysOf(f.ref).Outbox()), redis.Z{Score: 1, Member: owed}).Err())
	if got := f.follow(); len(got) > 0 || len(f.outbox()) > 0 {
		t.Errorf("it created %q; the outbox has %q", got, f.outbox())
	}
}

// A retried task that is cancelled before its next attempt ends with the attempt before. One task follows both ends.
func TestFollow_CreatesATaskOnceForEachAttempt(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{OnEnd: child(task.WhenEnded)})
	f.finish(task.Failed, task.OutcomeFailed, "", "boom")
	f.follow()
	_, err := f.Tasks.Retry(f.Ctx, f.ref)
	testkit.Must(t, err)
	f.cancel()
	owed := []string{"end default:order 1 cancelled"}
	if left := f.outbox(); !slices.Equal(left, owed) {
		t.Errorf("the outbox has %q, want %q", left, owed)
	}
	if created, left := f.follow(), f.outbox(); created != nil || len(left) > 0 {
		t.Errorf("created %q; the outbox has %q", created, left)
	}
	if p := f.Get(f.ref.FollowUp(1)).Parent; p.State != task.Failed || p.Error != "boom" {
		t.Errorf("the parent is %+v", p)
	}
}

// The delay of a follow-up begins with the end, and it can have one of its own.
func TestFollow_CountsTheDelayFromTheEnd(t *testing.T) {
	t.Parallel()
	next := child(task.WhenSucceeded)
	next.Task.Delay, next.Task.Payload = time.Hour, json.RawMessage(`{"to":"ops"}`)
	next.Task.OnEnd = child(task.WhenFailed)
	f := newFollowed(t, task.Definition{OnEnd: next})
	f.finish(task.Succeeded, task.OutcomeSucceeded, "", "")
	f.follow()
	got := f.Get(f.ref.FollowUp(1))
	wait := got.DueAt.Sub(f.Get(f.ref).FinishedAt)
	if wait != time.Hour || string(got.Payload) != `{"to":"ops"}` || got.OnEnd == nil {
		t.Errorf("it is due %s after the end, with the payload %s and the follow-up %+v", wait, got.Payload, got.OnEnd)
	}
}

// Neither the end of its retention nor a command deletes a task before its follow-up is there.
func TestFollow_ComesBeforeTheTaskIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{Retention: time.Millisecond, OnEnd: child(task.WhenEnded)})
	f.finish(task.Succeeded, task.OutcomeSucceeded, "done", "")
	testkit.Must(t, f.DB.Del(f.Ctx, string(f.KeysOf(f.ref).Outbox())).Err()) // as somebody might by hand
	sweep := func() int {
		t.Helper()
		swept, err := f.Leader(f.ref).Sweep(f.Ctx, partition.Keep{}, 10)
		testkit.Must(t, err)
		return swept.Deleted
	}
	if n := sweep(); n != 0 || len(f.outbox()) != 1 {
		t.Errorf("%d tasks were deleted; the outbox has %q", n, f.outbox())
	}
	f.follow()
	if n := sweep(); n != 1 || f.Get(f.ref.FollowUp(1)).Parent.Result != "done" {
		t.Errorf("%d tasks were deleted, want 1; the follow-up is %+v", n, f.Get(f.ref.FollowUp(1)))
	}
}

// What this release cannot read stays, and holds up nothing.
func TestFollow_LeavesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{OnEnd: child(task.WhenEnded)})
	key := string(f.KeysOf(f.ref).Outbox())
	testkit.Must(t, f.DB.ZAdd(f.Ctx, key, redis.Z{Score: 1, Member: "alarm default:x"}).Err())
	f.finish(task.Succeeded, task.OutcomeSucceeded, "", "")
	done, err := f.Leader(f.ref).Follow(f.Ctx, 10)
	testkit.Must(t, err)
	left := []string{"alarm default:x"}
	if len(done.Created) != 1 || !slices.Equal(done.Unread, left) || !slices.Equal(f.outbox(), left) {
		t.Errorf("followed %+v, and left %q", done, f.outbox())
	}
	again, err := f.Leader(f.ref).Follow(f.Ctx, 10)
	if err != nil || again.Unread != nil || !again.Next.After(again.Now) {
		t.Errorf("a second look: %+v, %v", again, err)
	}
}

// An end whose task is not there waits: a failover has lost both, and the same end may come again.
func TestFollow_LeavesTheEndOfAMissingTask(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{OnEnd: child(task.WhenEnded)})
	f.finish(task.Succeeded, task.OutcomeSucceeded, "", "")
	defs, member := string(f.KeysOf(f.ref).Defs()), f.ref.String()
	def := f.DB.HGet(f.Ctx, defs, member).Val()
	testkit.Must(t, f.DB.HDel(f.Ctx, defs, member).Err())
	done, err := f.Leader(f.ref).Follow(f.Ctx, 10)
	testkit.Must(t, err)
	if left := f.outbox(); len(left) != 1 || !slices.Equal(done.Missing, left) {
		t.Errorf("followed %+v, and left %q", done, left)
	}
	testkit.Must(t, f.DB.HSet(f.Ctx, defs, member, def).Err())
	entry := redis.Z{Score: 1, Member: done.Missing[0]} // a minute passes
	testkit.Must(t, f.DB.ZAdd(f.Ctx, string(f.KeysOf(f.ref).Outbox()), entry).Err())
	if created := f.follow(); len(created) != 1 {
		t.Errorf("created %q when the task is there again", created)
	}
}

// A leader whose lease is over follows up no more.
func TestFollow_NeedsTheLease(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{OnEnd: child(task.WhenEnded)})
	f.finish(task.Succeeded, task.OutcomeSucceeded, "", "")
	leasetest.Grant(t, f.DB, f.Partitions.LeaseKey(f.PartitionOf(f.ref)), "2:other", 0)
	if _, err := f.Leader(f.ref).Follow(f.Ctx, 10); err == nil || len(f.outbox()) != 1 {
		t.Errorf("error %v; the outbox has %q", err, f.outbox())
	}
}

// A task without a follow-up leaves no trace of them: neither a mark nor an entry.
func TestFollow_CostsNothingUnused(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{Payload: json.RawMessage(`{"on_end":1}`)})
	f.Claim(f.ref)
	state := f.DB.HGet(f.Ctx, string(f.KeysOf(f.ref).States()), f.ref.String()).Val()
	run, err := f.Tasks.Begin(f.Ctx, f.ref, 1, "node-a#1")
	testkit.Must(t, err)
	testkit.Must(t, run.Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	if left := f.outbox(); len(left) > 0 || state != "" && slices.Contains([]byte(state), '>') {
		t.Errorf("the outbox has %q; the state was %q", left, state)
	}
}
