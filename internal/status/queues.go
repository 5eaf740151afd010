package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// queues adds what is wrong with queues in which tasks wait.
func (j *judge) queues() {
	for _, q := range j.Queues {
		if q.Waiting > 0 {
			j.queue(q)
		}
	}
}

// queue adds what is wrong with one queue: what must change first.
func (j *judge) queue(q Queue) {
	servers := Serving(j.Nodes, q.Name)
	switch {
	case len(servers) == 0 && !q.Foreign:
		j.unserved(q)
		return
	case q.Paused:
		j.paused(q)
		return
	}
	stuck := j.lanes(q, servers)
	switch {
	case stuck == q.Waiting || q.Foreign: // what else waits, waits for another reason
	case !j.slotsTaken(q, servers):
		j.late(q, servers)
	}
}

// slotsTaken adds that tasks have held the slots of a queue for long: all of them, or most, and no slot is free. It
// returns false if that is not so.
func (j *judge) slotsTaken(q Queue, servers []Node) bool {
	capacity := slots(servers)
	r := Reason{Code: SlotsTaken, Severity: Bad, Since: q.HeldFrom, Kind: "queue", ID: q.Name}
	held := fmt.Sprintf("all %d slots", capacity)
	switch {
	case capacity == 0:
		return false
	case q.Held >= capacity && capacity == 1:
		held = "the only slot"
	case q.Held >= capacity:
	case q.HeldMore:
		held = fmt.Sprintf("at least %d of %d slots", q.Held, capacity)
	case 2*q.Held > capacity && used(servers) >= capacity && (q.Oldest.IsZero() || j.waits(q.Oldest) >= LateAfter):
		r.Severity, held = Warn, fmt.Sprintf("%d of %d slots", q.Held, capacity) // the other slots still work
	default:
		return false
	}
	r.Detail = fmt.Sprintf("Tasks have held %s of the queue %q for more than %s, and no slot is free. "+
		"The first of these tasks is %s. %s.", held, q.Name, span(HeldAfter), q.Holder, tasksWait(q.Waiting))
	r.Do = fmt.Sprintf("See what holds them: dtsctl queue why %s. Cancel what hangs, or add slots.", q.Name)
	j.add(r)
	return true
}

// unserved adds that nobody takes what waits in a queue.
func (j *judge) unserved(q Queue) {
	r := Reason{Code: QueueUnserved, Severity: Bad, Kind: "queue", ID: q.Name}
	r.Since = j.sinceAt(r.key(), j.lastServed(func(n Node) bool { return n.serves(q.Name) }))
	if j.waits(cmp.Or(q.Oldest, r.Since)) < NotServed {
		return
	}
	r.Detail = fmt.Sprintf("%s in the queue %q, and no living node takes any.", tasksWait(q.Waiting), q.Name)
	r.Do = fmt.Sprintf("Start a worker for it: dtsd serve --roles worker --queues %s=1.", q.Name)
	j.orUncordon(&r, func(n Node) bool { return n.serves(q.Name) })
	if q.OfAsynq {
		r.Severity = Warn
		r.Detail = fmt.Sprintf("%s in the queue %q, which another asynq client uses. None of its servers runs.",
			tasksWait(q.Waiting), q.Name)
		r.Do = "Start a server of that client. Start no worker of DTS for this queue: it would archive these tasks."
	}
	j.add(r)
}

// lastServed returns the newest heartbeat of those dead nodes that match; zero if there is none. An earlier status may
// have seen that others served since: then it returns zero, too.
func (j *judge) lastServed(matches func(Node) bool) (last time.Time) {
	for _, n := range j.Nodes {
		if !n.Alive && matches(n) && n.LastBeat.After(last) {
			last = n.LastBeat
		}
	}
	if !j.Before.At.IsZero() && last.Before(j.Before.At.Add(-carryFor)) {
		return time.Time{}
	}
	return last
}

// paused adds that tasks wait in a queue that is paused.
func (j *judge) paused(q Queue) {
	by := ""
	if q.PausedBy != "" {
		by = " by " + q.PausedBy
	}
	if q.Note != "" {
		by += ": " + q.Note
	}
	j.add(Reason{
		Code: QueuePaused, Severity: Warn, Since: q.PausedAt, Kind: "queue", ID: q.Name,
		Detail: fmt.Sprintf("%s in the queue %q, which was paused%s.", tasksWait(q.Waiting), q.Name, by),
		Do:     fmt.Sprintf("Resume it: dtsctl queue resume %s.", q.Name),
	})
}

// late adds that tasks wait long, though nothing else is wrong.
func (j *judge) late(q Queue, servers []Node) {
	if j.waits(q.Oldest) < LateAfter {
		return
	}
	r := Reason{Code: Late, Severity: Warn, Kind: "queue", ID: q.Name}
	if r.Since = j.since(r); j.Now.Sub(r.Since) < LateFor {
		return
	}
	r.Detail = fmt.Sprintf("%s in the queue %q, the first of them for %s. Of the %d slots of the queue, in use: %d.",
		tasksWait(q.Waiting), q.Name, span(j.waits(q.Oldest)), slots(servers), used(servers))
	r.Do = fmt.Sprintf("See why: dtsctl queue why %s.", q.Name)
	j.add(r)
}

// waits is how long ago something was due; 0 if that is not known.
func (j *judge) waits(due time.Time) time.Duration {
	if due.IsZero() {
		return 0
	}
	return max(j.Now.Sub(due), 0)
}

// Serving returns the living nodes that take tasks from a queue.
func Serving(nodes []Node, queue string) []Node {
	var servers []Node
	for _, n := range nodes {
		if n.Alive && !n.Draining && n.CordonOf == "" && n.serves(queue) {
			servers = append(servers, n)
		}
	}
	return servers
}

// serves reports whether a node takes tasks from a queue while it lives, and neither drains nor is cordoned.
func (n Node) serves(queue string) bool {
	return n.Worker && n.Capacity > 0 && slices.Contains(n.Queues, queue)
}

// runs reports whether a node runs a type; "" stands for any.
func (n Node) runs(taskType string) bool {
	return taskType == "" || len(n.Types) == 0 || slices.Contains(n.Types, taskType)
}

// used is how many slots of some nodes are in use.
func used(nodes []Node) (n int) {
	for _, node := range nodes {
		n += min(node.Running, node.Capacity)
	}
	return n
}

func slots(nodes []Node) (n int) {
	for _, node := range nodes {
		n += node.Capacity
	}
	return n
}

func tasksWait(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

// span is a time for people, in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
