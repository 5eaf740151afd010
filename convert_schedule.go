package dts

import (
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/schedule"
)

// scheduleOf returns the schedule of an answer.
func scheduleOf(r rest.Reply, err error) (*Schedule, error) {
	s, err := call[client.Schedule](r, err)
	if err != nil {
		return nil, err
	}
	return scheduleFrom(s), nil
}

// wireSchedule returns a definition as the API takes it. What it says about times is left to the API, which knows the zones. Error: CodeInvalid.
func (c *Client) wireSchedule(id string, d ScheduleDefinition) (client.ScheduleDefinition, error) {
	texts := schedule.Definition{Ref: c.caller().Ref(id), Owner: d.Owner, Description: d.Description, Labels: d.Labels}
	if err := texts.ValidateTexts(); err != nil {
		return client.ScheduleDefinition{}, errorOfUseCase(err)
	}
	if err := checkTimes(map[string]time.Time{"start_at": d.StartAt, "end_at": d.EndAt}); err != nil {
		return client.ScheduleDefinition{}, err
	}
	template, err := c.wireTemplate(d.Task)
	return client.ScheduleDefinition{
		Cron: given(d.Cron), Every: givenSpan(d.Every), Specs: each(d.Specs, Spec.wire), Exclude: d.Exclude, Timezone: given(d.Timezone),
		StartAt: givenTime(d.StartAt), EndAt: givenTime(d.EndAt), MaxRuns: given(d.MaxRuns), Jitter: givenSpan(d.Jitter), Misfire: d.Misfire.wire(),
		Overlap: given(client.Overlap(d.Overlap)), PauseOnFailure: given(d.PauseOnFailure), Owner: given(d.Owner),
		Description: given(d.Description), Labels: labels(d.Labels), Task: template,
	}, err
}

func (s Spec) wire() client.ScheduleRule {
	return client.ScheduleRule{Cron: given(s.Cron), Every: givenSpan(s.Every)}
}

func (m Misfire) wire() *client.Misfire {
	if m == (Misfire{}) {
		return nil
	}
	return &client.Misfire{Policy: given(client.MisfirePolicy(m.Policy)), Window: givenSpan(m.Window), Max: given(m.Max)}
}

func (c *Client) wireTemplate(t TaskTemplate) (client.TaskTemplate, error) {
	d, err := c.checked(Submission{
		Type: t.Type, Queue: t.Queue, Payload: t.Payload, Timeout: t.Timeout, Retry: t.Retry, Retention: t.Retention, Owner: t.Owner, Labels: t.Labels,
	})
	return client.TaskTemplate{
		Type: t.Type, Queue: given(t.Queue), Payload: d.Payload, Timeout: givenSpan(t.Timeout), Retry: t.Retry.wire(),
		Retention: givenSpan(t.Retention), Owner: given(t.Owner), Labels: labels(t.Labels),
	}, errorOfUseCase(schedule.InTask(err))
}

func templateFrom(t client.TaskTemplate) TaskTemplate {
	template := TaskTemplate{
		Type: t.Type, Queue: value(t.Queue), Timeout: spanOf(t.Timeout), Retry: retryFrom(t.Retry), Retention: spanOf(t.Retention),
		Owner: value(t.Owner), Labels: value(t.Labels),
	}
	if t.Payload != nil {
		template.Payload = t.Payload
	}
	return template
}

func definitionFrom(d client.ScheduleDefinition) ScheduleDefinition {
	definition := ScheduleDefinition{
		Cron: value(d.Cron), Every: spanOf(d.Every), Exclude: d.Exclude, Timezone: value(d.Timezone),
		Specs:   each(d.Specs, func(r client.ScheduleRule) Spec { return Spec{Cron: value(r.Cron), Every: spanOf(r.Every)} }),
		StartAt: value(d.StartAt), EndAt: value(d.EndAt), MaxRuns: value(d.MaxRuns), Jitter: spanOf(d.Jitter),
		Overlap: OverlapPolicy(value(d.Overlap)), PauseOnFailure: value(d.PauseOnFailure), Owner: value(d.Owner),
		Description: value(d.Description), Labels: value(d.Labels), Task: templateFrom(d.Task),
	}
	if m := d.Misfire; m != nil {
		definition.Misfire = Misfire{Policy: MisfirePolicy(value(m.Policy)), Window: spanOf(m.Window), Max: value(m.Max)}
	}
	return definition
}

func scheduleFrom(s client.Schedule) *Schedule {
	return &Schedule{
		ID: s.ID, Namespace: s.Namespace, Revision: s.Revision, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Cursor: s.Cursor,
		NextAt: value(s.NextAt), Paused: s.Paused, PausedAt: value(s.PausedAt), PauseNote: value(s.PauseNote), EndedAt: value(s.EndedAt),
		Runs: s.Runs, Failures: s.Failures, Live: s.Live, Waiting: s.Waiting, Warnings: s.Warnings,
		Definition: definitionFrom(client.ScheduleDefinition{
			Cron: s.Cron, Every: s.Every, Specs: s.Specs, Exclude: s.Exclude, Timezone: s.Timezone, StartAt: s.StartAt, EndAt: s.EndAt,
			MaxRuns: s.MaxRuns, Jitter: s.Jitter, Misfire: s.Misfire, Overlap: s.Overlap, PauseOnFailure: s.PauseOnFailure, Owner: s.Owner,
			Description: s.Description, Labels: s.Labels, Task: s.Task,
		}),
	}
}

func entryFrom(e client.LedgerEntry) LedgerEntry {
	return LedgerEntry{
		Tick: e.Tick, Outcome: TickOutcome(e.Outcome), Reason: value(e.Reason), Task: value(e.Task),
		Late: time.Duration(e.LateMs) * time.Millisecond, DecidedAt: e.DecidedAt, Revision: e.Revision,
	}
}
