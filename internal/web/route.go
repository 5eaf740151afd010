package web

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// fact is a name and what stands beside it.
type fact struct {
	Name, Text template.HTML
}

// Reach is where a task may run, and to which of these nodes it goes, in words.
func (v *visit) Reach(d task.Definition) (facts []fact) {
	selector, prefer, route, slots := definition.Reach(d)
	if slots != nil {
		facts = append(facts, fact{v.T("Slots of its node that it holds"), template.HTML(v.Num(*slots))})
	}
	if selector != nil {
		facts = append(facts, fact{v.T("Nodes, by labels"), code(*selector)})
	}
	var preferred []string
	for _, p := range prefer {
		text := code(p.Select)
		preferred = append(preferred, string(v.T("%s, weight %d", text, max(wire.Value(p.Weight), 1))))
	}
	if len(preferred) > 0 {
		list := template.HTML(strings.Join(preferred, "<br>")) //nolint:gosec // made by T
		facts = append(facts, fact{v.T("Preferred nodes"), list})
	}
	if route != nil {
		facts = append(facts, fact{v.T("Route"), v.routeWords(*route)})
	}
	return facts
}

// routeWords say to which node a route leads.
func (v *visit) routeWords(r wire.Route) template.HTML {
	by := wire.Value(r.By)
	text := code(string(by)) + ": "
	switch {
	case by == wire.RouteHash:
		text += v.T("the node of the key %s", code(wire.Value(r.Key))) + v.stickyWords(wire.Value(r.Sticky))
	case by == wire.RouteFailover:
		text += v.T("the first node that lives of %s", v.orderWords(r.Order))
	case by == wire.RouteBusyOver && len(r.Order) > 0:
		text += v.T("the first node with a free slot of %s", v.orderWords(r.Order))
	case by == wire.RouteWeighted && r.Load != nil:
		text += v.T("the most idle node, by %s", v.loadWords(*r.Load))
	default:
		text += v.plainRoute(by)
	}
	return text
}

// plainRoute says which node a route chooses that has no settings.
func (v *visit) plainRoute(by wire.RouteBy) template.HTML {
	switch by {
	case wire.RouteFirst, wire.RouteBusyOver:
		return v.T("the node with the least name")
	case wire.RouteLast:
		return v.T("the node with the greatest name")
	case wire.RouteRound:
		return v.T("one node after the other")
	case wire.RouteWeightedRound:
		return v.T("one node after the other, by their weights")
	case wire.RouteRandom:
		return v.T("any node, by chance")
	case wire.RouteLeastRunning:
		return v.T("the node on which running and waiting tasks hold the fewest slots")
	case wire.RouteLeastUsed:
		return v.T("the node with the fewest tasks in about an hour")
	case wire.RouteLongestIdle:
		return v.T("the node that got its last task longest ago")
	case wire.RouteWeighted:
		return v.T("the most idle node")
	}
	return v.T("the node with the most free slots")
}

// stickyWords say what happens while the node of a key has no free slot.
func (v *visit) stickyWords(s wire.RouteSticky) template.HTML {
	switch s {
	case wire.StickyPrefer:
		return v.T(", for which it waits up to 2 s")
	case wire.StickyRequire:
		return v.T(", for which it waits as long as that node lives")
	}
	return ""
}

// orderWords are the names of nodes.
func (v *visit) orderWords(order []string) template.HTML {
	names := make([]string, len(order))
	for i, name := range order {
		names[i] = string(code(name))
	}
	return template.HTML(v.List(names)) //nolint:gosec // made by code and T
}

// loadWords say how much each measure counts.
func (v *visit) loadWords(l wire.RouteLoad) template.HTML {
	var parts []string
	for _, m := range []struct {
		name  template.HTML
		share *float64
	}{{v.T("CPU"), l.CPU}, {v.T("memory"), l.Memory}, {v.T("slots"), l.Slots}, {v.T("response time"), l.Response}} {
		if m.share != nil {
			parts = append(parts, fmt.Sprintf("%s %v", m.name, *m.share))
		}
	}
	return template.HTML(v.List(parts)) //nolint:gosec // of texts that are HTML, and numbers
}
