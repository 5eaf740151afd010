package control

import (
	"context"

	"github.com/dts-sched/dts/internal/store/usage"
)

// MemoryReport is what the data takes in Redis, as an estimate.
type MemoryReport = usage.Report

// MemoryOfKind, MemoryOfNamespace and MemoryOfSchedule are parts of a MemoryReport.
type (
	MemoryOfKind      = usage.KindUsage
	MemoryOfNamespace = usage.Namespace
	MemoryOfSchedule  = usage.ScheduleUsage
)

// GetMemory estimates what the data of all namespaces takes in Redis. It makes one estimate at a time, as each costs
// Redis some 100 ms. An embedded Redis does not measure its keys; the report says so. Errors: CodeUnavailable, or that
// of ctx.
func (c *Control) GetMemory(ctx context.Context, who Caller) (MemoryReport, error) {
	if _, err := c.begin(ctx, who, "getMemory"); err != nil {
		return MemoryReport{}, err
	}
	if c.embedded {
		return MemoryReport{Unknown: "an embedded Redis does not measure its keys"}, nil
	}
	end, err := c.estimates.take(ctx, c.store.DB.Link().Answers)
	if err != nil {
		return MemoryReport{}, err
	}
	defer end()
	return usage.Read(ctx, c.store.Layout)
}
