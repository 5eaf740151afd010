package rules

import (
	"context"

	"github.com/dts-sched/dts/internal/limit"
)

// Total is a limit as it was set, and how much of it is in use: under a name that ends with "*", of all its names.
type Total struct {
	Entry
	Use
	Paused bool
}

// Totals returns how much of the limits is in use, in the order of All. What All leaves out is left out. Error:
// CodeUnavailable.
func (r *Rules) Totals(ctx context.Context) ([]Total, error) {
	entries, now, err := r.All(ctx)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	totals := make([]Total, len(entries))
	places, all := make(map[limit.Name]int, len(entries)), make(limit.Rules, len(entries))
	for i, e := range entries {
		totals[i].Entry, places[e.Name], all[e.Name] = e, i, e.Rule
		totals[i].Paused = e.Rule.Paused.After(now)
	}
	table := limit.NewTable(all)
	uses, _, err := r.Use(ctx, func(name string) bool { _, is := table.Which(name); return is })
	if err != nil {
		return nil, err
	}
	for name, use := range uses {
		of, _ := table.Which(name)
		total := &totals[places[of]]
		total.Held, total.Waiting = total.Held+use.Held, total.Waiting+use.Waiting
	}
	return totals, nil
}
