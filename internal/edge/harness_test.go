package edge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	local = netip.MustParsePrefix("127.0.0.1/32") // the address of the clients of a test
	other = netip.MustParsePrefix("192.0.2.1/32") // an address that no client of a test has
)

// largeSize is the size in bytes of the answer of /large.
const largeSize = 200 << 10

// rig is a server that runs, with routes of its own, and a client.
type rig struct {
	t      *testing.T
	url    string
	http   *http.Client
	logged *testkit.Log
	server *Server
	stop   func() error // ends the server, as often as one likes
}

// startRig starts a server on which GET /small and GET or POST /large answer JSON, and POST /body reads a body of up to
// 8 MiB. handlers answer GET of other paths.
func startRig(t *testing.T, handlers map[string]echo.HandlerFunc, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, logged: &testkit.Log{}}
	o := Options{Log: slog.New(slog.NewJSONHandler(r.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	testkit.Must(t, err)
	s.Echo().GET("/small", func(c echo.Context) error { return s.JSON(c, http.StatusOK, map[string]int{"a": 1}) })
	large := func(c echo.Context) error { return s.JSON(c, http.StatusOK, strings.Repeat("x", largeSize)) }
	s.Echo().GET("/large", large)
	s.Echo().POST("/large", large)
	s.SetPolicy(Policy{BodyLimit: 8 << 20}, "/body")
	s.Echo().POST("/body", func(c echo.Context) error {
		raw, release, err := s.Receive(c)
		if err != nil {
			return err
		}
		defer release()
		return s.JSON(c, http.StatusCreated, len(raw))
	})
	for path, h := range handlers {
		s.Echo().GET(path, h)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r.url = "http://" + l.Addr().String()
	transport := &http.Transport{}
	r.http = &http.Client{Transport: transport}
	r.run(s, l)
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

func (r *rig) run(s *Server, l net.Listener) {
	r.server = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	r.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
}

// answer is what came back, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request with headers, each of which is a name and a value.
func (r *rig) call(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.url+path, strings.NewReader(body))
	testkit.Must(r.t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.http.Do(req)
	testkit.Must(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	testkit.Must(r.t, err)
	return answer{resp.StatusCode, resp.Header, raw}
}

// problem is the Problem that an answer must be.
func (a answer) problem(t *testing.T) Problem {
	t.Helper()
	var p Problem
	if got := a.header.Get("Content-Type"); got != problemType {
		t.Fatalf("Content-Type is %q, want %q; status %d, body %s", got, problemType, a.status, a.body)
	}
	testkit.Must(t, json.Unmarshal(a.body, &p))
	if p.Status != a.status {
		t.Errorf("the problem says status %d, the answer has %d", p.Status, a.status)
	}
	if p.RequestID != a.header.Get("X-Request-Id") || p.RequestID == "" {
		t.Errorf("the problem is of request %q, the answer of %q", p.RequestID, a.header.Get("X-Request-Id"))
	}
	return p
}

// dial opens a connection on which a test says what it likes.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	testkit.Must(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// head is the head of a request to /body with a body of that size.
func head(size int) string {
	return fmt.Sprintf("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
}

// statusOf reads the answer on a connection.
func statusOf(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp.StatusCode, string(body)
}
