package httpexec

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// service answers a POST with 202 and a Location, and the status as a test says, one answer after the other; the last one again and again.
type service struct {
	url    string
	status []http.HandlerFunc
	asked  atomic.Int32
	seen   chan *http.Request // requests for the status
}

func startService(t *testing.T, location string, status ...http.HandlerFunc) *service {
	t.Helper()
	s := &service{status: status, seen: make(chan *http.Request, 100)}
	s.url = serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if location != "" {
				w.Header().Set("Location", location)
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"progress": 1}`)
			return
		}
		s.seen <- r
		s.status[min(int(s.asked.Add(1)), len(s.status))-1](w, r)
	})
	return s
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var quick = object{"poll": "100ms"}

func TestAccept_FollowsTheStatusUntilItsEnd(t *testing.T) {
	t.Parallel()
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	s := startService(t, "/status/7", answer(202, `{"progress": 40, "note": "row 5"}`), answer(503, "later"), drop, answer(200, "42 rows"))
	r := executortest.NewRecorder(executortest.JSON(t, object{"url": s.url, "accept": quick, "headers": object{"Authorization": "Bearer x"}}))
	result, err := newExecutor(t).Execute(t.Context(), r.Attempt)
	if err != nil || result != "42 rows" {
		t.Fatalf("got %q, %v", result, err)
	}
	if !slices.Equal(r.Percents, []int{1, 40}) || !slices.Equal(r.Notes, []string{"", "row 5"}) {
		t.Errorf("progress was %v %q", r.Percents, r.Notes)
	}
	req := <-s.seen
	if req.URL.Path != "/status/7" || req.Method != http.MethodGet || req.Header.Get("Authorization") != "Bearer x" || req.Header.Get("Dts-Attempt") != "3" || req.Header.Get("Dts-Token") != "" {
		t.Errorf("asked for the status with %s %s, %v", req.Method, req.URL, req.Header)
	}
}

func TestAccept_StatusSaysHowItEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status    http.HandlerFunc
		text      string
		permanent bool
	}{
		"gone":       {answer(410, "no such job"), "HTTP 410 Gone: no such job", true},
		"unexpected": {answer(200, `{"state": "failed"}`), `the status is HTTP 200, but the answer does not contain "done"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startService(t, "/status", c.status)
			_, err := execute(t, newExecutor(t), object{"url": s.url, "accept": quick, "expect": object{"contains": "done"}})
			if err == nil || err.Error() != c.text || executor.IsPermanent(err) != c.permanent {
				t.Errorf("got %v, want %q, permanent: %v", err, c.text, c.permanent)
			}
		})
	}
}

func TestAccept_WaitsAsLongAsTheStatusAsks(t *testing.T) {
	t.Parallel()
	s := startService(t, "/status", answer(202, "", "Retry-After", "1"), answer(200, "done"))
	start := time.Now()
	if result, err := execute(t, newExecutor(t), object{"url": s.url, "accept": quick}); err != nil || result != "done" {
		t.Fatalf("got %q, %v", result, err)
	}
	if took := time.Since(start); took < 1100*time.Millisecond {
		t.Errorf("it took %s, want the first wait and the second, which was asked for", took)
	}
}

// Another host gets neither the headers of the payload, which may hold secrets, nor a call if the node denies its address.
func TestAccept_TrustsNoOtherHost(t *testing.T) {
	t.Parallel()
	other := startService(t, "", answer(200, "done"))
	s := startService(t, other.url+"/status", answer(500, "not here"))
	payload := object{"url": s.url, "accept": quick, "headers": object{"Authorization": "Bearer x"}}
	if result, err := execute(t, newExecutor(t), payload); err != nil || result != "done" {
		t.Fatalf("got %q, %v", result, err)
	}
	if got := (<-other.seen).Header.Get("Authorization"); got != "" {
		t.Errorf("the other host got %q", got)
	}
	s = startService(t, "http://169.254.169.254/status", answer(200, "secret"))
	if _, err := execute(t, newExecutor(t), object{"url": s.url, "accept": quick}); err == nil || !executor.IsPermanent(err) {
		t.Errorf("the address of metadata: %v, want a permanent error", err)
	}
}

func TestAccept_WithoutAStatusWaitsForTheCallback(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		w.WriteHeader(http.StatusAccepted)
	})
	h := build(executor.Options{}, &settings{Rules: address.New(), callback: "https://dts.example.com"}, nil)
	t.Cleanup(func() { testkit.Must(t, h.Close()) })
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Execute(ctx, executortest.NewRecorder(executortest.JSON(t, object{"url": url, "accept": object{}})).Attempt)
		ended <- err
	}()
	got := testkit.Receive(t, headers, "the call")
	want := "https://dts.example.com/v1/tasks/job-1/attempts/3/finish?namespace=acme"
	if got.Get("Dts-Token") != "token-3" || got.Get("Dts-Callback") != want || got.Get("Dts-Report") != strings.Replace(want, "finish", "report", 1) {
		t.Errorf("the call has the headers %v", got)
	}
	reported := errors.New("reported")
	cancel(reported)
	if err := testkit.Receive(t, ended, "its end"); !errors.Is(err, reported) {
		t.Errorf("it ended with %v", err)
	}
}

func TestAccept_IsNeededFor202ToMeanThat(t *testing.T) {
	t.Parallel()
	s := startService(t, "/status", answer(200, "done"))
	if result, err := execute(t, newExecutor(t), object{"url": s.url}); err != nil || result != `{"progress": 1}` {
		t.Errorf("got %q, %v, want the answer itself", result, err)
	}
}

func TestAccept_RefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	for field, accept := range map[string]any{
		"payload.accept":            3,
		"payload.accept.poll":       object{"poll": "1ms"},
		"payload.accept.status_url": object{"status_url": "/relative"},
		"payload.accept.url":        object{"url": "http://a"},
	} {
		_, err := execute(t, newExecutor(t), object{"url": "http://127.0.0.1:1", "accept": accept})
		executortest.WantInvalid(t, err, field, "")
	}
}

func TestSettings_CheckTheCallbackURL(t *testing.T) {
	t.Parallel()
	for url, valid := range map[string]bool{
		"": true, "https://dts.example.com/": true, "http://10.0.0.1:8080/dts": true, "dts.example.com": false, "ftp://a": false, "http://a/?b=c": false,
		"https://dts.example.com/a b": false, "https://dts.example.com/#a": false, "https://dts.example.com/é": false,
	} {
		s := settings{Rules: address.New(), callback: url}
		if err := s.Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", url, err)
		}
	}
}
