package test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// spanStore is a collector of OpenTelemetry that keeps the spans that it gets.
type spanStore struct {
	*httptest.Server
	mu        sync.Mutex
	spans     map[string]*trace.Span // by name
	resources map[string]string
	problems  []string
}

func newSpanStore(t *testing.T) *spanStore {
	s := &spanStore{spans: map[string]*trace.Span{}, resources: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers POST /v1/traces.
func (s *spanStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		s.problems = append(s.problems, r.URL.Path+": "+http.StatusText(http.StatusBadRequest))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range request.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			s.resources[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.spans[span.GetName()] = span
			}
		}
	}
}

// submitIn submits a task with a traceparent.
func (n *node) submitIn(traceparent string, s wire.Submission) {
	n.t.Helper()
	answer, err := n.SubmitTaskWithResponse(n.t.Context(), nil, s, client.RequestEditorFn(
		func(_ context.Context, r *http.Request) error { r.Header.Set("traceparent", traceparent); return nil }))
	testkit.Must(n.t, err)
	if answer.StatusCode() != http.StatusCreated {
		n.t.Fatalf("submitting: %s: %s", answer.Status(), answer.Body)
	}
}

func TestTraces_ReachACollectorBeforeTheNodeEnds(t *testing.T) {
	t.Parallel()
	spans := newSpanStore(t)
	n := startNode(t, redistest.Start(t).URL(), "--otlp-endpoint", spans.URL, "--trace-sample", "0")
	n.submitIn("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", wire.Submission{ID: ptr("seen"), Type: "noop"})
	n.submit(wire.Submission{ID: ptr("not-sampled"), Type: "noop", Queue: ptr("low")})
	await(t, 10*time.Second, "both end", func() bool {
		return n.task("seen").State == "succeeded" && n.task("not-sampled").State == "succeeded"
	})
	n.stop()
	spans.mu.Lock()
	defer spans.mu.Unlock()
	if len(spans.problems) > 0 || len(spans.spans) != 3 {
		t.Fatalf("problems %q, %d spans: %v", spans.problems, len(spans.spans), spans.spans)
	}
	if of := spans.resources; of["service.name"] != "dtsd" || of["service.instance.id"] != n.id {
		t.Errorf("the resource is %v", of)
	}
	submit := spans.spans["submit default"]
	for _, name := range []string{"submit default", "hand-over default", "attempt default"} {
		s := spans.spans[name]
		in := hex.EncodeToString(s.GetTraceId())
		if in != "0af7651916cd43dd8448eb211c80319c" || attribute(s, "messaging.message.id") != "default:seen" {
			t.Errorf("%s: %v", name, s)
		}
		if name != "submit default" && string(s.GetParentSpanId()) != string(submit.GetSpanId()) {
			t.Errorf("%s is below %x", name, s.GetParentSpanId())
		}
	}
	if outcome := attribute(spans.spans["attempt default"], "dts.outcome"); outcome != "succeeded" {
		t.Errorf("the attempt has the outcome %q", outcome)
	}
}

// attribute returns an attribute of a span that is text.
func attribute(s *trace.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if v, ok := a.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
				return v.StringValue
			}
		}
	}
	return ""
}

// A node of a release without traces takes no repeat for a conflict, and runs what a node that traces has accepted.
func TestUpgrade_TracedTasksAreThoseOfOlderNodes(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis := redistest.Start(t).URL()
	examineAtTheEnd(t, redis)
	old := startRelease(t, previousRelease, redis)
	fresh := startRelease(t, thisRelease, redis, "--roles", "api", "--otlp-endpoint", newSpanStore(t).URL)
	waits := wire.Submission{ID: ptr("waits"), Type: "noop", Delay: ptr("1h")}
	runs := wire.Submission{ID: ptr("runs"), Type: "noop"}
	for _, s := range []wire.Submission{waits, runs} {
		fresh.submitIn("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", s)
		for _, n := range []*node{old, fresh} {
			if answer, err := n.SubmitTaskWithResponse(t.Context(), nil, s); err != nil || answer.StatusCode() != http.StatusOK {
				t.Errorf("%s again: %v, %s", *s.ID, err, answer.Body)
			}
		}
	}
	await(t, 10*time.Second, "it ends on the older node", func() bool { return old.task("runs").State == "succeeded" })
	answer, err := old.ChangeTaskWithResponse(t.Context(), "waits", nil, wire.TaskChange{Queue: ptr("low")})
	if testkit.Must(t, err); answer.StatusCode() != http.StatusOK || fresh.task("waits").Queue != "low" {
		t.Errorf("a change by the older node: %s", answer.Body)
	}
	again, err := fresh.SubmitTaskWithResponse(t.Context(), nil, waits)
	if testkit.Must(t, err); again.StatusCode() != http.StatusOK {
		t.Errorf("again after a change: %s", again.Body)
	}
}
