package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/manifest"
)

// changeHeader says what came of a PUT.
const changeHeader = "Dts-Change"

// apply applies one workflow or schedule with put, which completes the result.
func (a *applier) apply(
	ctx context.Context, e *manifest.Entry, put func(context.Context, *manifest.Entry, *result) error,
) error {
	r := result{Kind: e.Kind, Namespace: e.Namespace, ID: e.ID}
	err := put(ctx, e, &r)
	if refusal := rest.RefusalIn(err); refusal != nil {
		a.refuse(e, 1, refusal)
		r.Outcome, r.Error, err = outcomeRefused, &refusal.Problem, nil
	}
	if err != nil {
		return err
	}
	return a.add(r)
}

// putSchedule sends the definition of a schedule and completes the result.
func (a *applier) putSchedule(ctx context.Context, e *manifest.Entry, r *result) error {
	if a.dryRun {
		return a.previewSchedule(ctx, e, r)
	}
	after, change, err := sendSchedule(ctx, a.client, e, e.Body, false)
	if err != nil {
		return err
	}
	r.Outcome, r.Revision, r.Warnings = change, after.Value.Revision, after.Value.Warnings
	a.warn(r.Warnings)
	return nil
}

// previewSchedule is putSchedule for a dry run.
func (a *applier) previewSchedule(ctx context.Context, e *manifest.Entry, r *result) error {
	if a.checking {
		_, _, err := a.checkSchedule(ctx, a.client, e)
		return err
	}
	before, err := a.currentSchedule(ctx, e)
	if err != nil {
		return err
	}
	after, change, err := a.checkSchedule(ctx, a.client, e)
	if err != nil {
		return err
	}
	r.Outcome, r.Revision, r.Warnings = change, after.Value.Revision, after.Value.Warnings
	a.warn(r.Warnings)
	r.Changes, err = scheduleChanges(before, after)
	if _, is := a.pendingOf(e); is && before.Raw != nil && len(r.Changes) == 0 {
		r.Outcome, r.Revision = outcomeUnchanged, before.Value.Revision
	}
	return err
}

// checkSchedule asks what the schedule of an entry would become, once all workflows of the files are put.
func (a *applier) checkSchedule(
	ctx context.Context, c *rest.Client, e *manifest.Entry,
) (rest.Answer[wire.Schedule], outcome, error) {
	if workflow, is := a.pendingOf(e); is {
		return a.sendBefore(ctx, c, e, workflow.entry)
	}
	return sendSchedule(ctx, c, e, e.Body, true)
}

// sendSchedule sends the definition of a schedule, and returns the schedule and what came of it.
func sendSchedule(
	ctx context.Context, c *rest.Client, e *manifest.Entry, body json.RawMessage, dryRun bool,
) (after rest.Answer[wire.Schedule], change outcome, _ error) {
	params := &client.PutScheduleParams{Namespace: &e.Namespace}
	if dryRun {
		params.DryRun = &dryRun
	}
	response, err := c.PutScheduleWithBodyWithResponse(ctx, e.ID, params, rest.JSONType, bytes.NewReader(body))
	if after, err = rest.Read[wire.Schedule](response, err); err != nil {
		return after, "", err
	}
	return after, outcome(response.HTTPResponse.Header.Get(changeHeader)), nil
}

// check returns what the server would refuse of limits and workflows, and of schedules that run none of those. If it
// does not answer, the user is told.
func (a *applier) check(ctx context.Context, c *rest.Client, m manifest.Manifest) (faults manifest.Faults) {
	look := func(e *manifest.Entry, err error) (goOn bool) {
		refusal := rest.RefusalIn(err)
		switch {
		case refusal != nil:
			faults = append(faults, e.Faults(refusal.Invalid())...)
		case err != nil:
			a.printer.Errorf("the server has not checked all limits, workflows and schedules: %v", err)
		}
		return err == nil || refusal != nil
	}
	refused := make(map[manifest.Ref]bool)
	for i := range m.Limits {
		e := &m.Limits[i]
		if _, err := sendLimit(ctx, c, e, true); !look(e, err) {
			return faults
		}
	}
	for i := range m.Workflows {
		e := &m.Workflows[i]
		_, _, err := sendWorkflow(ctx, c, e, true)
		if !look(e, err) {
			return faults
		}
		a.pending[e.Ref()], refused[e.Ref()] = pending{entry: e}, err != nil
	}
	for i := range m.Schedules {
		e := &m.Schedules[i]
		if workflow, _ := e.Runs(); refused[workflow] {
			continue
		}
		if _, _, err := a.checkSchedule(ctx, c, e); !look(e, err) {
			return faults
		}
	}
	return faults
}

// currentSchedule returns the schedule that an entry would replace, the zero answer if there is none.
func (a *applier) currentSchedule(ctx context.Context, e *manifest.Entry) (rest.Answer[wire.Schedule], error) {
	params := &client.GetScheduleParams{Namespace: &e.Namespace}
	answer, err := rest.Read[wire.Schedule](a.client.GetScheduleWithResponse(ctx, e.ID, params))
	if isNotFound(err, wire.ScheduleNotFound) {
		return rest.Answer[wire.Schedule]{}, nil
	}
	return answer, err
}

func isNotFound(err error, code wire.ProblemCode) bool {
	refusal := rest.RefusalIn(err)
	return refusal != nil && refusal.Code == code
}

func fieldChanges(differences []manifest.Change) (changes []fieldChange) {
	for _, d := range differences {
		changes = append(changes, fieldChange{d.Name, d.Before, d.After})
	}
	return changes
}

// scheduleChanges returns what differs between two states of a schedule. The zero answer stands for no schedule.
func scheduleChanges(before, after rest.Answer[wire.Schedule]) ([]fieldChange, error) {
	old := before.Raw
	if len(old) == 0 {
		old = json.RawMessage("{}")
	}
	differences, err := manifest.Changes(old, after.Raw)
	if err != nil {
		return nil, err
	}
	changes := fieldChanges(differences)
	if before.Value.Paused != after.Value.Paused {
		change := fieldChange{Field: "paused", After: strconv.FormatBool(after.Value.Paused)}
		if before.Raw != nil {
			change.Before = strconv.FormatBool(before.Value.Paused)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
