package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/dts-sched/dts/internal/api/client"
)

// schedule applies one schedule.
func (a *applying) schedule(ctx context.Context, e wanted) error {
	result := applied{Kind: e.kind, Namespace: e.namespace, ID: e.id}
	err := a.put(ctx, e, &result)
	if no := refusalIn(err); no != nil {
		a.refuse(e, 1, no)
		result.Outcome, result.Error, err = outcomeRefused, &no.Problem, nil
	}
	if err != nil {
		return err
	}
	return a.note(result)
}

// put sends a definition and completes the result.
func (a *applying) put(ctx context.Context, e wanted, result *applied) error {
	params := &client.PutScheduleParams{Namespace: &e.namespace, DryRun: orNil(a.dryRun)}
	var before answer[client.Schedule]
	if a.dryRun {
		found, err := ask[client.Schedule](a.calls.GetScheduleWithResponse(ctx, e.id, &client.GetScheduleParams{Namespace: &e.namespace}))
		if no := refusalIn(err); err != nil && (no == nil || no.Code != client.ScheduleNotFound) {
			return err
		}
		if err == nil {
			before = found
		}
	}
	response, err := a.calls.PutScheduleWithBodyWithResponse(ctx, e.id, params, jsonType, bytes.NewReader(e.body))
	after, err := ask[client.Schedule](response, err)
	if err != nil {
		return err
	}
	result.Outcome = outcome(response.HTTPResponse.Header.Get("Dts-Change"))
	result.Revision = after.value.Revision
	if a.dryRun {
		result.Changes, err = scheduleChanges(before, after)
	}
	return err
}

// scheduleChanges is what differs between two states of a schedule; the zero answer is none.
func scheduleChanges(before, after answer[client.Schedule]) ([]fieldChange, error) {
	old, next := before.raw, after.raw
	if len(old) == 0 {
		old = json.RawMessage("{}")
	}
	differ, err := changesBetween(old, next)
	if err != nil {
		return nil, err
	}
	var changes []fieldChange
	for _, c := range differ {
		changes = append(changes, fieldChange{c.name, c.before, c.after})
	}
	if before.value.Paused != after.value.Paused {
		c := fieldChange{Field: "paused", After: strconv.FormatBool(after.value.Paused)}
		if before.raw != nil {
			c.Before = strconv.FormatBool(before.value.Paused)
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// prune deletes the schedules with the labels that are not wanted.
func (a *applying) prune(ctx context.Context, want manifest, labels map[string]string) error {
	keep := make(map[string]bool)
	for _, e := range want.schedules {
		keep[e.namespace+"/"+e.id] = true
	}
	for _, namespace := range want.namespaces {
		found, err := a.labelled(ctx, namespace, labels)
		if err != nil {
			return err
		}
		for _, c := range found {
			if keep[c.Namespace+"/"+c.ID] {
				continue
			}
			if err := a.pruneOne(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// pruneOne deletes a schedule; that it is gone already is as good.
func (a *applying) pruneOne(ctx context.Context, c client.Schedule) error {
	result := applied{Kind: kindSchedule, Namespace: c.Namespace, ID: c.ID, Outcome: outcomePruned, Revision: c.Revision}
	if !a.dryRun {
		_, err := ask[client.ScheduleDeletion](a.calls.DeleteScheduleWithResponse(ctx, c.ID, &client.DeleteScheduleParams{Namespace: &c.Namespace}))
		no := refusalIn(err)
		switch {
		case err == nil, no != nil && no.Code == client.ScheduleNotFound:
		case no == nil:
			return err
		default:
			a.refused++
			a.session.say("schedule %s is not pruned: %v", c.ID, no)
			result.Outcome, result.Error = outcomeRefused, &no.Problem
		}
	}
	return a.note(result)
}

// labelled lists the schedules of a namespace that have the labels. What the server answers is looked at again:
// nothing may be deleted because a label was lost on the way.
func (a *applying) labelled(ctx context.Context, namespace string, labels map[string]string) ([]client.Schedule, error) {
	limit := 500 // the most there is
	params := client.ListSchedulesParams{Namespace: &namespace, Limit: &limit}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		params.Label = append(params.Label, name+"="+labels[name])
	}
	var all []client.Schedule
	for {
		page, err := ask[client.ScheduleList](a.calls.ListSchedulesWithResponse(ctx, &params))
		if err != nil {
			return nil, err
		}
		for _, c := range page.value.Schedules {
			if hasLabels(c, labels) {
				all = append(all, c)
			}
		}
		if params.Cursor = page.value.NextCursor; params.Cursor == nil {
			return all, nil
		}
	}
}

func hasLabels(c client.Schedule, labels map[string]string) bool {
	for name, value := range labels {
		if c.Labels == nil {
			return false
		}
		if has, ok := (*c.Labels)[name]; !ok || has != value {
			return false
		}
	}
	return true
}
