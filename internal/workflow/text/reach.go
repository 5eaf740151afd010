package text

import (
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// reach reads where the task of a step may run.
func (r *reader) reach(d *task.Definition, in *words.Task) {
	spec := route.Spec{Select: in.Select, Slots: in.Slots}
	for _, p := range in.Prefer {
		wish := route.Wish{Select: p.Select, Weight: 1}
		if p.Weight != nil {
			wish.Weight = *p.Weight
		}
		spec.Prefer = append(spec.Prefer, wish)
	}
	if by := in.Route; by != nil {
		spec.Key = by.Key
		spec.Route = route.Route{By: route.Strategy(by.By), Order: by.Order, Sticky: route.Sticky(by.Sticky)}
		if by.Load != nil {
			spec.Route.Load = route.Load(*by.Load)
		}
	}
	reach, err := spec.Reach()
	if err != nil {
		r.errs = append(r.errs, err)
	}
	d.Reach, d.RouteKey = reach.String(), spec.Key
}

// reachOf writes where the task of a step may run.
func reachOf(out *words.Task, d *task.Definition) {
	spec, err := route.SpecOf(d.Reach, d.RouteKey)
	if err != nil {
		return // a definition that was checked has none of this kind
	}
	out.Select, out.Slots = spec.Select, spec.Slots
	for _, wish := range spec.Prefer {
		out.Prefer = append(out.Prefer, words.Preference{Select: wish.Select, Weight: new(wish.Weight)})
	}
	if spec.Route.By == "" {
		return
	}
	by := spec.Route
	out.Route = &words.Route{By: string(by.By), Key: spec.Key, Order: by.Order, Sticky: string(by.Sticky)}
	if by.Load != (route.Load{}) {
		out.Route.Load = new(words.Load(by.Load))
	}
}
