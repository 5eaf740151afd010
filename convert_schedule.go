package dts

import (
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/schedule"
)

// scheduleOf returns the schedule of an answer.
func scheduleOf(r rest.Reply, err error) (*Schedule, error) {
	s, err := call[wire.Schedule](r, err)
	if err != nil {
		return nil, err
	}
	return scheduleFrom(s), nil
}

// wireSchedule returns a definition as the API takes it. What it says about times is left to the API, which knows the zones. Error: CodeInvalid.
func (c *Client) wireSchedule(id string, d ScheduleDefinition) (wire.ScheduleDefinition, error) {
	texts := schedule.Definition{Ref: c.caller().Ref(id), Owner: d.Owner, Description: d.Description, Labels: d.Labels}
	if err := texts.ValidateTexts(); err != nil {
		return wire.ScheduleDefinition{}, errorOfUseCase(err)
	}
	if err := checkTimes(map[string]time.Time{"start_at": d.StartAt, "end_at": d.EndAt}); err != nil {
		return wire.ScheduleDefinition{}, err
	}
	template, err := c.wireTemplate(d.Task)
	return wire.ScheduleDefinition{
		Cron: wire.Given(d.Cron), Every: givenSpan(d.Every), Specs: each(d.Specs, Spec.wire), Exclude: d.Exclude, Timezone: wire.Given(d.Timezone),
		StartAt: wire.AtIfAny(d.StartAt), EndAt: wire.AtIfAny(d.EndAt), MaxRuns: wire.Given(d.MaxRuns), Jitter: givenSpan(d.Jitter), Misfire: d.Misfire.wire(),
		Overlap: wire.Given(wire.Overlap(d.Overlap)), PauseOnFailure: wire.Given(d.PauseOnFailure), Owner: wire.Given(d.Owner),
		Description: wire.Given(d.Description), Labels: wire.LabelsOf(d.Labels), Task: template,
	}, err
}

func (s Spec) wire() wire.ScheduleRule {
	return wire.ScheduleRule{Cron: wire.Given(s.Cron), Every: givenSpan(s.Every)}
}

func (m Misfire) wire() *wire.Misfire {
	if m == (Misfire{}) {
		return nil
	}
	return &wire.Misfire{Policy: wire.Given(wire.MisfirePolicy(m.Policy)), Window: givenSpan(m.Window), Max: wire.Given(m.Max)}
}

func (c *Client) wireTemplate(t TaskTemplate) (wire.TaskTemplate, error) {
	s, err := Submission{
		Type: t.Type, Queue: t.Queue, Payload: t.Payload, Timeout: t.Timeout, Retry: t.Retry, Retention: t.Retention, Owner: t.Owner, Labels: t.Labels,
		StartBy: t.StartBy, OnEnd: t.OnEnd, Priority: t.Priority, FairKey: t.FairKey, FairWeight: t.FairWeight,
		LimitKey: t.LimitKey, Cost: t.Cost, Slots: t.Slots, Select: t.Select, Prefer: t.Prefer, Route: t.Route,
	}.wire()
	if err == nil {
		err = c.check(s)
	}
	return wire.TaskTemplate{
		Type: s.Type, Queue: s.Queue, Payload: s.Payload, Timeout: s.Timeout, Retry: s.Retry, Retention: s.Retention, Owner: s.Owner, Labels: s.Labels,
		StartBy: s.StartBy, OnEnd: s.OnEnd, Priority: s.Priority, FairKey: s.FairKey, FairWeight: s.FairWeight,
		LimitKey: s.LimitKey, Cost: s.Cost, Slots: s.Slots, Select: s.Select, Prefer: s.Prefer, Route: s.Route,
	}, errorOfUseCase(schedule.InTask(err))
}

