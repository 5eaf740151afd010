package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

// mostNodes is how many nodes a reason names.
const mostNodes = 5

// reach returns where the task may run. ok is false if it says nothing about that, or nobody can read it; misplaced
// tells of the latter.
func (f TaskFacts) reach() (_ route.Reach, ok bool) {
	r, err := route.ParseReach(f.Task.Reach)
	return r, err == nil && !r.IsZero()
}

// misplaced returns whether nobody can read where the task may run: then no node gets it.
func (f TaskFacts) misplaced() []Reason {
	if _, err := route.ParseReach(f.Task.Reach); err == nil {
		return nil
	}
	return []Reason{{
		Code: Unreadable, Detail: "Redis holds where it may run, and nobody can read that.",
		Do: fmt.Sprintf("Say it anew: %s task change %s --select '' --prefer '' --route any.", ctl(f.Task.Ref), f.Task.ID),
	}}
}

// unmatched returns what keeps every living node from being one on which the task may run.
func (f TaskFacts) unmatched() []Reason {
	r, ok := f.reach()
	if !ok || f.FleetUnknown || len(f.attended()) > 0 {
		return nil
	}
	able := f.able()
	labels := make([]route.Labels, len(able))
	for i, w := range able {
		labels[i] = w.label
	}
	fit := r.Select.Explain(labels)
	reason := Reason{Code: NoNode, Do: f.giveLabels(fit)}
	switch {
	case len(able) == 0:
		reason.Detail = fmt.Sprintf("No living node takes tasks%s from the queue %q.", f.ofType(), f.Queue)
	case fit.Match == 0:
		reason.Detail = fmt.Sprintf("Of the nodes that take tasks%s from the queue %q, %s.", f.ofType(), f.Queue, fit)
	case f.tooSmall(r) != nil:
		w := f.tooSmall(r)
		reason.Detail = fmt.Sprintf("It needs %d slots of a node. Of the nodes that match, %s has the most: a task of the "+
			"queue %q can hold %d there.", r.Holds(), w.name(), f.Queue, w.Most)
		reason.Do = fmt.Sprintf("Start a node with more slots (dtsd serve --roles worker --queues %s=1 "+
			"--concurrency %d), or let it hold fewer: %s task change %s --slots %d.",
			f.Queue, r.Holds(), ctl(f.Task.Ref), f.Task.ID, max(w.Most, 1))
	case len(f.matching(r)) == 0:
		reason.Detail = fmt.Sprintf("None of the nodes of its route takes it now: %s.", strings.Join(r.Route.Order, ", "))
		reason.Do = fmt.Sprintf("Start one of them, or change the route: %s task change %s --route any.",
			ctl(f.Task.Ref), f.Task.ID)
	default:
		return nil
	}
	if w := f.cordoned(r); w != nil {
		reason.Detail += fmt.Sprintf(" The node %s matches, and is cordoned%s.", w.ID, w.Cordon.why())
		reason.Do = w.Cordon.do()
	} else if w := f.died(r); w != nil {
		reason.Since = w.LastBeat
		const text = " The node %s matched, and is dead: its newest heartbeat is of %s."
		reason.Detail += fmt.Sprintf(text, w.name(), moment(w.LastBeat))
	}
	return []Reason{reason}
}

// ofType names the type of a path, with a blank before it; "" for any type.
func (p Path) ofType() string {
	if p.Type == "" {
		return ""
	}
	return fmt.Sprintf(" of type %q", p.Type)
}

// giveLabels says how to get a node that satisfies the selector. Nodes have some labels by themselves.
func (f TaskFacts) giveLabels(fit route.Fit) string {
	change := fmt.Sprintf("%s task change %s --select", ctl(f.Task.Ref), f.Task.ID)
	start := fmt.Sprintf("dtsd serve --roles worker --queues %s=1", f.Queue)
	for _, t := range fit.Terms {
		if t.Nodes > 0 || !config.IsOwnLabel(t.Label) {
			continue
		}
		switch name, is := strings.CutPrefix(t.Term, "name="); {
		case t.Label == "id":
			return fmt.Sprintf("A node has a new id after each start. Select it by its name: %s name=NAME.", change)
		case is:
			return fmt.Sprintf("Start that node (%s --node-name %s), or change where it may run: %s ''.", start, name, change)
		}
		const text = "Start such a node (%s), or change where it may run: %s ''. A node has the label %s by itself."
		return fmt.Sprintf(text, start, change, t.Label)
	}
	return fmt.Sprintf("Give a node such labels (%s --labels), or change where it may run: %s ''.", start, change)
}

