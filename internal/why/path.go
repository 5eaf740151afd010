package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// handOver returns what keeps the partition's leader from handing tasks over.
func (p Path) handOver() []Reason {
	switch {
	case p.Blocked != nil:
		return []Reason{*p.Blocked}
	case p.LeaderUnknown || p.Leader != "":
		return nil
	}
	return []Reason{{
		Code:   NoLeader,
		Detail: fmt.Sprintf("No node leads partition %d, so nobody hands its tasks over.", p.Partition),
		Do: "Wait 15 s: another scheduler node takes over. If none does, start one: dtsd serve --roles scheduler. " +
			"See which nodes live: dtsctl node list.",
	}}
}

// attended returns what keeps the queue from having a worker for the type.
func (p Path) attended() []Reason {
	if p.FleetUnknown || p.Foreign != 0 || p.Queue == task.WorkflowQueue || p.CanRun(p.Type) { // leaders run workflows
		return nil
	}
	if p.CanRun("") {
		return []Reason{p.typeUnserved(p.Type, p.Setting)}
	}
	return []Reason{p.queueUnserved()}
}

// able returns the workers that can run the type.
func (p Path) able() []Worker {
	var able []Worker
	for _, w := range p.Workers {
		if w.takes(p.Queue) && w.runs(p.Type) {
			able = append(able, w)
		}
	}
	return able
}

// queueUnserved says that nobody serves the queue, and who did.
func (p Path) queueUnserved() Reason {
	r := Reason{
		Code:   QueueUnserved,
		Detail: fmt.Sprintf("No living node takes tasks from the queue %q.", p.Queue),
		Do:     fmt.Sprintf("Start a worker for it: dtsd serve --roles worker --queues %s=1.", p.Queue),
	}
	for _, w := range p.Workers {
		switch {
		case !w.serves(p.Queue):
		case w.Alive && w.Draining:
			r.Detail += fmt.Sprintf(" The node %s serves it, and is shutting down.", w.ID)
		case w.Alive && w.Cordon != nil:
			r.Detail += fmt.Sprintf(" The node %s serves it, and is cordoned%s.", w.ID, w.Cordon.why())
		case w.Alive:
			r.Detail += fmt.Sprintf(" The node %s serves it, and has no slots.", w.ID)
		case w.LastBeat.After(r.Since):
			r.Since = w.LastBeat
		}
	}
	if last := p.lastDead(r.Since); last != "" {
		r.Detail += fmt.Sprintf(" The last one was %s, whose newest heartbeat is of %s.", last, moment(r.Since))
	}
	if c := p.Cordoned(""); c != nil {
		r.Do = c.do()
	}
	return r
}

// why says who has cordoned a node, and why; "" if neither is known.
func (c Cordon) why() (text string) {
	if c.By != "" {
		text = " by " + c.By
	}
	if c.Note != "" {
		text += ": " + c.Note
	}
	return text
}

// do says what to do about a cordon.
func (c Cordon) do() string {
	return fmt.Sprintf("Uncordon %s (dtsctl node uncordon %s), or start another worker.", c.Of, c.Of)
}

// lastDead returns the dead node with that last heartbeat; "" if there is none.
func (p Path) lastDead(beat time.Time) string {
	for _, w := range p.Workers {
		if w.serves(p.Queue) && !w.Alive && !beat.IsZero() && w.LastBeat.Equal(beat) {
			return w.ID
		}
	}
	return ""
}

// typeUnserved says that nobody runs a type.
func (p Path) typeUnserved(taskType, setting string) Reason {
	r := Reason{Code: TypeUnserved, Do: fmt.Sprintf("Start a worker of the queue %q that runs the type.", p.Queue)}
	if setting != "" {
		r.Do = fmt.Sprintf("Start a worker that runs the type: dtsd serve --roles worker --queues %s=1 --%s.",
			p.Queue, setting)
	}
	r.Detail = fmt.Sprintf("No living node that serves the queue %q runs tasks of type %q.", p.Queue, taskType)
	if c := p.Cordoned(taskType); c != nil {
		r.Detail += fmt.Sprintf(" A node that runs them is cordoned%s.", c.why())
		r.Do = c.do()
	}
	return r
}

