package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is the name of the HTTP header that carries a traceparent, as net/http keeps it: so a look allocates nothing.
// Key is that of the metadata of gRPC.
const (
	Header = "Traceparent"
	Key    = "traceparent"
)

// carrier is a traceparent for OpenTelemetry's propagator. It has no tracestate.
type carrier string

// Get is for the propagator.
func (c *carrier) Get(key string) string {
	if key == Key {
		return string(*c)
	}
	return ""
}

// Set is for the propagator.
func (c *carrier) Set(key, value string) {
	if key == Key {
		*c = carrier(value)
	}
}

// Keys is for the propagator.
func (c *carrier) Keys() []string { return []string{Key} }

// below returns a context whose span is that of a traceparent; ctx if it is none.
func below(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	c := carrier(traceparent)
	return propagation.TraceContext{}.Extract(ctx, &c)
}

// FromContext returns the traceparent of the span in a context, sampled or not; "" for none.
func FromContext(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return traceparentOf(span)
	}
	return ""
}

func traceparentOf(span trace.SpanContext) string {
	var c carrier
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), &c)
	return string(c)
}

// runKey is where a context has the token of the run whose span begins.
type runKey struct{}

func withRun(ctx context.Context, run string) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

// IDs makes the ids of spans, as sdk/trace.IDGenerator: at random, but for those of a run that is lent. All nodes make
// the same ones for that.
type IDs struct{}

// NewIDs makes the ids of a span that begins a trace.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	if run, ok := ctx.Value(runKey{}).(string); ok {
		sum := sha256.Sum256([]byte(run))
		copy(id[:], sum[len(trace.SpanID{}):])
	} else {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64()|1) //nolint:gosec // an id is no secret; 0 is none
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())   //nolint:gosec // as above; samplers look at this half
	}
	return id, IDs{}.NewSpanID(ctx, id)
}

// NewSpanID makes the id of a span.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if run, ok := ctx.Value(runKey{}).(string); ok {
		sum := sha256.Sum256([]byte(run))
		copy(id[:], sum[:])
		return id
	}
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // as above
	return id
}
