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

// applySchedule applies one schedule.
func (a *applier) applySchedule(ctx context.Context, e *manifest.Entry) error {
	r := result{Kind: e.Kind, Namespace: e.Namespace, ID: e.ID}
	err := a.put(ctx, e, &r)
	if refusal := rest.RefusalIn(err); refusal != nil {
		a.refuse(e, 1, refusal)
		r.Outcome, r.Error, err = outcomeRefused, &refusal.Problem, nil
	}
	if err != nil {
		return err
	}
	return a.add(r)
}

// put sends a definition and completes the result.
func (a *applier) put(ctx context.Context, e *manifest.Entry, r *result) error {
	params := &client.PutScheduleParams{Namespace: &e.Namespace}
	var before rest.Answer[wire.Schedule]
	if a.dryRun {
		params.DryRun = &a.dryRun
		var err error
		if before, err = a.currentSchedule(ctx, e); err != nil {
			return err
		}
	}
	response, err := a.client.PutScheduleWithBodyWithResponse(ctx, e.ID, params, rest.JSONType, bytes.NewReader(e.Body))
	after, err := rest.Read[wire.Schedule](response, err)
	if err != nil {
		return err
	}
	r.Outcome = outcome(response.HTTPResponse.Header.Get("Dts-Change"))
	r.Revision, r.Warnings = after.Value.Revision, after.Value.Warnings
	a.printer.Warn(r.Warnings)
	if a.dryRun {
		r.Changes, err = scheduleChanges(before, after)
	}
	return err
}

// check returns what the server would refuse of schedules. If it does not answer, the user is told.
func (a *applier) check(ctx context.Context, c *rest.Client, schedules []manifest.Entry) (faults manifest.Faults) {
	for i := range schedules {
		e := &schedules[i]
		params := &client.PutScheduleParams{Namespace: &e.Namespace, DryRun: new(true)}
		response, err := c.PutScheduleWithBodyWithResponse(ctx, e.ID, params, rest.JSONType, bytes.NewReader(e.Body))
		_, err = rest.Read[wire.Schedule](response, err)
		refusal := rest.RefusalIn(err)
		switch {
		case refusal != nil:
			faults = append(faults, e.Faults(refusal.Invalid())...)
		case err != nil:
			a.printer.Errorf("the server has not checked all schedules: %v", err)
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
	var changes []fieldChange
	for _, d := range differences {
		changes = append(changes, fieldChange{d.Name, d.Before, d.After})
	}
	if before.Value.Paused != after.Value.Paused {
		change := fieldChange{Field: "paused", After: strconv.FormatBool(after.Value.Paused)}
		if before.Raw != nil {
			change.Before = strconv.FormatBool(before.Value.Paused)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