// paused returns whether the queue is paused.
func (p Path) paused() []Reason {
	if !p.Paused {
		return nil
	}
	detail := fmt.Sprintf("The queue %q is paused", p.Queue)
	if p.PausedBy != "" {
		detail += ", by " + p.PausedBy
	}
	if p.PauseNote != "" {
		detail += ": " + p.PauseNote
	}
	return []Reason{{
		Code: QueuePaused, Since: p.PausedAt, Detail: detail + ".",
		Do: fmt.Sprintf("Resume it: dtsctl queue resume %s.", p.Queue),
	}}
}

// pausedAt says that somebody has paused the queue that a node has for itself. Only asynq's tools can.
func pausedAt(name string, since time.Time) Reason {
	const text = "Somebody has paused the queue %s in one of asynq's tools, so its node takes nothing there."
	return Reason{
		Code: QueuePaused, Since: since, Detail: fmt.Sprintf(text, name),
		Do: "Resume it in asynq's web UI, or with asynq's command.",
	}
}

// shownHolders is how many of the tasks that hold slots a reason names.
const shownHolders = 3

// crowded returns whether all slots are taken of the nodes that can run the type.
func (p Path) crowded() []Reason {
	able := p.able()
	if p.FleetUnknown || p.Foreign != 0 || len(able) == 0 {
		return nil
	}
	slots, held := 0, p.holdersOn(able)
	for _, w := range able {
		if max(w.Running, countOn(held, w.ID)) < w.Capacity {
			return nil
		}
		slots += w.Capacity
	}
	r := Reason{Code: SlotsTaken, Ahead: p.Ahead, Detail: p.allTaken(slots, able, held)}
	r.Do = fmt.Sprintf("Wait for one to end, or add slots: a further worker, or a higher --concurrency of dtsd. " +
		"See what runs: dtsctl task list -A --state running.")
	if len(held) > 0 {
		r.Do += fmt.Sprintf(" Stop one that hangs: dtsctl -n %s task cancel %s.", held[0].Ref.Namespace, held[0].Ref.ID)
	}
	if countOf(held) >= slots {
		r.Since = held[len(held)-1].StartedAt
	}
	return []Reason{r}
}

// allTaken says which slots are taken, and by which tasks.
func (p Path) allTaken(slots int, able []Worker, held []Running) string {
	what := fmt.Sprintf("for the queue %q", p.Queue)
	if p.Type != "" {
		what = fmt.Sprintf("for the type %q in the queue %q", p.Type, p.Queue)
	}
	where := "on the node " + able[0].ID
	if len(able) > 1 {
		where = fmt.Sprintf("on %d nodes", len(able))
	}
	text := fmt.Sprintf("All %d slots %s are taken, %s.", slots, what, where)
	if slots == 1 {
		text = fmt.Sprintf("The only slot %s is taken, %s.", what, where)
	}
	var named []string
	for _, r := range held[:min(len(held), shownHolders)] {
		named = append(named, fmt.Sprintf("%s since %s", r.Ref, moment(r.StartedAt)))
	}
	if len(named) > 0 {
		text += " Held longest by " + strings.Join(named, ", ") + "."
	}
	return text
}

// holdersOn returns the running tasks on some nodes, those that began first at the beginning.
func (p Path) holdersOn(nodes []Worker) []Running {
	var on []Running
	for _, r := range p.Holders {
		if slices.ContainsFunc(nodes, func(w Worker) bool { return w.ID == r.Node }) {
			on = append(on, r)
		}
	}
	return on
}

// countOn returns how many slots of a node the tasks hold.
func countOn(running []Running, node string) int {
	return countOf(slices.DeleteFunc(slices.Clone(running), func(r Running) bool { return r.Node != node }))
}

// countOf returns how many slots the tasks hold.
func countOf(running []Running) (slots int) {
	for _, r := range running {
		slots += max(r.Slots, 1)
	}
	return slots
}

// moment writes a time as the API does, to the second.
func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }
