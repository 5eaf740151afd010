package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/tracing"
)

// flushTimeout is how long a node that stops takes at most to send its last spans.
const flushTimeout = 3 * time.Second

// Start returns what takes the spans of the node with that id and version, and stop, which has it send the last ones.
// Nobody waits for the collector: spans wait in a queue of limited length, and those beyond are dropped. Error: the
// environment has invalid settings for OpenTelemetry.
func (s *Settings) Start(version, node string, log *slog.Logger) (_ trace.TracerProvider, stop func() error, _ error) {
	target, err := s.target()
	if err != nil {
		return nil, nil, err
	}
	hidden := secretsOf(target)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry", "error", hidden.hide(err))
	}))
	otel.SetLogger(logr.New(&troubles{hidden, log}))
	ctx, end := context.WithCancel(context.Background())
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(target.String()))
	if err != nil {
		end()
		return nil, nil, err
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "dtsd"), attribute.String("service.version", version),
		attribute.String("service.instance.id", node),
	), resource.WithFromEnv())
	if err != nil {
		end()
		return nil, nil, err
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&sender{SpanExporter: exporter, secrets: hidden, ended: ctx, collector: origin(target), log: log}),
		sdk.WithResource(about), sdk.WithIDGenerator(tracing.IDs{}),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(float64(s.sample)))),
	)
	return provider, func() error {
		defer end()
		bound, cancel := context.WithTimeout(context.Background(), cmp.Or(s.flush, flushTimeout))
		defer cancel()
		defer context.AfterFunc(bound, end)()
		_ = provider.Shutdown(bound) // the sender has said what was not sent
		return nil
	}, nil
}

// sender sends spans. It tells the log when that begins to fail, and when it succeeds again. One caller at a time.
type sender struct {
	sdk.SpanExporter
	secrets
	ended     context.Context // when it has, nothing is sent any more
	collector string
	log       *slog.Logger
	failing   bool
}

// ExportSpans sends spans. It returns no error: nobody could do anything about it.
func (s *sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !s.failing:
		s.log.Warn("cannot send traces; they are dropped until the collector takes them",
			"collector", s.collector, "error", s.hide(err))
	case err == nil && s.failing:
		s.log.Info("the collector takes traces again", "collector", s.collector)
	}
	s.failing = err != nil
	return nil
}
