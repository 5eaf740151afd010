package dts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// traceparent names a span as its receivers see it.
func traceparent(s trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-%s", s.TraceID(), s.SpanID(), s.TraceFlags())
}

func TestWorker_GivesHandlersTheSpanOfTheirAttempt(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	redis := redistest.Start(t)
	seen := make(chan trace.SpanContext, 10)
	w := dts.NewWorker(dts.WorkerOptions{
		Redis: redis.URL(), Lead: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), TracerProvider: provider,
	})
	dts.Handle(w, "charge", func(ctx context.Context, _ struct{}) error {
		_, child := provider.Tracer("shop").Start(ctx, "card")
		child.End()
		seen <- trace.SpanContextFromContext(ctx)
		if dts.Current(ctx).Attempt == 1 {
			return dts.RetryAfter(errors.New("declined"), 1)
		}
		return nil
	})
	start(t, w.Run)
	testkit.Receive(t, w.Ready(), "the worker takes tasks")
	c, err := dts.Open(redis.URL(), dts.WithTracerProvider(provider))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, c.Close()) })
	ctx, order := provider.Tracer("shop").Start(t.Context(), "order")
	submitted, err := c.Submit(ctx, dts.Submission{Type: "charge"})
	testkit.Must(t, err)
	order.End()
	_, err = c.Wait(t.Context(), submitted.ID)
	testkit.Must(t, err)
	testkit.Eventually(t, "all spans", func() bool { return len(spans.Ended()) == 8 }) // 2 cards, hand-overs and attempts
	names := map[trace.SpanID]string{}
	for _, s := range spans.Ended() {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	for _, s := range spans.Ended() {
		parents := map[string]string{
			"submit default": "order", "hand-over default": "submit default", "attempt default": "submit default",
			"card": "attempt default",
		}
		if got := names[s.Parent().SpanID()]; got != parents[s.Name()] {
			t.Errorf("%s is below %q, want %q", s.Name(), got, parents[s.Name()])
		}
	}
	for range 2 {
		if got := names[testkit.Receive(t, seen, "the handler").SpanID()]; got != "attempt default" {
			t.Errorf("the handler had the span %q", got)
		}
	}
}

func TestWorker_MakesNoSpansWithoutAProvider(t *testing.T) {
	t.Parallel()
	valid := make(chan bool, 1)
	s := newShop(t, func(w *dts.Worker) {
		dts.Handle(w, "charge", func(ctx context.Context, _ struct{}) error {
			valid <- trace.SpanContextFromContext(ctx).IsValid()
			return nil
		})
	})
	ctx, span := sdk.NewTracerProvider().Tracer("shop").Start(t.Context(), "order")
	defer span.End()
	_, err := s.Submit(ctx, dts.Submission{Type: "charge"})
	testkit.Must(t, err)
	if testkit.Receive(t, valid, "the handler") {
		t.Error("the handler has a span")
	}
}

func TestDial_SendsTheTraceparentOfTheContext(t *testing.T) {
	t.Parallel()
	seen := make(chan []string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Values("Traceparent")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	c, err := dts.Dial(server.URL)
	testkit.Must(t, err)
	ctx, span := sdk.NewTracerProvider().Tracer("shop").Start(t.Context(), "order")
	defer span.End()
	_, _ = c.Submit(ctx, dts.Submission{Type: "charge"})
	if got := testkit.Receive(t, seen, "the request"); len(got) != 1 || got[0] != traceparent(span.SpanContext()) {
		t.Errorf("sent %q, want %s", got, traceparent(span.SpanContext()))
	}
	_, _ = c.Submit(t.Context(), dts.Submission{Type: "charge"})
	if got := testkit.Receive(t, seen, "the request"); len(got) != 0 {
		t.Errorf("without a span, sent %q", got)
	}
}
