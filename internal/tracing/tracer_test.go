package tracing

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// record returns a Tracer whose spans are recorded.
func record(options ...sdk.TracerProviderOption) (*Tracer, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	options = append(options, sdk.WithSpanProcessor(r), sdk.WithIDGenerator(IDs{}))
	return New(sdk.NewTracerProvider(options...)), r
}

// running is a task whose second attempt runs.
func running(id, trace string) task.Task {
	t := task.Task{State: task.Running, Attempt: 2, Run: "node-a#" + id, StartedAt: time.UnixMilli(1_767_355_200_000)}
	t.Ref, t.Type, t.Queue, t.Trace = task.Ref{Namespace: "shop", ID: id}, "http", "low", trace
	return t
}

func TestTracer_AllocatesNothingWhileItIsOff(t *testing.T) {
	var off *Tracer
	ctx, failure, of := context.Background(), errors.New("x"), running("a", parent)
	d := task.Delivery{Ref: of.Ref, Queue: of.Queue, Trace: of.Trace}
	for name, do := range map[string]func(){
		"submission": func() {
			span := off.Submit(ctx, parent, of.Definition)
			_ = span.Traceparent()
			span.Submitted(false, failure)
		},
		"hand-over": func() { off.HandOver(d, time.Time{}, time.Time{}) },
		"attempt": func() {
			_, span := off.Attempt(ctx, of)
			_ = span.Traceparent()
			span.Outcome(task.OutcomeFailed, "x")
			span.End()
		},
		"worker by HTTP": func() { _ = off.Lend(of); off.Return(of, task.OutcomeFailed, "x", time.Time{}) },
		"request":        func() { _ = FromContext(ctx) },
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if New(nil) != nil {
		t.Error("without a provider, there is a tracer")
	}
}

func TestTracer_AllocatesNothingForATaskWithoutTrace(t *testing.T) {
	on, _ := record()
	ctx, of := context.Background(), running("a", "")
	if n := testing.AllocsPerRun(100, func() {
		on.HandOver(task.Delivery{Ref: of.Ref}, time.Time{}, time.Time{})
		_, span := on.Attempt(ctx, of)
		span.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSubmit_IsBelowTheRequestOrElseTheContext(t *testing.T) {
	t.Parallel()
	on, spans := record()
	ctx := below(context.Background(), "00-11111111111111111111111111111111-2222222222222222-01")
	for given, want := range map[string]string{
		parent:           "0af7651916cd43dd8448eb211c80319c",
		"":               "11111111111111111111111111111111",
		"00-broken":      "11111111111111111111111111111111",
		parent + "-more": "11111111111111111111111111111111",
	} {
		span := on.Submit(ctx, given, running("a", "").Definition)
		span.Submitted(true, nil)
		ended := spans.Ended()
		got := ended[len(ended)-1]
		if got.SpanContext().TraceID().String() != want || span.Traceparent() != traceparentOf(got.SpanContext()) {
			t.Errorf("with %q: %s, traceparent %s", given, got.SpanContext().TraceID(), span.Traceparent())
		}
	}
}

// A caller whose own trace is not sampled gets no spans, and the task keeps no trace.
func TestSubmit_FollowsTheCallersSampling(t *testing.T) {
	t.Parallel()
	on, spans := record(sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())))
	span := on.Submit(context.Background(), parent[:len(parent)-1]+"0", running("a", "").Definition)
	span.Submitted(false, nil)
	if len(spans.Ended()) != 0 || span.Traceparent() != "" {
		t.Errorf("%d spans, traceparent %q", len(spans.Ended()), span.Traceparent())
	}
}

func TestAttempt_SaysHowItEnded(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[task.Outcome]codes.Code{
		task.OutcomeSucceeded: codes.Unset, task.OutcomeCancelled: codes.Unset, task.OutcomeFailed: codes.Error,
		task.OutcomeTimeout: codes.Error, task.OutcomeLost: codes.Error, task.OutcomeSnoozed: codes.Unset,
	} {
		on, spans := record()
		ctx, span := on.Attempt(context.Background(), running("a", parent))
		span.Outcome(outcome, "why")
		span.End()
		got := spans.Ended()[0]
		if got.Status().Code != want || (want == codes.Error) != (got.Status().Description == "why") {
			t.Errorf("%s: status %+v", outcome, got.Status())
		}
		if got.Name() != "attempt low" || got.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("%s: %s, %s", outcome, got.Name(), got.SpanKind())
		}
		if below := got.Parent().SpanID().String(); below != "b7ad6b7169203331" {
			t.Errorf("%s: below %s", outcome, below)
		}
		has := attribute.NewSet(got.Attributes()...)
		for key, value := range map[attribute.Key]string{
			"messaging.system": "dts", "messaging.operation.name": "attempt", "messaging.operation.type": "process",
			"messaging.destination.name": "low", "messaging.message.id": "shop:a", "dts.task.type": "http", "dts.attempt": "2",
			"dts.outcome": string(outcome),
		} {
			if v, _ := has.Value(key); v.String() != value {
				t.Errorf("%s: %s is %q, want %q", outcome, key, v.String(), value)
			}
		}
		if FromContext(ctx) != traceparentOf(got.SpanContext()) {
			t.Errorf("%s: the context has not the span", outcome)
		}
	}
}

func TestAttempt_BeginsATraceForATick(t *testing.T) {
	t.Parallel()
	on, spans := record()
	caller := below(context.Background(), parent) // of whoever runs the worker
	for _, id := range []string{"nightly@20260102T150405Z", "a"} {
		_, span := on.Attempt(caller, running(id, ""))
		span.End()
	}
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Parent().IsValid() {
		t.Errorf("%d spans, want one for the tick, which begins a trace", len(ended))
	}
}

func TestReturn_MakesTheSpanThatWasLent(t *testing.T) {
	t.Parallel()
	for id, trace := range map[string]string{"a": parent, "nightly@20260102T150405Z": ""} {
		on, spans := record()
		elsewhere, _ := record()
		of := running(id, trace)
		lent, again := on.Lend(of), elsewhere.Lend(of)
		on.Return(of, task.OutcomeTimeout, "why", of.StartedAt.Add(time.Second))
		ended := spans.Ended()
		if len(ended) != 1 {
			t.Fatalf("%s: %d spans", id, len(ended))
		}
		got := ended[0]
		if made := traceparentOf(got.SpanContext()); lent == "" || lent != again || lent != made {
			t.Errorf("%s: lent %s and %s, made %s", id, lent, again, made)
		}
		if got.Parent().IsValid() != (trace != "") {
			t.Errorf("%s: below %s", id, got.Parent().SpanID())
		}
		took := got.EndTime().Sub(got.StartTime())
		if !got.StartTime().Equal(of.StartedAt) || took != time.Second || got.Status().Code != codes.Error {
			t.Errorf("%s: from %s, %s, %v", id, got.StartTime(), took, got.Status())
		}
	}
}

// A sampler looks at eight bytes of the id, the first of which decide for a small share.
func TestIDs_AreSampledAsOftenAsAsked(t *testing.T) {
	t.Parallel()
	const n, share = 200_000, 0.002
	on, _ := record(sdk.WithSampler(sdk.TraceIDRatioBased(share)))
	sampled := 0
	for range n {
		if on.Submit(context.Background(), "", task.Definition{}).Traceparent() != "" {
			sampled++
		}
	}
	if want := int(n * share); sampled < want/2 || sampled > 2*want {
		t.Errorf("%d of %d are sampled, want about %d", sampled, n, want)
	}
}

func TestHeader_IsFoundWithoutAllocation(t *testing.T) {
	h := http.Header{"Dts-Caller": {"ann"}}
	if n := testing.AllocsPerRun(100, func() { _ = h.Get(Header) }); n != 0 {
		t.Errorf("%v allocations a request, while traces are off", n)
	}
}
