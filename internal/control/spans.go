package control

import (
	"context"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/tracing"
)

// beginSpans begins a span for each submission, and has the task keep it, for its attempts.
func (c *Control) beginSpans(ctx context.Context, who Caller, defs []task.Definition) []tracing.Span {
	spans := make([]tracing.Span, len(defs))
	for i := range defs {
		spans[i] = c.tracer.Submit(ctx, who.Traceparent, defs[i])
		defs[i].Trace = spans[i].Traceparent()
	}
	return spans
}

// endSpans ends the spans of submissions. err is the error of all of them, if there is one.
func endSpans(spans []tracing.Span, answers []Submitted, err error) {
	for i, span := range spans {
		if err != nil {
			span.Submitted(false, err)
			continue
		}
		span.Submitted(answers[i].Existed, answers[i].Err)
	}
}
