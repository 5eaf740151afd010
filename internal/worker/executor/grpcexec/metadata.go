package grpcexec

import (
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/dts-sched/dts/internal/tracing"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

const idempotencyKey = "idempotency-key"

// metadataOf is what goes with the call of an attempt. The payload's own idempotency key and traceparent win.
func metadataOf(c *grpccall.Call, a executor.Attempt) metadata.MD {
	md := metadata.MD(c.Metadata).Copy()
	md.Set("dts-task-id", a.ID)
	md.Set("dts-attempt", strconv.Itoa(a.Number))
	md.Set("dts-namespace", a.Namespace)
	if tick := a.Tick(); tick != "" {
		md.Set("dts-tick", tick)
	}
	if p := a.Task.Parent; p != nil {
		md.Set("dts-parent-id", p.ID)
		md.Set("dts-parent-state", string(p.State))
		md.Set("dts-parent-attempt", strconv.Itoa(p.Attempt))
	}
	if a.Traceparent != "" && md[tracing.Key] == nil {
		md.Set(tracing.Key, a.Traceparent)
	}
	if md[idempotencyKey] == nil {
		md.Set(idempotencyKey, a.IdempotencyKey())
	}
	return md
}
