package tracing

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// library names what makes the spans.
const library = "github.com/dts-sched/dts"

// Names of attributes. Those of messaging are OpenTelemetry's.
const (
	system      = attribute.Key("messaging.system")
	operation   = attribute.Key("messaging.operation.name")
	kindOf      = attribute.Key("messaging.operation.type")
	destination = attribute.Key("messaging.destination.name")
	message     = attribute.Key("messaging.message.id")
	errorType   = attribute.Key("error.type")
	taskType    = attribute.Key("dts.task.type")
	number      = attribute.Key("dts.attempt")
	outcomeOf   = attribute.Key("dts.outcome")
	existed     = attribute.Key("dts.existed")
)

// Tracer makes the spans of tasks. nil makes none.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer whose spans go to a provider; nil for none.
func New(provider trace.TracerProvider) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{provider.Tracer(library)}
}

// Submit begins the span of a submission: below the span of that traceparent or, if that is "" or none, of ctx.
func (t *Tracer) Submit(ctx context.Context, traceparent string, d task.Definition) Span {
	if t == nil {
		return Span{}
	}
	_, span := t.tracer.Start(below(ctx, traceparent), "submit "+queueOf(d.Queue),
		trace.WithSpanKind(trace.SpanKindProducer), about("submit", d.Ref, d.Type, d.Queue),
		trace.WithAttributes(kindOf.String("send")))
	return Span{span}
}

// HandOver makes the span of a delivery that was due and has come into its queue, by the clock of this node. It makes
// none for a task that has no trace.
func (t *Tracer) HandOver(d task.Delivery, due, delivered time.Time) {
	if t == nil || d.Trace == "" {
		return
	}
	if due.After(delivered) {
		due = delivered
	}
	_, span := t.tracer.Start(below(context.Background(), d.Trace), "hand-over "+queueOf(d.Queue),
		trace.WithTimestamp(due), about("hand-over", d.Ref, d.Type, d.Queue), trace.WithAttributes(number.Int(d.Attempt)))
	span.End(trace.WithTimestamp(delivered))
}

// Attempt begins the span of the newest attempt of a task, and returns a context that has it; ctx if there is no span.
func (t *Tracer) Attempt(ctx context.Context, of task.Task) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.attempt(ctx, of)
}

func (t *Tracer) attempt(ctx context.Context, of task.Task, options ...trace.SpanStartOption) (context.Context, Span) {
	if of.Trace == "" {
		if _, _, tick := schedule.OfTask(of.Ref); !tick {
			return ctx, Span{}
		}
		options = append(options, trace.WithNewRoot())
	}
	options = append(options, trace.WithSpanKind(trace.SpanKindConsumer), about("attempt", of.Ref, of.Type, of.Queue),
		trace.WithAttributes(kindOf.String("process"), number.Int(of.Attempt)))
	ctx, span := t.tracer.Start(below(ctx, of.Trace), "attempt "+queueOf(of.Queue), options...)
	return ctx, Span{span}
}

// Lend returns the traceparent of the newest attempt of a task, whose span Return makes; "" for none. It is the same
// one whenever it is asked for the same run.
func (t *Tracer) Lend(of task.Task) string {
	if t == nil {
		return ""
	}
	_, span := t.attempt(withRun(context.Background(), of.Run), of)
	return span.Traceparent() // a span that is never ended goes nowhere
}

// Return makes the span of an attempt that was lent and has ended, by the clock of Redis.
func (t *Tracer) Return(of task.Task, outcome task.Outcome, reason string, ended time.Time) {
	if t == nil {
		return
	}
	_, span := t.attempt(withRun(context.Background(), of.Run), of, trace.WithTimestamp(of.StartedAt))
	span.Outcome(outcome, reason)
	span.end(trace.WithTimestamp(ended))
}

// about says which task a span is about.
func about(name string, ref task.Ref, kind, queue string) trace.SpanStartEventOption {
	return trace.WithAttributes(system.String("dts"), operation.String(name), destination.String(queueOf(queue)),
		message.String(ref.String()), taskType.String(kind))
}

// queueOf is the queue of a definition that may leave it out.
func queueOf(queue string) string { return cmp.Or(queue, task.DefaultQueue) }

// Span is a span that has begun. The zero Span is none.
type Span struct{ span trace.Span }

// Traceparent names the span to others; "" for none, and for one that is not sampled.
func (s Span) Traceparent() string {
	if s.span == nil || !s.span.SpanContext().IsSampled() {
		return ""
	}
	return traceparentOf(s.span.SpanContext())
}

// Submitted ends the span of a submission. there says that the task was there before.
func (s Span) Submitted(there bool, err error) {
	if s.span == nil {
		return
	}
	if there {
		s.span.SetAttributes(existed.Bool(true))
	}
	if err != nil {
		s.span.SetAttributes(errorType.String(string(cmp.Or(task.CodeOf(err), task.CodeInternal))))
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// Outcome says how the attempt of a span ended. A cancelled attempt is no error, as somebody wanted that, and neither
// are a snoozed and a moved one, which are only made later or elsewhere.
func (s Span) Outcome(outcome task.Outcome, reason string) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(outcomeOf.String(string(outcome)))
	switch outcome {
	case task.OutcomeFailed, task.OutcomeTimeout, task.OutcomeLost:
		s.span.SetAttributes(errorType.String(string(outcome)))
		s.span.SetStatus(codes.Error, reason)
	}
}

// End ends a span.
func (s Span) End() { s.end() }

func (s Span) end(options ...trace.SpanEndOption) {
	if s.span != nil {
		s.span.End(options...)
	}
}
