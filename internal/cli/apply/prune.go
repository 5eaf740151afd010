package apply

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// prune deletes the schedules and workflows with the labels that the manifest does not describe, in its namespaces:
// schedules first, so that none ticks for a workflow that is gone.
func (a *applier) prune(ctx context.Context, m manifest.Manifest, labels map[string]string) error {
	for _, kind := range []prunable{
		{m.Schedules, a.labelledSchedules, a.deleteSchedule}, {m.Workflows, a.labelledWorkflows, a.deleteWorkflow},
	} {
		for _, namespace := range m.Namespaces {
			found, err := kind.find(ctx, namespace, labels)
			if err != nil {
				return err
			}
			for _, r := range kind.undescribed(found) {
				if err := a.pruneOne(ctx, r, kind.remove); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prunable is a kind of what is pruned.
type prunable struct {
	entries []manifest.Entry // that the files describe
	find    func(ctx context.Context, namespace string, labels map[string]string) ([]result, error)
	remove  func(ctx context.Context, r result) error
}

// undescribed returns those that the files do not describe.
func (p prunable) undescribed(found []result) []result {
	described := make(map[manifest.Ref]bool, len(p.entries))
	for _, e := range p.entries {
		described[e.Ref()] = true
	}
	return slices.DeleteFunc(found, func(r result) bool {
		return described[manifest.Ref{Namespace: r.Namespace, ID: r.ID}]
	})
}

// pruneOne deletes a schedule or workflow. One that is gone already counts as pruned.
func (a *applier) pruneOne(ctx context.Context, r result, remove func(context.Context, result) error) error {
	r.Outcome = outcomePruned
	if !a.dryRun {
		err := remove(ctx, r)
		refusal := rest.RefusalIn(err)
		switch {
		case err == nil, isNotFound(err, wire.ScheduleNotFound), isNotFound(err, wire.WorkflowNotFound):
		case refusal == nil:
			return err
		default:
			a.refused++
			a.printer.Errorf("%s %s is not pruned: %v", r.Kind, r.ID, refusal)
			r.Outcome, r.Error = outcomeRefused, &refusal.Problem
		}
	}
	return a.add(r)
}

func (a *applier) deleteSchedule(ctx context.Context, r result) error {
	params := &client.DeleteScheduleParams{Namespace: &r.Namespace}
	_, err := rest.Read[wire.ScheduleDeletion](a.client.DeleteScheduleWithResponse(ctx, r.ID, params))
	return err
}

func (a *applier) deleteWorkflow(ctx context.Context, r result) error {
	params := &client.DeleteWorkflowParams{Namespace: &r.Namespace}
	_, err := rest.Read[wire.WorkflowDeletion](a.client.DeleteWorkflowWithResponse(ctx, r.ID, params))
	return err
}

// labelledWorkflows returns the workflows of a namespace that have the labels.
func (a *applier) labelledWorkflows(
	ctx context.Context, namespace string, labels map[string]string,
) (all []result, _ error) {
	limit := 500 // the most that the server takes
	params := client.ListWorkflowsParams{Namespace: &namespace, Limit: &limit}
	for {
		page, err := rest.Read[wire.WorkflowList](a.client.ListWorkflowsWithResponse(ctx, &params))
		switch {
		case isNotFound(err, wire.NotFound): // a server of an earlier release has none
			return nil, nil
		case err != nil:
			return nil, err
		}
		a.printer.Warn(page.Value.Warnings)
		for _, w := range page.Value.Workflows {
			var d words.Workflow
			if err := json.Unmarshal(w.Definition, &d); err != nil {
				return nil, rest.Misunderstood(err)
			}
			if hasLabels(d.Labels, labels) {
				all = append(all, result{Kind: manifest.KindWorkflow, Namespace: w.Namespace, ID: w.ID, Revision: w.Revision})
			}
		}
		if params.Cursor = page.Value.NextCursor; params.Cursor == nil {
			return all, nil
		}
	}
}

// labelledSchedules returns the schedules of a namespace that have the labels. It checks the labels of what the server
// answers: no schedule may be deleted because a label was lost on the way.
func (a *applier) labelledSchedules(
	ctx context.Context, namespace string, labels map[string]string,
) (all []result, _ error) {
	limit := 500 // the most that the server takes
	params := client.ListSchedulesParams{Namespace: &namespace, Limit: &limit}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		params.Label = append(params.Label, name+"="+labels[name])
	}
	for {
		page, err := rest.Read[wire.ScheduleList](a.client.ListSchedulesWithResponse(ctx, &params))
		if err != nil {
			return nil, err
		}
		a.printer.Warn(page.Value.Warnings)
		for _, s := range page.Value.Schedules {
			if hasLabels(wire.Value(s.Labels), labels) {
				all = append(all, result{Kind: manifest.KindSchedule, Namespace: s.Namespace, ID: s.ID, Revision: s.Revision})
			}
		}
		if params.Cursor = page.Value.NextCursor; params.Cursor == nil {
			return all, nil
		}
	}
}

func hasLabels(has, labels map[string]string) bool {
	for name, value := range labels {
		if got, ok := has[name]; !ok || got != value {
			return false
		}
	}
	return true
}