// died returns the worker that died last of those on which the task might run; nil if there is none.
func (f TaskFacts) died(r route.Reach) (last *Worker) {
	for i, w := range f.Workers {
		could := !w.Alive && w.serves(f.Queue) && w.runs(f.Type) && w.fits(r)
		if could && (last == nil || w.LastBeat.After(last.LastBeat)) {
			last = &f.Workers[i]
		}
	}
	return last
}

// tooSmall returns, of the nodes that have too few slots for the task, and to which it might go else, the one with the
// most slots; nil if some node has enough, or none matches.
func (p Path) tooSmall(r route.Reach) *Worker {
	small := r
	small.Slots = 0
	var most *Worker
	for _, w := range p.matching(small) {
		if w.fits(r) {
			return nil
		}
		if most == nil || w.Most > most.Most {
			most = &w
		}
	}
	return most
}

// Unreached says in a warning that none of the workers that take tasks of the type is one on which a task may run. It
// is "" if one is, or if there are no such workers.
func (p Path) Unreached(r route.Reach) string {
	able := p.able()
	if len(able) == 0 || slices.ContainsFunc(able, func(w Worker) bool { return w.fits(r) }) {
		return ""
	}
	if w := p.cordoned(r); w != nil {
		const text = "select: the node %s matches, and is cordoned: the task waits until it is not, or for another node"
		return fmt.Sprintf(text, w.name())
	}
	if w := p.tooSmall(r); w != nil {
		const text = "slots: %d is more than the %d that a task of the queue %q can hold on %s, and no node that matches " +
			"has more: the task waits until one has %d"
		return fmt.Sprintf(text, r.Holds(), w.Most, p.Queue, w.name(), r.Holds())
	}
	text := fmt.Sprintf("select: no living node matches %s", r.Select)
	if slices.ContainsFunc(able, func(w Worker) bool { return r.Select.Matches(w.label) }) {
		text = fmt.Sprintf("route.order: no node of %s lives that may run it", strings.Join(r.Route.Order, ", "))
	}
	return text + ": the task waits until one does"
}

// cordoned returns a worker on which a task might run if it were not cordoned; nil if there is none.
func (p Path) cordoned(r route.Reach) *Worker {
	for i, w := range p.Workers {
		if w.Cordon != nil && w.Alive && !w.Draining && w.serves(p.Queue) && w.runs(p.Type) && w.fits(r) {
			return &p.Workers[i]
		}
	}
	return nil
}

// matching returns the workers to which the task may go, those that come first in an order at the beginning.
func (p Path) matching(r route.Reach) []Worker {
	var all []Worker
	for _, w := range p.able() {
		if w.fits(r) {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b Worker) int {
		return slices.Index(r.Route.Order, a.name()) - slices.Index(r.Route.Order, b.name())
	})
	return all
}

// occupied returns whether the task waits for slots of the nodes to which it may go.
func (f TaskFacts) occupied() []Reason {
	r, ok := f.reach()
	if !ok || f.FleetUnknown {
		return nil
	}
	nodes := slices.DeleteFunc(f.next(r), f.isPaused)
	full := slices.DeleteFunc(slices.Clone(nodes), func(w Worker) bool {
		return w.Capacity-f.taken(w) >= r.Holds()
	})
	lack, then := "no free slot", ""
	if n := r.Holds(); n > 1 {
		lack = fmt.Sprintf("fewer than %d free slots", n)
		then = fmt.Sprintf(" After %s, it keeps for the task what becomes free. %s", route.GatherWait, gatherBounds())
	}
	reason := Reason{Code: NodeFull, Do: fmt.Sprintf("Wait for a task there to end, or change where it may run: "+
		"%s task change %s --select SELECTOR --route NAME. See what runs: dtsctl task list -A --state running.",
		ctl(f.Task.Ref), f.Task.ID)}
	switch {
	case len(full) == 0:
		return nil
	case len(full) == len(nodes) && r.Route.By == route.Failover:
		reason.Detail = fmt.Sprintf("It waits for the first node of its order that lives, which has %s: %s.%s",
			lack, f.slots(full), then)
	case len(full) == len(nodes) && r.Holds() > 1:
		reason.Detail = fmt.Sprintf("It needs %d slots of a node, and no node on which it may run has as many free: "+
			"%s. After %s, one of them keeps for it what becomes free. %s", r.Holds(), f.slots(full), route.GatherWait,
			gatherBounds())
	case len(full) == len(nodes):
		reason.Detail = fmt.Sprintf("No node on which it may run has a free slot: %s.", f.slots(full))
	case r.Route.Sticky == route.StickyRequire:
		reason.Detail = fmt.Sprintf("It waits for the node of its key, if that is one of those with %s: %s.%s",
			lack, f.slots(full), then)
	default:
		return nil
	}
	return []Reason{reason}
}

