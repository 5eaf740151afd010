package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

// ScheduleStore keeps schedules. Errors are *task.Error, with the codes named here and CodeUnavailable; those about
// one schedule that is there already can be CodeScheduleNotFound, too.
type ScheduleStore interface {
	// PutSchedule creates a schedule or replaces its definition: CodeInvalid, CodeScheduleChanged.
	PutSchedule(ctx context.Context, d schedule.Definition, o store.PutOptions) (store.Put, error)
	GetSchedule(ctx context.Context, ref task.Ref) (schedule.Schedule, error)
	// ListSchedules answers in the order of the ids; CodeInvalid for a cursor that cannot be read.
	ListSchedules(ctx context.Context, f store.ScheduleFilter, limit int, cursor string) (store.SchedulePage, error)
	PauseSchedule(ctx context.Context, ref task.Ref, note string) (schedule.Schedule, error)
	ResumeSchedule(ctx context.Context, ref task.Ref) (schedule.Schedule, error)
	// TriggerSchedule runs it now; the outcome is Triggered or Queued: CodeScheduleBusy.
	TriggerSchedule(ctx context.Context, ref task.Ref) (schedule.Entry, error)
	// Backfill runs the past ticks of a range that did not run: CodeInvalid for the range.
	Backfill(ctx context.Context, ref task.Ref, from, until time.Time, pace time.Duration) (store.Backfilled, error)
	DeleteSchedule(ctx context.Context, ref task.Ref, tasks store.DeleteTasks) (store.Deleted, error)
	// Ledger answers the newest first; CodeInvalid for a cursor that cannot be read.
	Ledger(ctx context.Context, ref task.Ref, f store.LedgerFilter, limit int, cursor string) (store.LedgerPage, error)
	// Audit compares the ledger with what should be in it; zero: as far back as can be said, and up to now.
	// CodeInvalid for a range of too many ticks.
	Audit(ctx context.Context, ref task.Ref, from, until time.Time) (schedule.Report, error)
	// History answers the revisions that are remembered, the newest first.
	History(ctx context.Context, ref task.Ref) ([]schedule.Revision, error)
	// Rollback makes an earlier definition the present one; ifMatch is as in store.PutOptions.
	// CodeRevisionNotFound, CodeScheduleChanged, CodeInvalid.
	Rollback(ctx context.Context, ref task.Ref, revision, ifMatch int) (store.Put, error)
	Next(ctx context.Context, ref task.Ref, after time.Time, count int) (schedule.Preview, error) // zero: after now
	// Forecast counts what is ahead; namespace "*" is all of them.
	Forecast(ctx context.Context, namespace string, hours int) (schedule.Forecast, error)
}

const schedulesPath = "/v1/schedules/"

// PutSchedule answers PUT /v1/schedules/{id}.
func (e *endpoints) PutSchedule(c echo.Context, id ScheduleID, params PutScheduleParams) error {
	ctx := c.Request().Context()
	if err := e.Admit(ctx); err != nil {
		return err
	}
	var in ScheduleDefinition
	if err := bind(c, &in); err != nil {
		return err
	}
	d, err := scheduleDefinitionOf(in, id, params.Namespace)
	if err != nil {
		return err
	}
	put, err := e.put(ctx, d, in.Paused, params)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Dts-Change", changeBy(put))
	if !put.Created || params.DryRun {
		return answerSchedule(c, put.Schedule, nil)
	}
	c.Response().Header().Set(echo.HeaderLocation, location(schedulesPath, put.Schedule.Ref))
	tagRevision(c, put.Schedule)
	return reply(c, http.StatusCreated, jsonType, scheduleOf(put.Schedule))
}

// changeBy says what came of a PUT.
func changeBy(put store.Put) string {
	switch {
	case put.Created:
		return "created"
	case put.Changed || put.Switched:
		return "changed"
	}
	return "unchanged"
}

// put obeys the headers that make a PUT conditional.
func (e *endpoints) put(ctx context.Context, d schedule.Definition, paused *bool, params PutScheduleParams) (store.Put, error) {
	if params.IfMatch != "" && params.IfNoneMatch != "" {
		return store.Put{}, task.Invalid("If-None-Match", "give If-Match or If-None-Match, not both")
	}
	revision, anyone := matchOf(params.IfMatch)
	o := store.PutOptions{IfMatch: revision, IfAbsent: params.IfNoneMatch != "", Paused: paused, DryRun: params.DryRun}
	if anyone {
		return e.putOver(ctx, d, o)
	}
	return e.Schedules.PutSchedule(ctx, d, o)
}

// replaceTries is how often a definition is put over whatever is there, if that changes between looking and putting.
const replaceTries = 5

