package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/tracing"
)

// Callers of the tests are in this trace, or in another one.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	caller       = "00-" + callersTrace + "-" + callersSpan + "-01"
	otherCaller  = "00-11111111111111111111111111111111-2222222222222222-01"
)

// traced is a node whose spans are recorded.
type traced struct {
	*running
	spans *tracetest.SpanRecorder
}

func runTraced(t *testing.T) traced {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithIDGenerator(tracing.IDs{}))
	return traced{run(t, Options{
		Config: settings(""),
		Traces: func(string, *slog.Logger) (trace.TracerProvider, func() error, error) { return provider, nil, nil },
	}), spans}
}

// submit submits a task with a traceparent, if that is not "".
func (r traced) submit(traceparent, body string) int {
	r.t.Helper()
	url := "http://" + r.address + "/v1/tasks"
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, url, strings.NewReader(body))
	testkit.Must(r.t, err)
	request.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		request.Header.Set("Traceparent", traceparent)
	}
	response, err := http.DefaultClient.Do(request)
	testkit.Must(r.t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	testkit.Must(r.t, err)
	return response.StatusCode
}

// of returns the spans of a task, by the first word of their names, once there are n.
func (r traced) of(id string, n int) map[string][]sdk.ReadOnlySpan {
	r.t.Helper()
	var byName map[string][]sdk.ReadOnlySpan
	testkit.Eventually(r.t, fmt.Sprintf("%d spans of %s", n, id), func() bool {
		byName = map[string][]sdk.ReadOnlySpan{}
		count := 0
		for _, s := range r.spans.Ended() {
			if attributeOf(s, "messaging.message.id") == "default:"+id {
				name, _, _ := strings.Cut(s.Name(), " ")
				byName[name], count = append(byName[name], s), count+1
			}
		}
		return count >= n
	})
	return byName
}

func attributeOf(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return fmt.Sprint(a.Value.AsInterface())
		}
	}
	return ""
}

// checkTree checks that a task has one submission below the caller, and all other spans below that. It returns the
// attempts.
func (r traced) checkTree(id string, attempts int) []sdk.ReadOnlySpan {
	r.t.Helper()
	byName := r.of(id, 1+2*attempts)
	if len(byName["submit"]) != 1 || len(byName["hand-over"]) != attempts || len(byName["attempt"]) != attempts {
		r.t.Fatalf("%s has the spans %v", id, byName)
	}
	submission := byName["submit"][0]
	if submission.Parent().SpanID().String() != callersSpan {
		r.t.Errorf("%s: the submission is below %s", id, submission.Parent().SpanID())
	}
	for _, s := range slices.Concat(byName["hand-over"], byName["attempt"]) {
		if s.SpanContext().TraceID().String() != callersTrace || s.Parent().SpanID() != submission.SpanContext().SpanID() {
			r.t.Errorf("%s: %s is in the trace %s below %s", id, s.Name(), s.SpanContext().TraceID(), s.Parent().SpanID())
		}
		if s.EndTime().Before(s.StartTime()) {
			r.t.Errorf("%s: %s ends before it starts", id, s.Name())
		}
	}
	return byName["attempt"]
}

// names is the traceparent of a span.
func names(s sdk.ReadOnlySpan) string {
	return fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.SpanContext().SpanID())
}

func TestTraces_GoFromARequestToTheServiceOfAnHTTPTask(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	seen := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		seen <- request.Header.Get("Traceparent")
		if request.Header.Get("Dts-Attempt") == "1" {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	body := fmt.Sprintf(`{"id":"call","type":"http","payload":{"url":%q},"retry":{"delays":["1ms"]}}`, service.URL)
	if status := r.submit(caller, body); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	attempts := r.checkTree("call", 2)
	for i, want := range []string{"failed", "succeeded"} {
		got := attempts[i]
		if attributeOf(got, "dts.outcome") != want || attributeOf(got, "dts.attempt") != fmt.Sprint(i+1) {
			t.Errorf("attempt %d: %v", i+1, got.Attributes())
		}
		if header := testkit.Receive(t, seen, "the call"); header != names(got) {
			t.Errorf("attempt %d: the service saw %q, want %s", i+1, header, names(got))
		}
	}
	// A repeat in another trace is the same task. Its own span says so.
	if status := r.submit(otherCaller, body); status != http.StatusOK {
		t.Errorf("a repeat in another trace: status %d", status)
	}
	again := r.of("call", 6)["submit"][1]
	if attributeOf(again, "dts.existed") != "true" || again.SpanContext().TraceID().String() == callersTrace {
		t.Errorf("the repeat: %v", again.Attributes())
	}
}

func TestTraces_KeepTheTraceparentOfAPayload(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	seen := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		seen <- request.Header.Get("Traceparent")
	}))
	defer service.Close()
	payload := fmt.Sprintf(`{"url":%q,"headers":{"traceparent":%q}}`, service.URL, otherCaller)
	r.submit(caller, `{"id":"own","type":"http","payload":`+payload+`}`)
	if got := testkit.Receive(t, seen, "the call"); got != otherCaller {
		t.Errorf("the service saw %q", got)
	}
}