// gatherBounds says when no node keeps slots for a task of several although it has waited for route.GatherWait.
func gatherBounds() string {
	const text = "No node does so while half of those that match keep slots already, nor within %s after it has given a " +
		"task up."
	return fmt.Sprintf(text, task.FormatDuration(route.GatherLimit))
}

// next returns the workers to one of which the task goes next.
func (f TaskFacts) next(r route.Reach) []Worker {
	nodes := f.matching(r)
	if len(nodes) == 0 || r.Route.By != route.Failover {
		return nodes
	}
	first := nodes[0].name() // others of its order come only when this one is gone
	return slices.DeleteFunc(nodes, func(w Worker) bool { return w.name() != first })
}

// isPaused reports whether the queue is paused that a worker has for itself.
func (f TaskFacts) isPaused(w Worker) bool { return slices.Contains(f.PausedNodes, w.ID) }

// allPaused returns which queues of nodes are paused, if no other node to which the task may go has as many free slots
// as it needs.
func (f TaskFacts) allPaused() (all []Reason) {
	r, ok := f.reach()
	if !ok || f.FleetUnknown || len(f.PausedNodes) == 0 {
		return nil
	}
	for _, w := range f.next(r) {
		switch {
		case f.isPaused(w) && len(all) < mostNodes:
			all = append(all, pausedAt(task.NodeQueue(f.Queue, w.ID), time.Time{}))
		case !f.isPaused(w) && f.free(w) >= r.Holds():
			return nil
		}
	}
	return all
}

// taken returns how many slots of a node are taken.
func (f TaskFacts) taken(w Worker) int { return max(w.Running, countOn(f.Holders, w.ID)) }

// slots names some nodes, with how many of their slots are taken.
func (f TaskFacts) slots(nodes []Worker) string {
	var texts []string
	for _, w := range nodes[:min(len(nodes), mostNodes)] {
		texts = append(texts, fmt.Sprintf("%s %d/%d", w.name(), f.taken(w), w.Capacity))
	}
	if more := len(nodes) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// gathered says if the task waits at a node for its slots, and the node keeps them for it.
func (f TaskFacts) gathered() []Reason {
	r, ok := f.reach()
	i := slices.IndexFunc(f.Workers, func(w Worker) bool { return w.ID == f.Task.Placed })
	if !ok || r.Holds() == 1 || f.FleetUnknown || i < 0 || f.Workers[i].Capacity-f.taken(f.Workers[i]) >= r.Holds() {
		return nil
	}
	return []Reason{{
		Code: NodeFull, Since: f.Task.QueuedAt,
		Detail: fmt.Sprintf("It needs %d slots of its node, which keeps the slots for it that become free: %s.",
			r.Holds(), f.slots(f.Workers[i:i+1])),
		Do: "Wait for tasks there to end. See what runs: dtsctl task list -A --state running.",
	}}
}

// fits reports whether a task may go to the worker by its selector, the order of its route, and its slots.
func (w Worker) fits(r route.Reach) bool {
	hasSlots := r.Holds() == 1 || r.Holds() <= w.Most
	return hasSlots && r.Select.Matches(w.label) && (len(r.Route.Order) == 0 || slices.Contains(r.Route.Order, w.name()))
}
