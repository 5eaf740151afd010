package api

import (
	"cmp"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

const (
	defaultNextCount     = 10
	defaultNextTicks     = 20
	defaultForecastHours = 24
	defaultBackfillPace  = time.Second
	backfillPaceLimit    = 24 * time.Hour
	namedLimit           = time.Hour // for which a forecast names what comes
)

// TriggerSchedule answers POST /v1/schedules/{id}/trigger.
func (e *endpoints) TriggerSchedule(c echo.Context, id wire.ScheduleID, params TriggerScheduleParams) error {
	trigger := e.Control.TriggerSchedule
	if params.DryRun {
		trigger = e.Control.PreviewTrigger
	}
	run, err := trigger(c.Request().Context(), callerWith(c, params.IdempotencyKey), id)
	if err != nil {
		return err
	}
	return e.ok(c, runOf(id, run))
}

// BackfillSchedule answers POST /v1/schedules/{id}/backfill.
func (e *endpoints) BackfillSchedule(c echo.Context, id wire.ScheduleID, params BackfillScheduleParams) error {
	var in wire.Backfill
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	from, until := r.timeRange("from", definition.Moment(in.From), "to", definition.Moment(in.To))
	wanted := control.BackfillRange{From: from, Until: until, Pace: r.pace(in.Pace)}
	if r.err != nil {
		return r.err
	}
	backfill := e.Control.BackfillSchedule
	if params.DryRun {
		backfill = e.Control.PreviewBackfill
	}
	done, err := backfill(c.Request().Context(), callerWith(c, params.IdempotencyKey), id, wanted)
	if err != nil {
		return err
	}
	return e.ok(c, backfillOf(id, done))
}

// PreviewSchedule answers GET /v1/schedules/{id}/next.
func (e *endpoints) PreviewSchedule(c echo.Context, id wire.ScheduleID, params PreviewScheduleParams) error {
	after, err := parseTime("after", params.After)
	if err != nil {
		return err
	}
	if params.Timezone != "" && len(params.Cron) == 0 {
		return task.Invalid("timezone", "says how cron is read: give cron, too")
	}
	if params.Revision != 0 && len(params.Cron) > 0 {
		return task.Invalid("revision", "cannot be given together with cron")
	}
	request := control.NextRequest{
		ID: id, Revision: params.Revision, After: after, Count: cmp.Or(params.Count, defaultNextCount),
	}
	for _, cron := range params.Cron {
		request.Times.Rules = append(request.Times.Rules, schedule.Rule{Cron: cron})
	}
	request.Times.Timezone = params.Timezone
	next, err := e.Control.Next(c.Request().Context(), callerOf(c), request)
	if err != nil {
		return err
	}
	return e.ok(c, previewOf(next))
}

// ReadLedger answers GET /v1/schedules/{id}/ledger.
func (e *endpoints) ReadLedger(c echo.Context, id wire.ScheduleID, params ReadLedgerParams) error {
	var r reader
	filter := control.LedgerFilter{Gaps: params.Gaps}
	filter.Since, filter.Until = r.timeRange("since", r.time("since", params.Since), "until", r.time("until", params.Until))
	if r.err != nil {
		return r.err
	}
	ctx, left := leavingOut(c)
	page, err := e.Control.Ledger(ctx, callerOf(c), id, filter, cmp.Or(params.Limit, defaultListLimit), params.Cursor)
	if err != nil {
		return err
	}
	return e.ok(c, wire.LedgerPage{
		Entries: each(page.Entries, ledgerOf(id)), KnownFrom: wire.AtIfAny(page.ForgottenUntil), NextCursor: wire.Given(page.NextCursor),
		Warnings: left.Texts(),
	})
}

// AuditSchedule answers GET /v1/schedules/{id}/audit.
func (e *endpoints) AuditSchedule(c echo.Context, id wire.ScheduleID, params AuditScheduleParams) error {
	var r reader
	from, to := r.timeRange("from", r.time("from", params.From), "to", r.time("to", params.To))
	if r.err != nil {
		return r.err
	}
	report, err := e.Control.AuditSchedule(c.Request().Context(), callerOf(c), id, from, to)
	if err != nil {
		return err
	}
	return e.ok(c, reportOf(report, id))
}

// ListRevisions answers GET /v1/schedules/{id}/history.
func (e *endpoints) ListRevisions(c echo.Context, id wire.ScheduleID, params ListRevisionsParams) error {
	ctx, left := leavingOut(c)
	page, err := e.Control.Revisions(ctx, callerOf(c), id, params.Cursor)
	if err != nil {
		return err
	}
	return e.ok(c, wire.RevisionList{Revisions: each(page.Revisions, revisionOf), NextCursor: wire.Given(page.NextCursor), Warnings: left.Texts()})
}

// Forecast answers GET /v1/forecast.
func (e *endpoints) Forecast(c echo.Context, params ForecastParams) error {
	ctx, left := leavingOut(c)
	named, err := namedMinutes(params.Within)
	if err != nil {
		return err
	}
	hours := cmp.Or(params.Hours, defaultForecastHours)
	if named > 0 {
		if params.Hours != 0 {
			return task.Invalid("within", "cannot be given together with hours")
		}
		hours = int(namedLimit / time.Hour)
	}
	forecast, err := e.Control.Forecast(ctx, callerOf(c), hours, named)
	if err != nil {
		return err
	}
	out := forecastOf(forecast)
	out.Warnings = left.Texts()
	return e.ok(c, out)
}

// NextTicks answers GET /v1/forecast/next.
func (e *endpoints) NextTicks(c echo.Context, params NextTicksParams) error {
	ctx, left := leavingOut(c)
	next, err := e.Control.NextTicks(ctx, callerOf(c), cmp.Or(params.Count, defaultNextTicks))
	if err != nil {
		return err
	}
	return e.ok(c, wire.NextTickList{
		Ticks: each(next.Ticks, nextTickOf), KnownUntil: wire.AtIfAny(next.KnownUntil), Warnings: left.Texts(),
	})
}

// namedMinutes reads for how many minutes a forecast names what comes; "" for none. Error: CodeInvalid.
func namedMinutes(within string) (int, error) {
	var r reader
	d := r.span("within", within)
	if d > namedLimit {
		r.note(task.Invalid("within", "%s is too long, at most %s is allowed", d, task.FormatDuration(namedLimit)))
	}
	return int((d + time.Minute - 1) / time.Minute), r.err
}

// timeRange checks the two ends of a range, of which either can be left out.
func (r *reader) timeRange(startField string, from time.Time, endField string, until time.Time) (_, _ time.Time) {
	if !until.IsZero() && until.Before(from) {
		r.note(task.Invalid(endField, "is before %s", startField))
	}
	return from, until
}

// pace reads the time between two tasks of a backfill; nil is the default.
func (r *reader) pace(s *string) time.Duration {
	if s == nil {
		return defaultBackfillPace
	}
	d := r.duration("pace", *s)
	switch {
	case d%time.Millisecond != 0:
		r.note(task.Invalid("pace", "%s is not a whole number of milliseconds", d))
	case d > backfillPaceLimit:
		r.note(task.Invalid("pace", "%s is too long, at most %s is allowed", d, task.FormatDuration(backfillPaceLimit)))
	}
	return d
}
