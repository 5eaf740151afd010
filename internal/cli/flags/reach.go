package flags

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/route"
)

// Reach is the flags that say on which nodes a task may run, and to which of them it goes.
type Reach struct {
	Select *string
	Slots  *int

	prefer []string
	by     *string
	key    *string
	order  []string
	sticky *string
	load   *string
}

// Bind adds the flags.
func (r *Reach) Bind(f *pflag.FlagSet) {
	String(f, &r.Select, "select", "on which nodes it may run, by their labels, as 'zone in (eu,us),gpu,mem>=16'")
	Int(f, &r.Slots, "slots", fmt.Sprintf(
		"how many slots of its node it holds while it runs, 1 to %d: it counts as so many tasks", route.SlotsLimit))
	f.StringArrayVar(&r.prefer, "prefer", nil,
		"which nodes are better for it, as 10:zone=eu: the weight, 1 to 100, and a selector; may be repeated")
	names := make([]string, len(route.Strategies))
	for i, s := range route.Strategies {
		names[i] = string(s)
	}
	String(f, &r.by, "route", "to which of the nodes that may run it it goes: "+strings.Join(names, ", "))
	String(f, &r.key, "route-key", "of the route hash: tasks with the same key go to the same node")
	f.StringSliceVar(&r.order, "route-order", nil,
		"of the routes failover and busy_over: the names of nodes, the first one first, with commas between")
	String(f, &r.sticky, "sticky", "of the route hash, while the node of the key has no free slot: "+
		"prefer waits up to "+route.StickyWait.String()+", require as long as that node lives")
	String(f, &r.load, "route-load", "of the route weighted: what counts for how idle a node is, "+
		"as cpu=0.5,memory=0.2,slots=0.2,response=0.1")
}

// Given reports whether any flag was.
func (r *Reach) Given() bool {
	return r.Select != nil || r.Slots != nil || r.prefer != nil || r.routed()
}

// routed reports whether any flag of the route was given.
func (r *Reach) routed() bool {
	return r.by != nil || r.key != nil || r.order != nil || r.sticky != nil || r.load != nil
}

// Prefer returns the preferences: none for the only one "", nil if no flag names one. Error: bad usage.
func (r *Reach) Prefer() (wire.Preferences, error) {
	if r.prefer == nil {
		return nil, nil
	}
	all := wire.Preferences{}
	for _, text := range r.prefer {
		if text == "" && len(r.prefer) == 1 {
			break
		}
		p, err := definition.ParsePreference(text)
		if err != nil {
			return nil, command.Usagef("--prefer: %v", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Route returns the route: one that says nothing for the name "", nil if no flag names one. Error: bad usage.
func (r *Reach) Route() (*wire.Route, error) {
	if !r.routed() {
		return nil, nil
	}
	out := &wire.Route{
		By: wire.Given(wire.RouteBy(wire.Value(r.by))), Key: wire.Given(wire.Value(r.key)), Order: r.order,
		Sticky: wire.Given(wire.RouteSticky(wire.Value(r.sticky))),
	}
	if r.load == nil {
		return out, nil
	}
	pairs, err := Pairs("--route-load", "=", strings.Split(*r.load, ","))
	if err != nil {
		return nil, err
	}
	out.Load = &wire.RouteLoad{}
	measures := map[string]**float64{
		"cpu": &out.Load.CPU, "memory": &out.Load.Memory, "slots": &out.Load.Slots, "response": &out.Load.Response,
	}
	for name, text := range pairs {
		number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if measures[name] == nil || err != nil {
			return nil, command.Usagef("--route-load: %s=%s must be cpu, memory, slots or response, and a number of 0 to 1",
				name, text)
		}
		*measures[name] = &number
	}
	return out, nil
}
