package api

import (
	"github.com/labstack/echo/v4"

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
	return e.ok(c, DoctorReport{Checks: each(report.Results, checkOf), NextCursor: report.NextCursor})
}

func checkOf(r control.DoctorResult) DoctorCheck {
	return DoctorCheck{
		Name: r.Name, Severity: DoctorCheckSeverity(r.Severity), Looked: r.Looked, Found: r.Found, Repaired: r.Repaired,
		Detail: r.Detail, Examples: r.Examples, PassedOver: r.PassedOver, Means: r.Meaning(r.Severity),
		Repair: r.Check.Repair, Repairs: r.Repairs,
	}
}
