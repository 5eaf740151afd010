package edge

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// HEAD has what GET has, but for the body. A stream does not begin.
func TestServer_AnswersHeadAsGet(t *testing.T) {
	t.Parallel()
	var s *Server
	streams := func(c echo.Context) error {
		return s.Stream(c, func(context.Context, *Stream) error { t.Error("HEAD begins a stream"); return nil })
	}
	r := startRig(t, map[string]echo.HandlerFunc{
		"/text":   func(c echo.Context) error { return c.String(http.StatusAccepted, "text") },
		"/stream": streams,
	})
	s = r.server
	for _, path := range []string{"/small", "/large", "/text", "/nowhere"} {
		get, head := r.call("GET", path, ""), r.call("HEAD", path, "")
		if head.status != get.status || len(head.body) != 0 {
			t.Errorf("%s: HEAD answers %d with %d bytes, GET %d", path, head.status, len(head.body), get.status)
		}
		for _, name := range []string{"Content-Type", "Content-Length", "X-Frame-Options"} {
			if head.header.Get(name) != get.header.Get(name) {
				t.Errorf("%s: %s is %q, want %q", path, name, head.header.Get(name), get.header.Get(name))
			}
		}
	}
	if got := r.call("HEAD", "/stream", ""); got.status != http.StatusOK || got.header.Get("Content-Type") != StreamType {
		t.Errorf("a stream: %d, %v", got.status, got.header)
	}
	if got := r.call("HEAD", "/body", ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("where there is no GET: %d", got.status)
	}
}

// HEAD of a stream that GET may not begin now is refused as well.
func TestServer_RefusesHeadOfOneStreamTooMany(t *testing.T) {
	t.Parallel()
	var s *Server
	r := startRig(t, map[string]echo.HandlerFunc{"/stream": func(c echo.Context) error {
		return s.Stream(c, func(context.Context, *Stream) error { return nil })
	}}, func(o *Options) { o.MaxStreams = 1 })
	s = r.server
	leave, reached := s.streams.enter(other)
	if reached != 0 {
		t.Fatalf("the first stream is refused: %v", reached)
	}
	if got := r.call("HEAD", "/stream", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("HEAD of a second stream: %d", got.status)
	}
	leave()
	if got := r.call("HEAD", "/stream", ""); got.status != http.StatusOK {
		t.Errorf("HEAD when there is room: %d", got.status)
	}
}

// Who sends too large a head is told so as of any other fault: with a Problem, or a page.
func TestServer_RefusesALargeHead(t *testing.T) {
	t.Parallel()
	r := startRig(t, map[string]echo.HandlerFunc{"/page": func(c echo.Context) error { return nil }})
	r.server.SetPolicy(Policy{Fail: func(c echo.Context, p Problem) bool {
		return c.HTML(p.Status, "<h1>"+p.Title) == nil
	}}, "/page")
	large := strings.Repeat("x", headLimit)
	if p := r.call("GET", "/small", "", "X-Large", large).problem(t); p.Code != CodeHeadTooLarge || p.Status != 431 {
		t.Errorf("a header: %+v", p)
	}
	if p := r.call("GET", "/small?"+large, "").problem(t); p.Code != CodeHeadTooLarge {
		t.Errorf("an address: %+v", p)
	}
	got := r.call("GET", "/page", "", "Cookie", large)
	if got.status != 431 || string(got.body) != "<h1>The head of the request is too large" {
		t.Errorf("a page: %d %s", got.status, got.body)
	}
	if got := r.call("GET", "/small", "", "X-Large", large[:headLimit-1000]); got.status != http.StatusOK {
		t.Errorf("one that is large enough: %d", got.status)
	}
}

// What a probe says of itself does not make a node look dead.
func TestServer_LetsProbesSayWhatTheyLike(t *testing.T) {
	t.Parallel()
	r := startRig(t, map[string]echo.HandlerFunc{
		"/probe": func(c echo.Context) error { return c.NoContent(http.StatusOK) },
	})
	r.server.SetPolicy(Policy{Always: true}, "/probe")
	wrong := strings.Repeat("x", 1000)
	if got := r.call("GET", "/probe", "", "Dts-Caller", wrong); got.status != http.StatusOK {
		t.Errorf("a probe: %d %s", got.status, got.body)
	}
	if p := r.call("GET", "/small", "", "Dts-Caller", wrong).problem(t); p.Field != "Dts-Caller" {
		t.Errorf("another path: %+v", p)
	}
}
