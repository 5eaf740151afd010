package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// ForgetTask answers POST /v1/tasks/{id}/forget.
func (e *endpoints) ForgetTask(c echo.Context, id wire.TaskID, _ ForgetTaskParams) error {
	if err := e.Control.ForgetTask(c.Request().Context(), callerOf(c), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// PreviewBulk answers POST /v1/bulk/preview.
func (e *endpoints) PreviewBulk(c echo.Context, _ PreviewBulkParams) error {
	request, err := bulkRequestOf(c)
	if err != nil {
		return err
	}
	p, err := e.Control.PreviewBulk(c.Request().Context(), callerOf(c), request)
	if err != nil {
		return err
	}
	shown := func(t task.Task) wire.Task { return e.explained(c, t) }
	return e.ok(c, wire.BulkPreview{
		Total: p.Total, About: wire.Given(p.About), AsOf: wire.Time{Time: p.AsOf}, Examples: each(p.Examples, shown),
		Warnings: warningsOf(nil, p.Missing),
	})
}

// StartBulk answers POST /v1/bulk.
func (e *endpoints) StartBulk(c echo.Context, _ StartBulkParams) error {
	request, err := bulkRequestOf(c)
	if err != nil {
		return err
	}
	b, err := e.Control.StartBulk(c.Request().Context(), callerOf(c), request)
	if err != nil {
		return err
	}
	return e.server.JSON(c, http.StatusCreated, bulkOf(b))
}

// ListBulks answers GET /v1/bulk.
func (e *endpoints) ListBulks(c echo.Context, _ ListBulksParams) error {
	ctx, left := leavingOut(c)
	all, err := e.Control.ListBulks(ctx, callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, wire.BulkList{Bulks: each(all, bulkOf), Warnings: left.Texts()})
}

// GetBulk answers GET /v1/bulk/{bulk}.
func (e *endpoints) GetBulk(c echo.Context, id wire.BulkID) error {
	b, err := e.Control.GetBulk(c.Request().Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	return e.ok(c, bulkOf(b))
}

// StopBulk answers POST /v1/bulk/{bulk}/stop.
func (e *endpoints) StopBulk(c echo.Context, id wire.BulkID) error {
	b, err := e.Control.StopBulk(c.Request().Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	return e.ok(c, bulkOf(b))
}

// bulkRequestOf reads the body of a request for a bulk action. Error: CodeInvalid.
func bulkRequestOf(c echo.Context) (control.BulkRequest, error) {
	var in wire.BulkRequest
	if err := bind(c, &in); err != nil {
		return control.BulkRequest{}, err
	}
	var r reader
	request := control.BulkRequest{
		Action: control.BulkAction(in.Action), ToQueue: wire.Value(in.ToQueue), Note: wire.Value(in.Note),
		Spread: r.duration("spread", wire.Value(in.Spread)), AsOf: wire.Value(in.AsOf).Time,
	}
	if in.Filter != nil {
		request.Filter = selectionOf(*in.Filter)
	}
	return request, r.err
}

// selectionOf is the filter that a selection asks for.
func selectionOf(in wire.TaskSelection) control.TaskFilter {
	f := control.TaskFilter{
		States: statesOf(in.State), Queue: wire.Value(in.Queue), Type: wire.Value(in.Type),
		Owner: wire.Value(in.Owner), Node: wire.Value(in.Node), Schedule: wire.Value(in.Schedule),
		Labels: wire.Value(in.Labels), Error: wire.Value(in.Error),
	}
	span := control.TaskSpan{Since: wire.Value(in.Since).Time, Until: wire.Value(in.Until).Time}
	f.Limit(string(wire.Value(in.Time)), span)
	return f
}

// bulkOf is a bulk action as the API shows it.
func bulkOf(b control.Bulk) wire.Bulk {
	who := control.Caller{Name: b.Name, Verified: b.Verified, Address: b.Address}
	shown := wire.Bulk{
		ID: b.ID, Action: wire.BulkAction(b.Action), Namespace: b.Filter.Namespace, Filter: shownSelection(b.Filter, b.AsOf),
		ToQueue: wire.Given(b.ToQueue), Note: wire.Given(b.Note), By: wire.Given(who.By()), State: wire.BulkState(b.State),
		Total: b.Total, About: wire.Given(b.About), Changed: b.Changed, Skipped: b.Skipped, Failed: b.Failed,
		Error: wire.Given(b.Error), AsOf: wire.Time{Time: b.AsOf}, StartedAt: wire.Time{Time: b.StartedAt},
		EndedAt: wire.AtIfAny(b.EndedAt),
	}
	if b.Spread > 0 {
		shown.Spread = wire.Given(b.Spread.String())
	}
	return shown
}

// shownSelection is the filter of a bulk action as the API shows it. asOf is shown beside it, so that tasks up to then
// are meant is left out.
func shownSelection(f control.TaskFilter, asOf time.Time) wire.TaskSelection {
	s := wire.TaskSelection{
		Queue: wire.Given(f.Queue), Type: wire.Given(f.Type), Owner: wire.Given(f.Owner), Node: wire.Given(f.Node),
		Schedule: wire.Given(f.Schedule), Error: wire.Given(f.Error),
	}
	for _, state := range f.States {
		s.State = append(s.State, wire.State(state))
	}
	s.Labels = wire.LabelsOf(f.Labels)
	for by, span := range map[wire.TaskTime]control.TaskSpan{
		wire.TaskTimeCreated: f.Created, wire.TaskTimeDue: f.Due, wire.TaskTimeEnded: f.Ended,
	} {
		if span.Until.Equal(asOf.Add(time.Millisecond)) {
			span.Until = time.Time{}
		}
		if span != (control.TaskSpan{}) {
			s.Since, s.Until, s.Time = wire.AtIfAny(span.Since), wire.AtIfAny(span.Until), &by
		}
	}
	return s
}
