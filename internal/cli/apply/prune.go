package apply

import (
	"context"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/manifest"
)

// prune deletes the schedules with the labels that the manifest does not describe, in its namespaces.
func (a *applier) prune(ctx context.Context, m manifest.Manifest, labels map[string]string) error {
	keep := make(map[string]bool)
	for _, e := range m.Schedules {
		keep[e.Namespace+"/"+e.ID] = true
	}
	for _, namespace := range m.Namespaces {
		found, err := a.labelledSchedules(ctx, namespace, labels)
		if err != nil {
			return err
		}
		for _, s := range found {
			if keep[s.Namespace+"/"+s.ID] {
				continue
			}
			if err := a.pruneOne(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// pruneOne deletes a schedule. A schedule that is gone already counts as pruned.
func (a *applier) pruneOne(ctx context.Context, s wire.Schedule) error {
	r := result{Kind: manifest.KindSchedule, Namespace: s.Namespace, ID: s.ID, Outcome: outcomePruned, Revision: s.Revision}
	if !a.dryRun {
		params := &client.DeleteScheduleParams{Namespace: &s.Namespace}
		_, err := rest.Read[wire.ScheduleDeletion](a.client.DeleteScheduleWithResponse(ctx, s.ID, params))
		refusal := rest.RefusalIn(err)
		switch {
		case err == nil, isNotFound(err, wire.ScheduleNotFound):
		case refusal == nil:
			return err
		default:
			a.refused++
			a.printer.Errorf("schedule %s is not pruned: %v", s.ID, refusal)
			r.Outcome, r.Error = outcomeRefused, &refusal.Problem
		}
	}
	return a.add(r)
}

// labelledSchedules returns the schedules of a namespace that have the labels. It checks the labels of what the server
// answers: no schedule may be deleted because a label was lost on the way.
func (a *applier) labelledSchedules(ctx context.Context, namespace string, labels map[string]string) ([]wire.Schedule, error) {
	limit := 500 // the most that the server takes
	params := client.ListSchedulesParams{Namespace: &namespace, Limit: &limit}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		params.Label = append(params.Label, name+"="+labels[name])
	}
	var all []wire.Schedule
	for {
		page, err := rest.Read[wire.ScheduleList](a.client.ListSchedulesWithResponse(ctx, &params))
		if err != nil {
			return nil, err
		}
		a.printer.Warn(page.Value.Warnings)
		for _, s := range page.Value.Schedules {
			if hasLabels(s, labels) {
				all = append(all, s)
			}
		}
		if params.Cursor = page.Value.NextCursor; params.Cursor == nil {
			return all, nil
		}
	}
}

func hasLabels(s wire.Schedule, labels map[string]string) bool {
	for name, value := range labels {
		if s.Labels == nil {
			return false
		}
		if has, ok := (*s.Labels)[name]; !ok || has != value {
			return false
		}
	}
	return true
}
