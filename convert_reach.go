package dts

import (
	"slices"

	"github.com/dts-sched/dts/internal/api/wire"
)

func (r Route) wire() *wire.Route {
	out := wire.Route{
		By: wire.Given(wire.RouteBy(r.By)), Key: wire.Given(r.Key), Order: slices.Clone(r.Order),
		Sticky: wire.Given(wire.RouteSticky(r.Sticky)),
		Load: wire.Given(wire.RouteLoad{
			CPU: wire.Given(r.Load.CPU), Memory: wire.Given(r.Load.Memory), Slots: wire.Given(r.Load.Slots),
			Response: wire.Given(r.Load.Response),
		}),
	}
	if out.By == nil && out.Key == nil && out.Order == nil && out.Sticky == nil && out.Load == nil {
		return nil
	}
	return &out
}

func routeFrom(r *wire.Route) Route {
	in := wire.Value(r)
	load := wire.Value(in.Load)
	return Route{
		By: RouteBy(wire.Value(in.By)), Key: wire.Value(in.Key), Order: in.Order, Sticky: Sticky(wire.Value(in.Sticky)),
		Load: Load{
			CPU: wire.Value(load.CPU), Memory: wire.Value(load.Memory), Slots: wire.Value(load.Slots),
			Response: wire.Value(load.Response),
		},
	}
}

// preferencesOf returns preferences as the API takes them; nil for none.
func preferencesOf(prefer []Preference) wire.Preferences {
	var out wire.Preferences
	for _, p := range prefer {
		out = append(out, wire.Preference{Select: p.Select, Weight: wire.Given(p.Weight)})
	}
	return out
}

func preferencesFrom(prefer wire.Preferences) []Preference {
	var out []Preference
	for _, p := range prefer {
		out = append(out, Preference{Select: p.Select, Weight: wire.Value(p.Weight)})
	}
	return out
}

// wireReach sets where the task is to run in a change as the API takes it.
func (change TaskChange) wireReach(in *wire.TaskChange) {
	in.Select = change.Select
	if change.Prefer != nil {
		all := append([]wire.Preference{}, preferencesOf(*change.Prefer)...)
		in.Prefer = &all
	}
	if change.Route != nil {
		in.Route = change.Route.wire()
		if in.Route == nil { // an empty object removes it
			in.Route = &wire.Route{}
		}
	}
}
