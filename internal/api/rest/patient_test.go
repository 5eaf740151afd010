package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const overloaded = `{"code":"overloaded","status":503,"title":"","type":"","detail":"too many","request_id":"r","retry_after":1}`

// refusing is a server that refuses that many requests with a problem, and then returns the body of the request.
func refusing(t *testing.T, n int64, status int, problem string) (url string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if calls.Add(1) <= n {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, problem)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

// post sends a request through a patient transport and returns the answer.
func post(ctx context.Context, t *testing.T, url string) (int, string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("task"))
	testkit.Must(t, err)
	response, err := (&http.Client{Transport: patient{transport}}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, string(body)
}

func TestPatient_SendsAgainWhatAnOverloadedServerRefused(t *testing.T) {
	t.Parallel()
	url, calls := refusing(t, 1, http.StatusServiceUnavailable, overloaded)
	if status, body := post(t.Context(), t, url); status != http.StatusOK || body != "task" || calls.Load() != 2 {
		t.Errorf("%d %q after %d calls", status, body, calls.Load())
	}
}

// Of these, something may have been done, or it takes longer than a caller who does not know may be kept waiting.
func TestPatient_ReturnsOtherRefusals(t *testing.T) {
	t.Parallel()
	for problem, status := range map[string]int{
		strings.Replace(overloaded, "overloaded", "unavailable", 1): http.StatusServiceUnavailable,
		strings.Replace(overloaded, "overloaded", "queue_full", 1):  http.StatusTooManyRequests,
		"no problem": http.StatusServiceUnavailable,
	} {
		url, calls := refusing(t, 1, status, problem)
		if got, body := post(t.Context(), t, url); got != status || body != problem || calls.Load() != 1 {
			t.Errorf("%s: %d %q after %d calls", problem, got, body, calls.Load())
		}
	}
}

// There is no time for another try.
func TestPatient_ReturnsTheRefusalIfTheDeadlineComesFirst(t *testing.T) {
	t.Parallel()
	url, calls := refusing(t, 1, http.StatusServiceUnavailable, strings.Replace(overloaded, `"retry_after":1`, `"retry_after":7200`, 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if status, body := post(ctx, t, url); status != http.StatusServiceUnavailable || !strings.Contains(body, "too many") || calls.Load() != 1 {
		t.Errorf("%d %q after %d calls", status, body, calls.Load())
	}
}

func TestPatient_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, strings.Replace(overloaded, `"retry_after":1`, `"retry_after":7200`, 1))
		testkit.Must(t, http.NewResponseController(w).Flush())
		cancel()
	}))
	defer server.Close()
	if status, text := post(ctx, t, server.URL); status != 0 || !strings.Contains(text, context.Canceled.Error()) {
		t.Errorf("%d %q", status, text)
	}
}
