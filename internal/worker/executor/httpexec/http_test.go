package httpexec

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func newExecutor(t *testing.T) *Executor {
	t.Helper()
	h := New(executor.Options{Version: "1.2.3"})
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// seen is what a server saw of a request.
type seen struct {
	*http.Request
	body string
}

// serve answers 200 "ok" and tells what it saw.
func serve(t *testing.T) (url string, requests <-chan seen) {
	t.Helper()
	ch := make(chan seen, 10)
	return serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ch <- seen{r, string(body)}
		_, _ = io.WriteString(w, "ok")
	}), ch
}

func serveFunc(t *testing.T, f http.HandlerFunc) (url string) {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return srv.URL
}

func execute(t *testing.T, h *Executor, payload any) (string, error) {
	t.Helper()
	return h.Execute(t.Context(), executortest.NewRecorder(executortest.JSON(t, payload)).Attempt)
}

type object = map[string]any

func TestExecutor_PostsByDefaultAndReturnsTheBody(t *testing.T) {
	url, requests := serve(t)
	result, err := execute(t, newExecutor(t), object{"url": url + "/a?b=c"})
	if err != nil || result != "ok" {
		t.Fatalf("got %q, %v", result, err)
	}
	r := <-requests
	if r.Method != http.MethodPost || r.RequestURI != "/a?b=c" || r.body != "" || r.ContentLength != 0 {
		t.Errorf("server saw %s %s, %d bytes: %q", r.Method, r.RequestURI, r.ContentLength, r.body)
	}
}

func TestExecutor_SendsWhichAttemptItIs(t *testing.T) {
	for _, method := range []string{"GET", "POST", "DELETE"} {
		url, requests := serve(t)
		if _, err := execute(t, newExecutor(t), object{"url": url, "method": method}); err != nil {
			t.Fatal(err)
		}
		r := <-requests
		for name, want := range map[string]string{
			"Dts-Task-Id": "job-1", "Dts-Attempt": "3", "Dts-Namespace": "acme",
			"Idempotency-Key": "acme:job-1", "User-Agent": "dts/1.2.3",
		} {
			if got := r.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", method, name, got, want)
			}
		}
	}
}

func TestExecutor_SendsTheTickThatTheTaskStandsFor(t *testing.T) {
	for id, want := range map[string][]string{"job-1": nil, "nightly@20260102T150405Z": {"2026-01-02T15:04:05.000Z"}} {
		url, requests := serve(t)
		r := executortest.NewRecorder(executortest.JSON(t, object{"url": url}))
		r.ID = id
		if _, err := newExecutor(t).Execute(t.Context(), r.Attempt); err != nil {
			t.Fatal(err)
		}
		if got := (<-requests).Header.Values("Dts-Tick"); !slices.Equal(got, want) {
			t.Errorf("%s: Dts-Tick is %q, want %q", id, got, want)
		}
	}
}

func TestExecutor_SendsThePayloadsMethodHeadersAndHost(t *testing.T) {
	url, requests := serve(t)
	_, err := execute(t, newExecutor(t), object{"url": url, "method": "put", "headers": object{
		"x-token": "secret", "User-Agent": "mine", "Host": "example.test", "X-Idempotency-Key": "k", "idempotency-key": "mine",
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := <-requests
	if r.Method != http.MethodPut || r.Host != "example.test" || r.UserAgent() != "mine" ||
		r.Header.Get("X-Token") != "secret" || r.Header.Get("X-Idempotency-Key") != "k" || !slices.Equal(r.Header.Values("Idempotency-Key"), []string{"mine"}) {
		t.Errorf("server saw %s for %s with %v", r.Method, r.Host, r.Header)
	}
}

func TestExecutor_SendsTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		body    any
		headers object
		want    string
		typ     string
	}{
		"a string is sent as it is":         {"a=1&b=\"é\"\n", nil, "a=1&b=\"é\"\n", ""},
		"an object is sent as JSON":         {object{"a": []int{1}}, nil, `{"a":[1]}`, "application/json"},
		"a number is sent as JSON":          {1.5, nil, `1.5`, "application/json"},
		"false is sent as JSON":             {false, nil, `false`, "application/json"},
		"null is no body":                   {nil, nil, "", ""},
		"the payload may say what it is":    {object{}, object{"content-type": "application/x"}, `{}`, "application/x"},
		"an empty string is an empty body":  {"", nil, "", ""},
		"a string's type is the payload's":  {"<a/>", object{"Content-Type": "text/xml"}, "<a/>", "text/xml"},
		"large numbers keep all the digits": {json.RawMessage("12345678901234567890"), nil, "12345678901234567890", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := serve(t)
			if _, err := execute(t, newExecutor(t), object{"url": url, "body": c.body, "headers": c.headers}); err != nil {
				t.Fatal(err)
			}
			r := <-requests
			if r.body != c.want || r.Header.Get("Content-Type") != c.typ || r.ContentLength != int64(len(c.want)) {
				t.Errorf("server saw %q of type %q, length %d", r.body, r.Header.Get("Content-Type"), r.ContentLength)
			}
		})
	}
}

