package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

const (
	schedulesPath = "/v1/schedules/"
	putSchedule   = "putSchedule" // the operation
)

// PutSchedule answers PUT /v1/schedules/{id}.
func (e *endpoints) PutSchedule(c echo.Context, id wire.ScheduleID, params PutScheduleParams) error {
	var in wire.ScheduleDefinition
	if err := bind(c, &in); err != nil {
		return err
	}
	who, err := callerIn(c, wire.Value(in.Namespace))
	if err != nil {
		return err
	}
	d, wrong := definition.Schedule(in, id)
	o, err := putOptionsOf(params.IfMatch, params.IfNoneMatch, params.DryRun)
	if err != nil {
		return err
	}
	o.Paused, o.Faults = in.Paused, task.Join(faultsOf(c), wrong)
	ctx, left := leavingOut(c)
	put, err := e.Control.PutSchedule(ctx, who, d, o)
	if err != nil {
		return err
	}
	c.Response().Header().Set(changeHeader, changeBy(put.Created, put.Changed || put.Switched))
	tagRevision(c, put.Schedule.Revision)
	out := scheduleOf(put.Schedule)
	out.Warnings = slices.Concat(left.Texts(), put.Warnings)
	if !put.Created || params.DryRun {
		return e.ok(c, out)
	}
	c.Response().Header().Set(echo.HeaderLocation, location(schedulesPath, put.Schedule.Ref))
	return e.server.JSON(c, http.StatusCreated, out)
}

// changeBy says what came of a PUT.
func changeBy(created, changed bool) string {
	switch {
	case created:
		return "created"
	case changed:
		return "changed"
	}
	return "unchanged"
}

// putOptionsOf reads what makes a PUT conditional, and what else it asks for.
func putOptionsOf(ifMatch wire.IfMatch, ifNoneMatch string, dryRun bool) (control.PutOptions, error) {
	if ifMatch != "" && ifNoneMatch != "" {
		return control.PutOptions{}, task.Invalid("If-None-Match", "give If-Match or If-None-Match, not both")
	}
	revision, exists := matchOf(ifMatch)
	return control.PutOptions{IfMatch: revision, IfExists: exists, IfAbsent: ifNoneMatch != "", DryRun: dryRun}, nil
}

// GetSchedule answers GET /v1/schedules/{id}.
func (e *endpoints) GetSchedule(c echo.Context, id wire.ScheduleID, _ GetScheduleParams) error {
	ctx, left := leavingOut(c)
	s, err := e.Control.GetSchedule(ctx, callerOf(c), id)
	if err != nil {
		return err
	}
	tagRevision(c, s.Revision)
	out := scheduleOf(s)
	heldBack := e.Control.WhyHeldBack(ctx, s)
	out.Warnings = slices.Concat(left.Texts(), heldBack)
	return e.ok(c, out)
}

// ListSchedules answers GET /v1/schedules.
func (e *endpoints) ListSchedules(c echo.Context, params ListSchedulesParams) error {
	labels, err := labelsOf(params.Label)
	if err != nil {
		return err
	}
	var r reader
	filter := control.ScheduleFilter{
		Prefix: params.Prefix, Paused: params.Paused, Owner: params.Owner, Labels: labels,
		Condition: schedule.Condition(params.Condition), StaleAfter: r.span("stale_after", params.StaleAfter),
	}
	if r.err != nil {
		return r.err
	}
	ctx, left := leavingOut(c)
	limit := cmp.Or(params.Limit, defaultListLimit)
	page, err := e.Control.ListSchedules(ctx, callerOf(c), filter, limit, params.Cursor)
	if err != nil {
		return err
	}
	schedules, err := schedulesOf(ctx, page.Schedules)
	if err != nil {
		return err
	}
	return e.ok(c, wire.ScheduleList{
		Schedules: schedules, NextCursor: wire.Given(page.NextCursor),
		Incomplete: wire.Given(page.NextCursor != "" && len(schedules) < limit),
		Warnings:   left.Texts(),
	})
}

// schedulesOf is a page of schedules as the API shows them. To find the next tick of one with many exclusions takes up
// to 10 ms. Error: that of ctx.
func schedulesOf(ctx context.Context, page []schedule.Schedule) ([]wire.Schedule, error) {
	schedules := make([]wire.Schedule, 0, len(page))
	for _, s := range page {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		schedules = append(schedules, scheduleOf(s))
	}
	return schedules, nil
}

// DeleteSchedule answers DELETE /v1/schedules/{id}.
func (e *endpoints) DeleteSchedule(c echo.Context, id wire.ScheduleID, params DeleteScheduleParams) error {
	if c.Request().Header.Get("If-Match") != "" {
		return task.Invalid("If-Match", "is not known to DELETE: leave it out")
	}
	tasks := cmp.Or(control.DeleteTasks(params.Tasks), control.DeleteWaiting)
	remove := e.Control.DeleteSchedule
	if params.DryRun {
		remove = e.Control.PreviewDelete
	}
	deleted, err := remove(c.Request().Context(), callerOf(c), id, tasks)
	if err != nil {
		return err
	}
	return e.ok(c, deletionOf(deleted))
}

// PauseSchedule answers POST /v1/schedules/{id}/pause.
func (e *endpoints) PauseSchedule(c echo.Context, id wire.ScheduleID, _ PauseScheduleParams) error {
	var in wire.SchedulePause
	if err := bind(c, &in); err != nil {
		return err
	}
	ctx, left := leavingOut(c)
	s, err := e.Control.PauseSchedule(ctx, callerOf(c), id, wire.Value(in.Note))
	return e.answerSchedule(c, s, left, err)
}

// ResumeSchedule answers POST /v1/schedules/{id}/resume.
func (e *endpoints) ResumeSchedule(c echo.Context, id wire.ScheduleID, _ ResumeScheduleParams) error {
	ctx, left := leavingOut(c)
	s, err := e.Control.ResumeSchedule(ctx, callerOf(c), id)
	return e.answerSchedule(c, s, left, err)
}

// RollbackSchedule answers POST /v1/schedules/{id}/rollback.
func (e *endpoints) RollbackSchedule(c echo.Context, id wire.ScheduleID, params RollbackScheduleParams) error {
	var in wire.Rollback
	if err := bind(c, &in); err != nil {
		return err
	}
	ifMatch, _ := matchOf(params.IfMatch) // there is one, or there is nothing to roll back
	ctx, left := leavingOut(c)
	rollback := e.Control.RollbackSchedule
	if params.DryRun {
		rollback = e.Control.PreviewRollback
	}
	put, err := rollback(ctx, callerOf(c), id, in.Revision, ifMatch)
	return e.answerSchedule(c, put.Schedule, left, err, put.Warnings...)
}

// answerSchedule answers one schedule, with its revision as the ETag, and with what was left out, and other warnings.
func (e *endpoints) answerSchedule(
	c echo.Context, s schedule.Schedule, left *redisx.LeftOut, err error, warnings ...string,
) error {
	if err != nil {
		return err
	}
	tagRevision(c, s.Revision)
	out := scheduleOf(s)
	out.Warnings = slices.Concat(left.Texts(), warnings)
	return e.ok(c, out)
}

func tagRevision(c echo.Context, revision int) {
	c.Response().Header().Set("ETag", fmt.Sprintf("\"%d\"", revision))
}