// putOver replaces the definition of a schedule, whatever its revision, but creates none.
func (e *endpoints) putOver(ctx context.Context, d schedule.Definition, o store.PutOptions) (store.Put, error) {
	for try := 1; ; try++ {
		old, err := e.Schedules.GetSchedule(ctx, d.Ref)
		switch {
		case task.CodeOf(err) == task.CodeScheduleNotFound:
			return store.Put{}, task.Errorf(task.CodeScheduleChanged, "there is no schedule %q to replace", d.ID)
		case err != nil:
			return store.Put{}, err
		}
		o.IfMatch = old.Revision
		put, err := e.Schedules.PutSchedule(ctx, d, o)
		if task.CodeOf(err) != task.CodeScheduleChanged || try == replaceTries {
			return put, err
		}
	}
}

// GetSchedule answers GET /v1/schedules/{id}.
func (e *endpoints) GetSchedule(c echo.Context, id ScheduleID, params GetScheduleParams) error {
	s, err := e.Schedules.GetSchedule(c.Request().Context(), refOf(params.Namespace, id))
	return answerSchedule(c, s, err)
}

// ListSchedules answers GET /v1/schedules.
func (e *endpoints) ListSchedules(c echo.Context, params ListSchedulesParams) error {
	labels, err := labelsOf(params.Label)
	if err != nil {
		return err
	}
	filter := store.ScheduleFilter{
		Namespace: cmp.Or(params.Namespace, task.DefaultNamespace), Paused: params.Paused, Owner: params.Owner, Labels: labels,
	}
	page, err := e.Schedules.ListSchedules(c.Request().Context(), filter, cmp.Or(params.Limit, defaultListLimit), params.Cursor)
	if err != nil {
		return err
	}
	return ok(c, ScheduleList{Schedules: each(page.Schedules, scheduleOf), NextCursor: page.NextCursor})
}

// DeleteSchedule answers DELETE /v1/schedules/{id}.
func (e *endpoints) DeleteSchedule(c echo.Context, id ScheduleID, params DeleteScheduleParams) error {
	if c.Request().Header.Get("If-Match") != "" {
		return task.Invalid("If-Match", "is not known to DELETE: leave it out")
	}
	tasks := cmp.Or(store.DeleteTasks(params.Tasks), store.DeleteWaiting)
	deleted, err := e.Schedules.DeleteSchedule(c.Request().Context(), refOf(params.Namespace, id), tasks)
	if err != nil {
		return err
	}
	return ok(c, ScheduleDeletion{Cancelled: deleted.Cancelled, Stopping: deleted.Stopping, Left: deleted.Left})
}

// PauseSchedule answers POST /v1/schedules/{id}/pause.
func (e *endpoints) PauseSchedule(c echo.Context, id ScheduleID, params PauseScheduleParams) error {
	var in SchedulePause
	if err := bind(c, &in); err != nil {
		return err
	}
	if len(in.Note) > schedule.NoteLimit {
		return task.Invalid("note", "is %d bytes long, at most %d are allowed", len(in.Note), schedule.NoteLimit)
	}
	s, err := e.Schedules.PauseSchedule(c.Request().Context(), refOf(params.Namespace, id), in.Note)
	return answerSchedule(c, s, err)
}

// ResumeSchedule answers POST /v1/schedules/{id}/resume.
func (e *endpoints) ResumeSchedule(c echo.Context, id ScheduleID, params ResumeScheduleParams) error {
	s, err := e.Schedules.ResumeSchedule(c.Request().Context(), refOf(params.Namespace, id))
	return answerSchedule(c, s, err)
}

// RollbackSchedule answers POST /v1/schedules/{id}/rollback.
func (e *endpoints) RollbackSchedule(c echo.Context, id ScheduleID, params RollbackScheduleParams) error {
	var in Rollback
	if err := bind(c, &in); err != nil {
		return err
	}
	ifMatch, _ := matchOf(params.IfMatch) // there is one, or there is nothing to roll back
	put, err := e.Schedules.Rollback(c.Request().Context(), refOf(params.Namespace, id), in.Revision, ifMatch)
	return answerSchedule(c, put.Schedule, err)
}

// answerSchedule answers one schedule, with its revision as the ETag.
func answerSchedule(c echo.Context, s schedule.Schedule, err error) error {
	if err != nil {
		return err
	}
	tagRevision(c, s)
	return ok(c, scheduleOf(s))
}

func tagRevision(c echo.Context, s schedule.Schedule) {
	c.Response().Header().Set("ETag", fmt.Sprintf("\"%d\"", s.Revision))
}
