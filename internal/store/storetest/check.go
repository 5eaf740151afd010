package storetest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// CheckSets compares the sorted sets of all partitions with the tasks' states: every task is in the set
// of its state and in no other, every running one is leased that is no run of a workflow, every finished one waits to
// be forgotten, and checkpoints are of tasks that have not succeeded.
func (w *World) CheckSets() {
	w.t.Helper()
	for p := range w.Partitions.Count() {
		k := w.Keys.Partition(p)
		defs := w.DB.HGetAll(w.Ctx, string(k.Defs())).Val()
		listed := w.listedStates(k, namespacesOf(defs))
		finished := 0
		states := w.DB.HGetAll(w.Ctx, string(k.States())).Val()
		flows := map[string]bool{}
		w.checkCheckpoints(k, defs, states)
		for member := range defs {
			first, _, _ := strings.Cut(states[member], " ")
			state := cmp.Or(task.State(first), task.Scheduled)
			flows[member] = strings.Contains(states[member], " "+task.FlowRun)
			delete(states, member)
			if listed[member] != state {
				w.t.Errorf("%s is %s, but listed as %q", member, state, listed[member])
			}
			if state.Final() {
				finished++
			}
			delete(listed, member)
		}
		running := w.DB.ZRange(w.Ctx, string(k.Running()), 0, -1).Val()
		running = slices.DeleteFunc(running, func(member string) bool { return flows[member] })
		held := w.DB.ZRange(w.Ctx, string(k.Held()), 0, -1).Val()
		if slices.Sort(running); !slices.Equal(running, slices.Sorted(slices.Values(held))) {
			w.t.Errorf("running are %v, leased are %v", running, held)
		}
		if len(states) > 0 {
			w.t.Errorf("states without a task: %v", states)
		}
		if len(listed) > 0 {
			w.t.Errorf("listed, but without a task: %v", listed)
		}
		if n := int(w.DB.ZCard(w.Ctx, string(k.Expiry())).Val()); n != finished {
			w.t.Errorf("%d tasks wait to be forgotten, %d have ended", n, finished)
		}
	}
}

// checkCheckpoints compares the checkpoints of a partition with its tasks.
func (w *World) checkCheckpoints(k lua.Partition, defs, states map[string]string) {
	w.t.Helper()
	for member := range w.DB.HGetAll(w.Ctx, string(k.Checkpoints())).Val() {
		if defs[member] == "" || strings.HasPrefix(states[member], string(task.Succeeded)) {
			w.t.Errorf("a checkpoint is left of %s, whose state is %q", member, states[member])
		}
	}
}

// namespacesOf are the namespaces of tasks, and default.
func namespacesOf(tasks map[string]string) []string {
	namespaces := map[string]bool{"default": true}
	for member := range tasks {
		namespace, _, _ := strings.Cut(member, ":")
		namespaces[namespace] = true
	}
	return slices.Collect(maps.Keys(namespaces))
}

// listedStates are the tasks in the sorted sets of a partition, with the state that their set stands for.
func (w *World) listedStates(k lua.Partition, namespaces []string) map[string]task.State {
	w.t.Helper()
	sets := map[string]task.State{
		string(k.Wheel()): task.Scheduled, string(k.Queued()): task.Queued, string(k.Running()): task.Running,
	}
	for _, namespace := range namespaces {
		for _, state := range []task.State{task.Succeeded, task.Failed, task.Cancelled} {
			sets[string(k.Index(namespace, state))] = state
		}
	}
	backlog := w.DB.SMembers(w.Ctx, string(k.Backlog())).Val()
	for _, queue := range backlog {
		sets[string(k.Ready(queue))] = task.Scheduled
	}
	members := w.membersOf(slices.Collect(maps.Keys(sets)))
	for _, queue := range backlog {
		if len(members[string(k.Ready(queue))]) == 0 {
			w.t.Errorf("queue or lane %s is on the list of those with a backlog, and has none", queue)
		}
	}
	listed := map[string]task.State{}
	for set, state := range sets {
		for _, member := range members[set] {
			if other, twice := listed[member]; twice {
				w.t.Errorf("%s is listed as %s and as %s", member, other, state)
			}
			listed[member] = state
		}
	}
	return listed
}

// membersOf reads sorted sets, all at once: there may be hundreds of lanes.
func (w *World) membersOf(sets []string) map[string][]string {
	w.t.Helper()
	pipe := w.DB.Pipeline()
	reads := make(map[string]*redis.StringSliceCmd, len(sets))
	for _, set := range sets {
		reads[set] = pipe.ZRange(w.Ctx, set, 0, -1)
	}
	_, err := pipe.Exec(w.Ctx)
	testkit.Must(w.t, err)
	members := make(map[string][]string, len(sets))
	for set, read := range reads {
		members[set] = read.Val()
	}
	return members
}