func TestTraces_GoToAGRPCServiceInItsMetadata(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	seen := make(chan []string, 10)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(
		ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
	) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen <- md.Get("traceparent")
		return handle(ctx, request)
	}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	payload := fmt.Sprintf(`{"target":%q,"method":"grpc.health.v1.Health/Check"}`, listener.Addr())
	r.submit(caller, `{"id":"rpc","type":"grpc","payload":`+payload+`}`)
	attempts := r.checkTree("rpc", 1)
	if got := testkit.Receive(t, seen, "the call"); !slices.Equal(got, []string{names(attempts[0])}) {
		t.Errorf("the service saw %q, want %s", got, names(attempts[0]))
	}
}

func TestTraces_GoToACommandInItsEnvironment(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	const echo = `"command":["sh","-c","echo $TRACEPARENT"]`
	r.submit(caller, `{"id":"command","type":"shell","payload":{`+echo+`}}`)
	attempts := r.checkTree("command", 1)
	if got := r.result("command"); got != names(attempts[0]) {
		t.Errorf("the command saw %q, want %s", got, names(attempts[0]))
	}
	r.submit(caller, `{"id":"own","type":"shell","payload":{`+echo+`,"env":{"TRACEPARENT":"mine"}}}`)
	r.checkTree("own", 1)
	if got := r.result("own"); got != "mine" {
		t.Errorf("the command with a traceparent of its own saw %q", got)
	}
}

// result is the result of a task.
func (r *running) result(id string) string {
	r.t.Helper()
	var got struct{ Result string }
	_, body := r.call(http.MethodGet, "/v1/tasks/"+id, "")
	testkit.Must(r.t, json.Unmarshal([]byte(body), &got))
	return got.Result
}

func TestTraces_GoToAWorkerByHTTP(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	r.submit(caller, `{"id":"lent","type":"theirs"}`)
	r.submit("", `{"id":"own-trace","type":"theirs","queue":"low"}`)
	for _, id := range []string{"lent", "own-trace"} {
		queue := map[string]string{"lent": "default", "own-trace": "low"}[id]
		var taken struct {
			Attempts []struct{ Token, Traceparent string }
		}
		offer := fmt.Sprintf(`{"types":["theirs"],"queues":[%q],"max":1}`, queue)
		_, body := r.call(http.MethodPost, "/v1/workers/w-"+queue+"/take", offer)
		testkit.Must(t, json.Unmarshal([]byte(body), &taken))
		if len(taken.Attempts) != 1 {
			t.Fatalf("%s: taken %s", id, body)
		}
		end := fmt.Sprintf(`{"token":%q,"outcome":"failed","permanent":true,"error":"broken"}`, taken.Attempts[0].Token)
		for range 2 { // a repeat makes no second span
			status, body := r.call(http.MethodPost, "/v1/tasks/"+id+"/attempts/1/finish", end)
			if status != http.StatusNoContent {
				t.Fatalf("%s: finishing: %d %s", id, status, body)
			}
		}
		spans := r.of(id, 3)["attempt"]
		if len(spans) != 1 || names(spans[0]) != taken.Attempts[0].Traceparent || spans[0].Status().Description != "broken" {
			t.Errorf("%s: the worker got %q, and the attempts have %v", id, taken.Attempts[0].Traceparent, spans)
		}
	}
	r.checkTree("lent", 1)
}

// What is submitted through a node whose traces are off has no spans at one whose are on.
func TestTraces_MakeNoSpansOfATaskWithoutTrace(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	c := r.o.Config
	c.Roles = config.Roles{config.RoleAPI}
	off := run(t, Options{Config: c})
	body := `{"id":"plain","type":"noop"}`
	if status, answer := off.call(http.MethodPost, "/v1/tasks", body); status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	r.submit(caller, `{"id":"after","type":"noop","delay":"1ms"}`)
	r.of("after", 1)
	testkit.Eventually(t, "it has ended", func() bool {
		_, answer := r.call(http.MethodGet, "/v1/tasks/plain", "")
		return strings.Contains(answer, `"state":"succeeded"`)
	})
	for _, s := range r.spans.Ended() {
		if attributeOf(s, "messaging.message.id") == "default:plain" {
			t.Errorf("it has the span %s", s.Name())
		}
	}
}

func TestTraces_BeginWithEachAttemptOfATick(t *testing.T) {
	t.Parallel()
	r := runTraced(t)
	definition := `{"every":"1h","paused":true,"task":{"type":"noop"}}`
	if status, body := r.call(http.MethodPut, "/v1/schedules/s", definition); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := r.call(http.MethodPost, "/v1/schedules/s/trigger", ""); status >= http.StatusBadRequest {
		t.Fatalf("%d %s", status, body)
	}
	testkit.Eventually(t, "the span of the attempt", func() bool { return len(r.spans.Ended()) > 0 })
	got := r.spans.Ended()[0]
	if got.Parent().IsValid() || !strings.HasPrefix(attributeOf(got, "messaging.message.id"), "default:s@") {
		t.Errorf("%s below %s: %v", got.Name(), got.Parent().SpanID(), got.Attributes())
	}
}