func templateFrom(t wire.TaskTemplate) TaskTemplate {
	template := TaskTemplate{
		Type: t.Type, Queue: wire.Value(t.Queue), Timeout: spanOf(t.Timeout), Retry: retryFrom(t.Retry), Retention: spanOf(t.Retention),
		Owner: wire.Value(t.Owner), Labels: wire.Value(t.Labels), OnEnd: followUpFrom(t.OnEnd),
		StartBy: spanOf(t.StartBy), Priority: wire.Value(t.Priority), FairKey: wire.Value(t.FairKey),
		FairWeight: wire.Value(t.FairWeight), LimitKey: wire.Value(t.LimitKey), Cost: wire.Value(t.Cost),
		Slots: wire.Value(t.Slots), Select: wire.Value(t.Select), Prefer: preferencesFrom(t.Prefer),
		Route: routeFrom(t.Route),
	}
	if t.Payload != nil {
		template.Payload = t.Payload
	}
	return template
}

func definitionFrom(d wire.ScheduleDefinition) ScheduleDefinition {
	definition := ScheduleDefinition{
		Cron: wire.Value(d.Cron), Every: spanOf(d.Every), Exclude: d.Exclude, Timezone: wire.Value(d.Timezone),
		Specs:   each(d.Specs, func(r wire.ScheduleRule) Spec { return Spec{Cron: wire.Value(r.Cron), Every: spanOf(r.Every)} }),
		StartAt: wire.Value(d.StartAt).Time, EndAt: wire.Value(d.EndAt).Time, MaxRuns: wire.Value(d.MaxRuns), Jitter: spanOf(d.Jitter),
		Overlap: OverlapPolicy(wire.Value(d.Overlap)), PauseOnFailure: wire.Value(d.PauseOnFailure), Owner: wire.Value(d.Owner),
		Description: wire.Value(d.Description), Labels: wire.Value(d.Labels), Task: templateFrom(d.Task),
	}
	if m := d.Misfire; m != nil {
		definition.Misfire = Misfire{Policy: MisfirePolicy(wire.Value(m.Policy)), Window: spanOf(m.Window), Max: wire.Value(m.Max)}
	}
	return definition
}

func scheduleFrom(s wire.Schedule) *Schedule {
	return &Schedule{
		ID: s.ID, Namespace: s.Namespace, Revision: s.Revision, CreatedAt: s.CreatedAt.Time, UpdatedAt: s.UpdatedAt.Time, Cursor: s.Cursor.Time,
		NextAt: wire.Value(s.NextAt).Time, Paused: s.Paused, PausedAt: wire.Value(s.PausedAt).Time, PauseNote: wire.Value(s.PauseNote), EndedAt: wire.Value(s.EndedAt).Time,
		Runs: s.Runs, Failures: s.Failures, Live: s.Live, Waiting: s.Waiting, Warnings: s.Warnings,
		Conditions: each(s.Conditions, func(c wire.ScheduleCondition) ScheduleCondition { return ScheduleCondition(c) }),
		LastRun:    runFrom(s.LastRun), LastSuccessAt: wire.Value(s.LastSuccessAt).Time,
		Recent: each(s.Recent, tickResultFrom), Days: each(s.Days, dayFrom),
		Definition: definitionFrom(wire.ScheduleDefinition{
			Cron: s.Cron, Every: s.Every, Specs: s.Specs, Exclude: s.Exclude, Timezone: s.Timezone, StartAt: s.StartAt, EndAt: s.EndAt,
			MaxRuns: s.MaxRuns, Jitter: s.Jitter, Misfire: s.Misfire, Overlap: s.Overlap, PauseOnFailure: s.PauseOnFailure, Owner: s.Owner,
			Description: s.Description, Labels: s.Labels, Task: s.Task,
		}),
	}
}

func entryFrom(e wire.LedgerEntry) LedgerEntry {
	return LedgerEntry{
		Tick: e.Tick.Time, Outcome: TickOutcome(e.Outcome), Reason: wire.Value(e.Reason), Task: wire.Value(e.Task),
		Late: time.Duration(e.LateMs) * time.Millisecond, DecidedAt: e.DecidedAt.Time, Revision: e.Revision,
	}
}
