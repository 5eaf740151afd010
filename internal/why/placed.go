package why

import (
	"fmt"
	"slices"

	"github.com/dts-sched/dts/internal/task"
)

// placed is what a queued task waits for that was handed over to one node alone. What that node does not begin soon,
// its leader takes back, and hands over anew.
func (f TaskFacts) placed() []Reason {
	i := slices.IndexFunc(f.Workers, func(w Worker) bool { return w.ID == f.Task.Placed })
	text, needsLeader := f.atNode(), f.Blocked != nil || f.Place == Nowhere
	var all []Reason
	switch {
	case f.FleetUnknown:
	case i < 0 || !f.Workers[i].takes(f.Queue):
		text += f.leaves(i) + " Its leader takes it back, and hands it over anew."
		all, needsLeader = join(f.attended(), f.unmatched()), true
	default:
		node := f.Workers[i]
		text += fmt.Sprintf(" That node lives. Its free slots: %d of %d.", f.free(node), node.Capacity)
		all = join(f.nodePaused(), f.nodeFull(node))
	}
	if needsLeader {
		all = join(f.handOver(), all)
	}
	if !f.LookAt.IsZero() {
		text += fmt.Sprintf(" The leader looks after it at %s.", moment(f.LookAt))
	}
	if len(all) == 0 {
		return []Reason{{
			Code: Delivery, Since: f.Task.QueuedAt, Ahead: f.Ahead, Detail: text, Do: "Wait: nothing holds it up.",
		}}
	}
	all[0].Detail += " " + text
	return all
}

// atNode says on which node the task waits, and how many go first there.
func (f TaskFacts) atNode() string {
	node, name := f.Task.Placed, task.NodeQueue(f.Queue, f.Task.Placed)
	if f.Place == Nowhere {
		return fmt.Sprintf("Its leader has given it to the node %s, and is about to put it into the queue %s.", node, name)
	}
	text := fmt.Sprintf("It waits on the node %s, in the queue %s", node, name)
	switch {
	case f.Ahead == nil:
	case *f.Ahead == 0:
		text += ", where it is the next one"
	default:
		text += fmt.Sprintf(", where %s ahead of it", tasksAre(*f.Ahead))
	}
	return text + "."
}

// leaves says why the node at that place among the workers takes nothing more from the queue.
func (f TaskFacts) leaves(i int) string {
	if i < 0 {
		return " That node is on the list no more."
	}
	switch w := f.Workers[i]; {
	case !w.Alive:
		return fmt.Sprintf(" That node is dead: its newest heartbeat is of %s.", moment(w.LastBeat))
	case w.Draining:
		return " That node is shutting down."
	case w.Cordon != nil:
		return fmt.Sprintf(" That node is cordoned%s.", w.Cordon.why())
	}
	return " That node serves its queue no more."
}

// nodePaused returns whether somebody has paused the queue that the node has for itself. Only asynq's tools can.
func (f TaskFacts) nodePaused() []Reason {
	if !f.Paused {
		return nil
	}
	return []Reason{pausedAt(task.NodeQueue(f.Queue, f.Task.Placed), f.PausedAt)}
}

// nodeFull returns whether the node has too few free slots.
func (f TaskFacts) nodeFull(node Worker) []Reason {
	if gathered := f.gathered(); gathered != nil {
		return gathered
	}
	if f.free(node) > 0 {
		return nil
	}
	return []Reason{{
		Code: NodeFull, Since: f.Task.QueuedAt, Ahead: f.Ahead,
		Detail: fmt.Sprintf("No slot of its node is free: %s.", f.slots([]Worker{node})),
		Do: "Wait: if no task there ends soon, its leader takes it back, and hands it over anew. " +
			"See what runs: dtsctl task list -A --state running.",
	}}
}

// free is how many slots of a node are free.
func (f TaskFacts) free(w Worker) int { return max(w.Capacity-f.taken(w), 0) }
