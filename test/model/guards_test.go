package model

import (
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// withoutGuards are what the search has to find when a guard is missing.
var withoutGuards = []struct {
	guard  Guard
	size   Size
	broken Promise
}{
	{CreateOnce, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, OneTask},
	{CreateRemembered, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Forgets: true}, BegunOnce},
	{ForgetEnded, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Forgets: true}, Kept},
	{ForgetOwing, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Forgets: true, Follow: true}, Followed},
	{RetryEnded, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Retries: true}, Held},
	{RetrySameEnd, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Copies: true, Retries: true}, Final},
	{ClaimFence, Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1}, Fenced},
	{ClaimDue, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, Early},
	{LookFence, Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1}, Fenced},
	{LookAtRuns, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, Ends},
	{LookAtDeliveries, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, Ends},
	{TakeBackFence, Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Backlog: true}, Fenced},
	{TakeBackQueued, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Backlog: true, Copies: true}, BegunOnce},
	{ReapFence, Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1}, Fenced},
	{ReapLease, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, Held},
	{ReapToken, Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1}, Heard},
	{Limit, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, Limited},
	{EnqueueOnce, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, OneHolder},
	{EnqueueListed, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Deletes: true}, Ends},
	{BeginAttempt, Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 2}, BegunOnce},
	{BeginRun, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 2}, BegunOnce},
	{ExtendRun, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 2, Lag: 3}, Heard},
	{FinishRun, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 2, Lag: 3}, Heard},
	{ReclaimAttempt, Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1}, Heard},
	{ReclaimTask, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5}, Heard},
	{EndBeforeTask, Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 2, Lag: 10, Early: true}, Heard},
	{RestoreLost, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5}, OneTask},
	{FireExisting, Size{Ticks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5}, Recorded},
	{FireFence, Size{Ticks: 1, Attempts: 1, Leaders: 2, Workers: 1}, Fenced},
	{FireCursor, Size{Ticks: 2, Attempts: 1, Leaders: 1, Workers: 1, Copies: true}, Recorded},
	{WakeSchedule, Size{Ticks: 2, Attempts: 1, Leaders: 1, Workers: 1, Overlap: Queue}, Ends},
	{Tending, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1}, Ends},
	{EndOwes, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Follow: true}, Followed},
	{ClaimMarks, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Follow: true}, Followed},
	{RestoreMarks, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5, Follow: true}, Followed},
	{FollowFence, Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Follow: true}, Fenced},
	{FollowListed, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 1, Follow: true}, Followed},
	{FollowEarlier, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Retries: true, Follow: true}, Ends},
	{FollowMissed, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Lag: 2, Follow: true}, Followed},
	{FollowExisting, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 1, Follow: true}, OneTask},
	{FollowSettles, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Follow: true}, Ends},
	{FollowSameEnd, Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Retries: true, Follow: true}, Followed},
	{EndOwes, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1}, Followed},
	{AdvanceFence, Size{Steps: 1, Attempts: 1, Leaders: 2, Workers: 1}, Fenced},
	{AdvanceCursor, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Copies: true}, Final},
	{AdvanceStates, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 1}, Agreed},
	{AdvanceStates, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 1}, Followed},
	{AdvanceAttempts, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Lag: 2}, Agreed},
	{AdvanceRuns, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 1}, Agreed},
	{AdvanceOwn, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true}, Kept},
	{AdvanceAsked, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Signals: true}, Kept},
	{AdvanceTakes, Size{Steps: 2, Attempts: 1, Leaders: 1, Workers: 1, Apart: true}, Followed},
	{AdvanceFrees, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1}, Ends},
	{ReleaseExisting, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5}, OneTask},
	{ReleaseTells, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5}, Followed},
	{CancelAttempt, Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Retries: true}, Asked},
}

// besides are guards without which a run of less than three steps does not need another one.
var besides = map[Guard]Guard{AdvanceCursor: AdvanceOwn}

// A search that finds nothing could be blind. So each guard is taken away, and the search must find which promise it is for.
func TestModel_NeedsEveryGuard(t *testing.T) {
	t.Parallel()
	for _, c := range withoutGuards {
		if c.size.Early && !testkit.Long() {
			continue // it is as large as all the others together
		}
		r := (&Model{Size: c.size, Without: c.guard, Besides: besides[c.guard]}).Explore(c.broken)
		trace, found := r.Broken[c.broken]
		if !found {
			t.Errorf("without the guard that %s, %d states keep the promise: %s", c.guard, r.States, c.broken)
			continue
		}
		t.Logf("%s. Without that guard it does not hold that %s:\n%s", c.guard, c.broken, trace)
	}
}
