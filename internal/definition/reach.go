package definition

import (
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

// reach sets where a task may run, and notes what is wrong with it.
func (r *reader) reach(d *task.Definition, s wire.Submission) {
	spec := route.Spec{Select: wire.Value(s.Select), Prefer: Wishes(s.Prefer), Slots: wire.Value(s.Slots)}
	spec.Route, spec.Key = Route(wire.Value(s.Route))
	reach, err := spec.Reach()
	r.note(err)
	d.Reach, d.RouteKey = reach.String(), spec.Key
}

// Wishes are preferences. One without a weight has the weight 1.
func Wishes(in []wire.Preference) []route.Wish {
	var out []route.Wish
	for _, p := range in {
		wish := route.Wish{Select: p.Select, Weight: 1}
		if p.Weight != nil {
			wish.Weight = *p.Weight
		}
		out = append(out, wish)
	}
	return out
}

// Route is a route, and the key by which it chooses a node. Package route checks both.
func Route(in wire.Route) (_ route.Route, key string) {
	load := wire.Value(in.Load)
	return route.Route{
		By: route.Strategy(wire.Value(in.By)), Order: in.Order, Sticky: route.Sticky(wire.Value(in.Sticky)),
		Load: route.Load{
			CPU: wire.Value(load.CPU), Memory: wire.Value(load.Memory), Slots: wire.Value(load.Slots),
			Response: wire.Value(load.Response),
		},
	}, wire.Value(in.Key)
}

// Reach is where a task may run, as somebody could have sent it. Of a reach that cannot be read, it is nothing.
func Reach(d task.Definition) (_ *wire.Selector, prefer wire.Preferences, _ *wire.Route, slots *wire.Slots) {
	spec, err := route.SpecOf(d.Reach, d.RouteKey)
	if err != nil {
		return nil, nil, nil, nil
	}
	for _, wish := range spec.Prefer {
		prefer = append(prefer, wire.Preference{Select: wish.Select, Weight: new(wish.Weight)})
	}
	return wire.Given(spec.Select), prefer, routeOf(spec), wire.Given(spec.Slots)
}

// routeOf is the route of a spec; nil for none.
func routeOf(spec route.Spec) *wire.Route {
	by := spec.Route
	if by.By == "" {
		return nil
	}
	return &wire.Route{
		By: new(wire.RouteBy(by.By)), Key: wire.Given(spec.Key), Order: by.Order,
		Sticky: wire.Given(wire.RouteSticky(by.Sticky)),
		Load: wire.Given(wire.RouteLoad{
			CPU: wire.Given(by.Load.CPU), Memory: wire.Given(by.Load.Memory), Slots: wire.Given(by.Load.Slots),
			Response: wire.Given(by.Load.Response),
		}),
	}
}
