package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/route"
)

// lanes adds why tasks wait apart: no server of the queue runs their type, or may run them. What a limit keeps from
// starting is left for limits. It returns how many tasks wait for any of these.
func (j *judge) lanes(q Queue, servers []Node) (stuck int) {
	if q.Foreign {
		return 0
	}
	var types, sites []Lane
	for _, l := range q.Lanes {
		runs := func(n Node) bool { return n.runs(l.Type) }
		mayRun := l.Site.matcher(q.Name)
		switch {
		case !slices.ContainsFunc(servers, runs):
			types = join(types, l, Lane{Type: l.Type, Setting: l.Setting})
		case !slices.ContainsFunc(servers, func(n Node) bool { return runs(n) && mayRun(n) }):
			sites = join(sites, l, Lane{Type: l.Type, Site: l.Site})
		case l.Limit != "":
			j.barred = join(j.barred, l, Lane{Limit: l.Limit, TooDear: l.TooDear})
		default:
			continue
		}
		stuck += l.Waiting
	}
	for _, l := range types {
		j.typeUnserved(q, l)
	}
	slices.SortStableFunc(sites, func(a, b Lane) int { return a.Oldest.Compare(b.Oldest) })
	for _, l := range sites[:min(len(sites), sitesMost)] {
		j.noNode(q, l)
	}
	return stuck
}

// sitesMost is of how many sites in a queue a status tells: it remembers since when there is no such node.
const sitesMost = 20

// join adds a lane to the one among some that has the same kind of tasks.
func join(all []Lane, l, kind Lane) []Lane {
	i := slices.IndexFunc(all, func(other Lane) bool {
		isLimit := other.Limit == kind.Limit && other.TooDear == kind.TooDear
		return other.Type == kind.Type && other.Site == kind.Site && isLimit
	})
	if i < 0 {
		i, all = len(all), append(all, kind)
	}
	all[i].add(l)
	return all
}

// add adds the tasks of another lane.
func (l *Lane) add(other Lane) {
	if l.First == "" || other.Oldest.Before(l.Oldest) {
		l.First, l.Oldest = other.First, other.Oldest
	}
	l.Waiting += other.Waiting
}

// typeUnserved adds that no server of a queue runs the type of a lane.
func (j *judge) typeUnserved(q Queue, l Lane) {
	could := func(n Node) bool { return n.serves(q.Name) && n.runs(l.Type) }
	r := Reason{Code: TypeUnserved, Severity: Bad, Kind: "queue", ID: q.Name}
	r.Since = j.sinceAt(r.key()+" "+l.Type, j.lastServed(could))
	if j.waits(l.Oldest) < NotServed {
		return
	}
	r.Detail = fmt.Sprintf("%s of the type %q in the queue %q, and no living node of the queue runs it.",
		tasksWait(l.Waiting), l.Type, q.Name)
	r.Do = "Start a worker that runs the type and serves the queue."
	if l.Setting != "" {
		r.Do = fmt.Sprintf("Start a worker that runs it: dtsd serve --roles worker --queues %s=1 --%s.",
			q.Name, l.Setting)
	}
	j.orUncordon(&r, could)
	j.add(r)
}

// noNode adds that no server of a queue may run the tasks of a lane.
func (j *judge) noNode(q Queue, l Lane) {
	mayRun := l.Site.matcher(q.Name)
	could := func(n Node) bool { return n.serves(q.Name) && n.runs(l.Type) && mayRun(n) }
	r := Reason{Code: NoNode, Severity: Bad, Kind: "queue", ID: q.Name}
	r.Since = j.sinceAt(fmt.Sprint(r.key(), " ", l.Type, " ", l.Site), j.lastServed(could))
	if j.waits(l.Oldest) < NotServed {
		return
	}
	r.Detail = fmt.Sprintf("%s in the queue %q for %s. No living node of the queue is such a node.",
		tasksWait(l.Waiting), q.Name, l.Site)
	r.Do = "Start such a node, or change where they may run. " + l.askWhy()
	j.orUncordon(&r, could)
	j.add(r)
}

// orUncordon says so in a reason if living nodes could do what is needed, and are cordoned.
func (j *judge) orUncordon(r *Reason, could func(Node) bool) {
	of, count := "", 0
	for _, n := range j.Nodes {
		if n.Alive && !n.Draining && n.CordonOf != "" && could(n) {
			count++
			of = cmp.Or(of, n.CordonOf)
		}
	}
	if count > 0 {
		r.Detail += fmt.Sprintf(" Nodes that could, and are cordoned: %d.", count)
		r.Do = fmt.Sprintf("Uncordon %s (dtsctl node uncordon %s), or start another worker.", of, of)
	}
}

// askWhy says how to see more of what waits.
func (l Lane) askWhy() string {
	namespace, id, _ := strings.Cut(l.First, ":")
	return fmt.Sprintf("See what one of them needs: dtsctl -n %s task why %s.", namespace, id)
}

// matcher returns what reports whether a node has what tasks of a queue need. A node without labels has none.
func (s Site) matcher(queue string) func(Node) bool {
	selector, err := route.ParseSelector(s.Select)
	return func(n Node) bool {
		labels := n.Labels
		if labels == nil {
			labels = func(string) []string { return nil }
		}
		isNamed := s.Order == "" || slices.Contains(strings.Split(s.Order, ","), cmp.Or(n.Name, n.ID))
		hasSlots := s.Slots <= 1 || s.Slots <= n.Most[queue]
		return err == nil && isNamed && hasSlots && selector.Matches(labels)
	}
}

// String names such a node: "a node with gpu,zone=eu", "one of the nodes a,b with 4 slots".
func (s Site) String() string {
	text := "a node"
	if s.Order != "" {
		text = "one of the nodes " + s.Order
	}
	var needs []string
	if s.Select != "" {
		needs = append(needs, s.Select)
	}
	if s.Slots > 1 {
		needs = append(needs, fmt.Sprintf("%d slots", s.Slots))
	}
	if len(needs) == 0 {
		return text
	}
	return text + " with " + strings.Join(needs, " and ")
}

// limits adds which limits let tasks not start: what else these wait for, they do not need first.
func (j *judge) limits() {
	for _, l := range j.barred {
		i := slices.IndexFunc(j.Limits, func(of Limit) bool { return of.Name == l.Limit })
		if i < 0 {
			continue
		}
		of := j.Limits[i]
		r := Reason{Code: LimitPaused, Severity: Warn, Kind: "limit", ID: of.Name}
		if l.TooDear {
			r.Code, r.Severity = CostOverLimit, Bad
		} else if of.Rule.Paused.Sub(j.Now) < PausedFor {
			continue // it ends soon
		}
		r.Since = j.since(r)
		if r.Code == LimitPaused {
			r.Detail = fmt.Sprintf("%s for the limit %s, which is paused%s.", tasksWait(l.Waiting), of.Name, of.pause())
			r.Do = fmt.Sprintf("Wait, or resume it: dtsctl limit resume '%s'.", of.Name)
		} else {
			r.Detail = fmt.Sprintf("%s that cost more than the limit %s has: %s. They can never start.",
				tasksWait(l.Waiting), of.Name, of.Rule)
			r.Do = "Raise the limit, or lower their cost. " + l.askWhy()
		}
		j.add(r)
	}
}

// pause says who has paused a limit, until when, and why.
func (l Limit) pause() (text string) {
	if l.Pauser != "" {
		text += " by " + l.Pauser
	}
	if l.Rule.Paused.Before(limit.UntilResumed) {
		text += " until " + moment(l.Rule.Paused)
	}
	if l.Note != "" {
		text += ": " + l.Note
	}
	return text
}
