package limits

import "testing"

// withoutGuards are what the search has to find when a guard is missing.
var withoutGuards = []struct {
	guard  Guard
	size   Size
	broken Promise
}{
	{CapInRedis, Size{Partitions: 2, Tasks: 2, Limits: 1, Slots: 1, Copies: true}, Within},
	{CapVersion, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Copies: true}, Within},
	{CapVersion, Size{Partitions: 1, Tasks: 2, Limits: 1, Slots: 1, Burst: 1, Copies: true}, Paced},
	{CapFirst, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Copies: true}, Within},
	{RecountMints, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1}, Finishes},
	{RecountFirst, Size{
		Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Lag: 2, Loses: ThePartition, Prompt: true,
	}, Within},
	{RecountFirst, Size{
		Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Lag: 2, Loses: TheHome, Prompt: true,
	}, Within},
	{RecountFence, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Expires: true, Stale: 1}, Guarded},
	{ClaimFence, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Expires: true, Stale: 1}, Guarded},
	{HoldWithClaim, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1}, Within},
	{FreeWithEnd, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1}, Finishes},
	{HomeVersion, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Copies: true}, Within},
	{HomeVersion, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Expires: true, Stale: 1}, Within},
	{RepeatKeeps, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Copies: true}, Within},
	{TokensOnce, Size{Partitions: 1, Tasks: 2, Limits: 1, Slots: 1, Burst: 2}, Once},
	{InLine, Size{Partitions: 3, Tasks: 1, Limits: 1, Slots: 1}, InTurn},
	{InLine, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Fair: true}, Served},
	{EndOfLine, Size{Partitions: 2, Tasks: 2, Limits: 1, Slots: 1, Again: true, Lives: true, Fair: true}, Served},
	{WholeTask, Size{
		Partitions: 2, Tasks: 2, Limits: 1, Slots: 2, Costs: [3]uint8{2, 1}, Again: true, Lives: true, Fair: true,
	}, Served},
	{WholeStart, Size{
		Partitions: 2, Tasks: 1, Limits: 1, Slots: 3, Costs: [3]uint8{2, 1}, Burst: 2, Again: true, Lives: true, Fair: true,
	}, Served},
	{LineFades, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Silent: true}, Finishes},
	{GiveBack, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1}, Finishes},
	{AskAgain, Size{Partitions: 2, Tasks: 2, Limits: 1, Slots: 1, Again: true}, InTurn},
	{AskAgain, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Fair: true}, Served},
	{KeepGrant, Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lives: true, Fair: true}, Served},
	{KeepGrant, Size{Partitions: 2, Tasks: 1, Limits: 2, Slots: 1, Lives: true, Fair: true}, Served},
	{InOrder, Size{Partitions: 2, Tasks: 1, Limits: 2, Slots: 1, Lives: true}, Finishes},
}

// A search that finds nothing could be blind. So each guard is taken away, and the search must find which promise it is
// for.
func TestModel_NeedsEveryGuard(t *testing.T) {
	t.Parallel()
	named := map[Guard]bool{}
	for _, c := range withoutGuards {
		named[c.guard] = true
		r := (&Model{Size: c.size, Without: c.guard}).Explore(c.broken)
		trace, found := r.Broken[c.broken]
		if !found {
			t.Errorf("without the guard that %s, %d states keep the promise: %s", c.guard, r.States, c.broken)
			continue
		}
		t.Logf("%s. Without that guard it does not hold that %s:\n%s", c.guard, c.broken, trace)
	}
	for g := None + 1; g < numGuards; g++ {
		if !named[g] {
			t.Errorf("no row takes away the guard that %s", g)
		}
	}
}
