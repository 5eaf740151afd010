package control

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/tracing"
)

// traced returns use cases whose spans are recorded.
func traced(w *world) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	w.tracer = tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	return spans
}

// fill has the gate refuse all that makes work.
func (w *world) fill() {
	w.admission.limit = 1
	w.admission.busy.Store(1)
}

func TestSubmitEach_MakesASpanOfEachTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spans := traced(w)
	got := w.submit([]task.Definition{
		{Ref: task.Ref{ID: "good"}, Type: "http"},
		{Ref: task.Ref{ID: "not good"}, Type: "http"},
		{Ref: task.Ref{ID: "other"}, Type: "http"},
	})
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	for i, s := range ended {
		if failed := s.Status().Description != ""; failed != (got[i].Err != nil) {
			t.Errorf("%d: error %v, status %v", i, got[i].Err, s.Status())
		}
	}
	if got[0].Task.Trace == "" || got[0].Task.Trace == got[2].Task.Trace {
		t.Errorf("the tasks keep the spans %q and %q", got[0].Task.Trace, got[2].Task.Trace)
	}
}

func TestSubmitEach_EndsSpansOfARefusedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spans := traced(w)
	w.fill()
	_, err := w.SubmitEach(w.ctx, me, make([]task.Definition, 2))
	if task.CodeOf(err) != task.CodeOverloaded || len(spans.Ended()) != 2 {
		t.Fatalf("error %v, %d spans", err, len(spans.Ended()))
	}
	if got := spans.Ended()[0].Status().Description; got != err.Error() {
		t.Errorf("the span says %q, want %s", got, err)
	}
}

func TestPreviewEach_MakesNoSpans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spans := traced(w)
	_, err := w.PreviewEach(w.ctx, me, []task.Definition{{Type: "http"}})
	if testkit.Must(t, err); len(spans.Ended()) != 0 {
		t.Errorf("%d spans", len(spans.Ended()))
	}
}

// What submitEach does before it asks Redis is what it does besides submitNamed.
func TestSubmitEach_AllocatesNothingForTracesThatAreOff(t *testing.T) {
	w := newWorld(t)
	w.fill()
	defs := make([]task.Definition, 2) // refused at the gate, so that nothing but the way there counts
	who := Caller{Namespace: "default", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	whole := testing.AllocsPerRun(200, func() { _, _ = w.SubmitEach(w.ctx, who, defs) })
	rest := testing.AllocsPerRun(200, func() {
		named, refs := w.named(who, defs)
		_, _ = w.submitNamed(w.ctx, who, "submitTasks", defs, named, refs, false)
	})
	if whole != rest {
		t.Errorf("%v allocations, %v without what traces add", whole, rest)
	}
}
