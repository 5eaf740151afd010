package api

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
)

// Examine answers GET /v1/doctor.
func (e *endpoints) Examine(c echo.Context, params ExamineParams) error {
	return e.examine(c, control.DoctorRequest{Checks: params.Check, Partition: params.Partition, Cursor: params.Cursor})
}

// Repair answers POST /v1/doctor/repair.
func (e *endpoints) Repair(c echo.Context, params RepairParams) error {
	return e.examine(c, control.DoctorRequest{Checks: params.Check, Partition: params.Partition, Cursor: params.Cursor, Repair: true})
}

func (e *endpoints) examine(c echo.Context, r control.DoctorRequest) error {
	report, err := e.Control.Examine(c.Request().Context(), callerOf(c), r)
	if err != nil {
		return err
	}
	return e.ok(c, wire.DoctorReport{Checks: each(report.Results, checkOf), NextCursor: wire.Given(report.NextCursor)})
}

func checkOf(r control.DoctorResult) wire.DoctorCheck {
	return wire.DoctorCheck{
		Name: r.Name, Severity: wire.DoctorCheckSeverity(r.Severity), Looked: r.Looked, Found: r.Found, Repaired: r.Repaired,
		Detail: wire.Given(r.Detail), Examples: r.Examples, PassedOver: wire.Given(r.PassedOver), Means: r.Meaning(r.Severity),
		Repair: r.Check.Repair, Repairs: r.Repairs,
	}
}
