package edge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestNew_SaysWhichOptionsAreMissing(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "must be set") {
		t.Errorf("got %v", err)
	}
}

func TestServer_LogsNoErrorIfTheClientHasGone(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(context.Background())
	r := startRig(t, map[string]echo.HandlerFunc{"/waits": func(c echo.Context) error {
		leave()
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/waits", nil)
	testkit.Must(t, err)
	resp, err := r.http.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	testkit.Must(t, r.stop())
	logged := r.logged.Find(t, "request")
	failed := len(r.logged.Find(t, "request failed")) + len(r.logged.Find(t, "request refused"))
	if len(logged) != 1 || logged[0]["status"] != float64(statusClientGone) || failed != 0 {
		t.Errorf("logged %v", logged)
	}
}

func TestRun_LetsRequestsInProgressFinish(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	r := startRig(t, map[string]echo.HandlerFunc{"/waits": func(c echo.Context) error {
		close(begun)
		<-goOn
		return c.NoContent(http.StatusNoContent)
	}})
	got := make(chan answer, 1)
	go func() { got <- r.call("GET", "/waits", "") }()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	testkit.Eventually(t, "nobody new is let in", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(goOn)
	if a := <-got; a.status != http.StatusNoContent {
		t.Errorf("status %d", a.status)
	}
	testkit.Must(t, <-stopped)
}

func TestRun_CutsOffRequestsAfterTheGrace(t *testing.T) {
	t.Parallel()
	begun, cut := make(chan struct{}), make(chan struct{})
	r := startRig(t, map[string]echo.HandlerFunc{"/waits": func(c echo.Context) error {
		close(begun)
		<-c.Request().Context().Done()
		close(cut)
		return c.Request().Context().Err()
	}}, func(o *Options) { o.ShutdownGrace = 20 * time.Millisecond })
	answered := make(chan int, 1)
	go func() {
		resp, err := r.http.Get(r.url + "/waits")
		if err != nil { // the connection was closed before there was an answer
			answered <- http.StatusServiceUnavailable
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-begun
	testkit.Must(t, r.stop())
	<-cut
	if status := <-answered; status != http.StatusServiceUnavailable {
		t.Errorf("a request that was cut off was answered %d", status)
	}
}

func TestRun_FailsIfItLosesItsListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	testkit.Must(t, l.Close())
	s, err := New(Options{Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	if err := s.Run(context.Background(), l); err == nil {
		t.Error("Run returned no error")
	}
}

// A client that has closed its side only may still read.
func TestServer_DoesNotSay200ToAClientThatHasClosedItsSide(t *testing.T) {
	t.Parallel()
	r := startRig(t, map[string]echo.HandlerFunc{"/slow": func(c echo.Context) error {
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testkit.Must(t, err)
	testkit.Must(t, conn.(*net.TCPConn).CloseWrite())
	status, err := bufio.NewReader(conn).ReadString('\n')
	if !strings.HasPrefix(status, "HTTP/1.1 499") {
		t.Errorf("it says %q, %v", status, err)
	}
}
