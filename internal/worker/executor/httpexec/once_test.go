package httpexec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestExecutor_ReusesAConnection(t *testing.T) {
	for name, size := range map[string]int{"after a short answer": 10, "after one that was cut": task.ResultLimit + 10_000} {
		t.Run(name, func(t *testing.T) {
			from := make(chan string, 2)
			url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
				from <- r.RemoteAddr
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			})
			h := newExecutor(t)
			for range 2 {
				if _, err := execute(t, h, object{"url": url}); err != nil {
					t.Fatal(err)
				}
			}
			if first, second := <-from, <-from; first != second {
				t.Errorf("two connections: %s, %s", first, second)
			}
		})
	}
}

func TestExecutor_FollowsRedirectsThatKeepTheMethod(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
	}{{"GET", 301}, {"GET", 302}, {"GET", 303}, {"GET", 307}, {"HEAD", 302}, {"POST", 307}, {"PUT", 308}} {
		t.Run(fmt.Sprint(c.method, c.status), func(t *testing.T) {
			requests := make(chan seen, 1)
			url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/target", c.status)
					return
				}
				body, _ := io.ReadAll(r.Body)
				requests <- seen{r, string(body)}
			})
			payload := object{"url": url, "method": c.method}
			if c.method == "POST" || c.method == "PUT" {
				payload["body"] = "data"
			}
			if _, err := execute(t, newExecutor(t), payload); err != nil {
				t.Fatal(err)
			}
			r := <-requests
			if want, _ := payload["body"].(string); r.Method != c.method || r.body != want {
				t.Errorf("server saw %s %q", r.Method, r.body)
			}
			if r.Header.Get("Idempotency-Key") != "acme:job-1" {
				t.Errorf("the key got lost: %v", r.Header)
			}
		})
	}
}

func TestExecutor_DoesNotTurnACallIntoAGet(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			target, requests := serve(t)
			url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", target)
				w.WriteHeader(status)
			})
			_, err := execute(t, newExecutor(t), object{"url": url, "method": method})
			want := fmt.Sprintf("HTTP %d %s to %s", status, http.StatusText(status), target)
			if err == nil || err.Error() != want || len(requests) != 0 {
				t.Errorf("%s: got %v, want %s; %d calls of the target", method, err, want, len(requests))
			}
			if _, err := execute(t, newExecutor(t), object{"url": url, "method": method, "success_codes": []any{"300-399"}}); err != nil {
				t.Errorf("a redirect that is a success: %v", err)
			}
		}
	}
}

func TestExecutor_StopsAfterTenRedirects(t *testing.T) {
	var calls int
	url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "/again", http.StatusFound)
	})
	_, err := execute(t, newExecutor(t), object{"url": url, "method": "GET"})
	if err == nil || err.Error() != "stopped after 10 redirects" || calls != 11 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

// A server that has the request and dies before it answers must not get the request again in the same
// attempt: max_attempts: 1 means at most once.
func TestExecutor_SendsACallOnceEvenIfAReusedConnectionBreaks(t *testing.T) {
	for _, c := range []object{
		{"method": "POST"}, {"method": "POST", "body": "x"}, {"method": "PUT", "body": object{}},
		{"method": "POST", "headers": object{"X-Idempotency-Key": "k"}}, {"method": "POST", "headers": object{"Idempotency-Key": "k"}},
		{"method": "DELETE"}, {"method": "GET"}, {"method": "HEAD"}, {"method": "OPTIONS"}, {"method": "GET", "body": "x"},
	} {
		t.Run(executortest.JSON(t, c), func(t *testing.T) {
			var calls atomic.Int64
			url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > 1 {
					hangUp(w, r)
				}
			})
			h, payload := newExecutor(t), object{"url": url}
			if _, err := execute(t, h, payload); err != nil {
				t.Fatal(err)
			}
			for k, v := range c {
				payload[k] = v
			}
			if _, err := execute(t, h, payload); err == nil {
				t.Error("no error from a server that hung up")
			}
			if calls.Load() != 2 {
				t.Errorf("the second call was sent %d times", calls.Load()-1)
			}
		})
	}
}

func hangUp(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func TestExecutor_SendsNoBodyWithAGet(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	head := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		var text strings.Builder
		for in := bufio.NewReader(conn); !strings.HasSuffix(text.String(), "\r\n\r\n"); {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			text.WriteString(line)
		}
		head <- text.String()
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	}()
	if _, err := execute(t, newExecutor(t), object{"url": "http://" + listener.Addr().String(), "method": "GET"}); err != nil {
		t.Fatal(err)
	}
	if got := <-head; strings.Contains(got, "Content-Length") || strings.Contains(got, "Transfer-Encoding") {
		t.Errorf("the request was %q", got)
	}
}

// Whatever a server sends after it, and for however long, is not for an http task.
func TestExecutor_ReadsNothingAfterAChangeOfProtocol(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 10)
	url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/later" {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusAccepted)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello")
		_, err = conn.Read(make([]byte, 1)) // the client closes it
		closed <- err
	})
	for name, payload := range map[string]object{
		"POST": {"url": url}, "GET": {"url": url, "method": "GET"}, "status": {"url": url + "/later", "accept": quick},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		attempt := executortest.NewRecorder(executortest.JSON(t, payload)).Attempt
		ended := make(chan error, 1)
		go func() {
			_, err := newExecutor(t).Execute(ctx, attempt)
			ended <- err
		}()
		if err := testkit.Receive(t, closed, "the end of the connection"); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection ended with %v", name, err)
		}
		want := "HTTP 101 Switching Protocols"
		if name == "status" { // it asks again
			cancel()
			want = "context canceled"
		}
		err := testkit.Receive(t, ended, "the end of the attempt")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		cancel()
	}
}
