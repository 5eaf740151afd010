package api

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
)

// GetMemory answers GET /v1/memory.
func (e *endpoints) GetMemory(c echo.Context) error {
	ctx, left := leavingOut(c)
	r, err := e.Control.GetMemory(ctx, callerOf(c))
	if err != nil {
		return err
	}
	out := wire.MemoryReport{
		Warnings: append(left.Texts(), r.Warnings...),
		Unknown:  wire.Given(r.Unknown), Max: wire.Given(r.Limit), Kinds: each(r.Kinds, memoryOfKind),
		Namespaces: each(r.Namespaces, memoryOfNamespace), Schedules: each(r.Schedules, memoryOfSchedule),
	}
	if r.Unknown == "" {
		out.Used, out.Keys = wire.Given(r.Used), &r.Keys
		out.SchedulesMeasured, out.SchedulesInAll = &r.Measured, &r.Existing
	}
	return e.ok(c, out)
}

func memoryOfKind(k control.MemoryOfKind) wire.MemoryOfKind {
	return wire.MemoryOfKind{Kind: wire.MemoryOfKindKind(k.Kind), Bytes: k.Bytes}
}

func memoryOfNamespace(n control.MemoryOfNamespace) wire.MemoryOfNamespace {
	return wire.MemoryOfNamespace{
		Name: n.Name, Tasks: n.Tasks, TaskBytes: n.TaskBytes, Schedules: n.Schedules, ScheduleBytes: n.ScheduleBytes,
	}
}

func memoryOfSchedule(s control.MemoryOfSchedule) wire.MemoryOfSchedule {
	return wire.MemoryOfSchedule{
		ID: s.Ref.ID, Namespace: s.Ref.Namespace, Bytes: s.Bytes(), OwnBytes: s.Own, HistoryBytes: s.History,
		LedgerBytes: s.Ledger, TaskBytes: s.Runs,
	}
}