func TestExecutor_JudgesByTheSuccessCodes(t *testing.T) {
	for name, c := range map[string]struct {
		codes  any
		status int
		ok     bool
	}{
		"2xx is a success by default": {nil, 299, true},
		"3xx is not":                  {nil, 304, false},
		"4xx is not":                  {nil, 404, false},
		"a listed code is":            {[]any{200, 404}, 404, true},
		"an unlisted one is not":      {[]any{200, 404}, 201, false},
		"one in a range is":           {[]any{200, "400-499"}, 499, true},
		"one outside of it is not":    {[]any{200, "400-499"}, 500, false},
		"a code may be text":          {[]any{"500"}, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
			_, err := execute(t, newExecutor(t), object{"url": url, "success_codes": c.codes})
			if (err == nil) != c.ok {
				t.Errorf("%d with %v: %v", c.status, c.codes, err)
			}
		})
	}
}

// A body that is too long is cut between two characters, where the error of a task has no more room.
func TestExecutor_FailsWithTheStatusAndTheBody(t *testing.T) {
	const begin = "HTTP 500 Internal Server Error: "
	const room = task.ErrorLimit - len(begin)
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"short":   {503, " try later\n", "HTTP 503 Service Unavailable: try later"},
		"long":    {500, strings.Repeat("x\n", 999) + "total", begin + strings.Repeat("x\n", 999) + "total"},
		"longer":  {500, strings.Repeat(" é", 2000), begin + strings.Repeat("é ", (room-len(task.ErrorMark))/3) + task.ErrorMark},
		"none":    {404, "", "HTTP 404 Not Found"},
		"unknown": {599, "", "HTTP 599"},
	} {
		t.Run(name, func(t *testing.T) {
			url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			result, err := execute(t, newExecutor(t), object{"url": url})
			if err == nil || err.Error() != c.want || result != "" {
				t.Errorf("got %q, %v", result, err)
			}
		})
	}
}

func TestExecutor_CutsAndMarksALongAnswer(t *testing.T) {
	var sent atomic.Int64
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 100_000 { // 100 MB; the connection is closed long before
			n, err := io.WriteString(w, strings.Repeat("é", 500))
			if err != nil {
				return
			}
			sent.Add(int64(n))
		}
	})
	result, err := execute(t, newExecutor(t), object{"url": url})
	if err != nil || len(result) > task.ResultLimit || len(result) < task.ResultLimit-4 ||
		!strings.HasSuffix(result, task.CutMark) || !utf8.ValidString(result) {
		t.Errorf("got %d bytes, %v", len(result), err)
	}
	if sent.Load() > 50<<20 {
		t.Errorf("read on and on: %d bytes were sent", sent.Load())
	}
}

func TestExecutor_ReplacesInvalidUTF8(t *testing.T) {
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a\xffb\x00c")) })
	if result, err := execute(t, newExecutor(t), object{"url": url}); err != nil || result != "a\uFFFDb\x00c" {
		t.Errorf("got %q, %v", result, err)
	}
}

func TestExecutor_FailsWhenTheAnswerBreaksOff(t *testing.T) {
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	})
	if _, err := execute(t, newExecutor(t), object{"url": url}); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("error is %v", err)
	}
}

func TestExecutor_RefusesAnEndlessHeader(t *testing.T) {
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
	})
	if _, err := execute(t, newExecutor(t), object{"url": url}); err == nil || len(err.Error()) > task.ErrorLimit {
		t.Errorf("error is %v", err)
	}
}

func TestExecutor_GivesUpWhenTheContextEnds(t *testing.T) {
	cause := errors.New("timed out after 30s")
	for name, answer := range map[string]func(http.ResponseWriter){
		"before the header": func(http.ResponseWriter) {},
		"within the body": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
				answer(w)
				cancel(cause)
				<-r.Context().Done()
			})
			_, err := newExecutor(t).Execute(ctx, executortest.NewRecorder(executortest.JSON(t, object{"url": url, "method": "GET"})).Attempt)
			if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "GET "+url) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestExecutor_TimesOutWhenTheSocketSaysSo(t *testing.T) {
	t.Parallel()
	cause := errors.New("took too long")
	e := New(executor.Options{})
	t.Cleanup(func() { testkit.Must(t, e.Close()) })
	r := executortest.NewRecorder(`{"url": "http://127.0.0.1:1/"}`)
	_, err := e.Execute(executortest.Late(t, 0, cause), r.Attempt) // the dialer has the deadline of ctx
	if !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
}

func TestExecutor_FailsWhenNobodyAnswers(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	_, err := execute(t, newExecutor(t), object{"url": srv.URL + "/" + strings.Repeat("x", 100_000)})
	var invalid *executor.InvalidPayloadError
	if err == nil || errors.As(err, &invalid) || !strings.Contains(err.Error(), "refused") || len(err.Error()) > task.ErrorLimit {
		t.Errorf("error is %v", err)
	}
}

func TestExecutor_DoesNotShowThePasswordOfAURL(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newExecutor(t).Execute(ctx, executortest.NewRecorder(`{"url": "http://me:secret@127.0.0.1:1/"}`).Attempt)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error is %v", err)
	}
}
