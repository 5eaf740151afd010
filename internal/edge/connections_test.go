package edge

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestConnections_AreBoundedForEachAddress(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.MaxConnections = 2 })
	ask := func(conn net.Conn) (int, string) {
		_, err := io.WriteString(conn, "GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n")
		testkit.Must(t, err)
		return statusOf(t, conn)
	}
	first, second := r.dial(), r.dial()
	for _, conn := range []net.Conn{first, second} {
		if status, text := ask(conn); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	third := r.dial()
	status, text := statusOf(t, third)
	if status != http.StatusTooManyRequests || !strings.Contains(text, "max-connections-per-address") {
		t.Errorf("the third one: %d %s", status, text)
	}
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("it stays open: %v", err)
	}
	if !r.logged.Has("refusing connections of an address") {
		t.Error("the log says nothing")
	}
	_ = first.Close()
	transport := &http.Transport{DisableKeepAlives: true}
	testkit.Eventually(t, "a connection that may stay", func() bool {
		resp, err := (&http.Client{Transport: transport}).Get(r.url + "/small")
		if err != nil { // it may be closed before it has sent the request
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

func TestConnectionBounds_LeaveFilesForTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ perAddress, files, each, all int }{
		{16384, 1 << 20, 16384, 1 << 19}, {16384, 65536, 16384, 32768}, {16384, 1024, 256, 512}, {100, 1024, 100, 512},
		{0, 1024, 0, 512}, {16384, 0, 16384, 0}, {0, 0, 0, 0}, {16384, 3, 1, 1},
	} {
		if each, all := connectionBounds(c.perAddress, c.files); each != c.each || all != c.all {
			t.Errorf("%+v: %d connections of an address, and %d of all", c, each, all)
		}
	}
}

// A node without files could neither call Redis nor start a task.
func TestConnections_AreBoundedByTheOpenFiles(t *testing.T) {
	t.Parallel()
	var logged testkit.Log
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	l := limitConnections(inner, 0, 6, slog.New(slog.NewJSONHandler(&logged, nil)))
	t.Cleanup(func() { testkit.Must(t, l.Close()) })
	accepted := make(chan net.Conn, 9)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		testkit.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var open []net.Conn
	for range 3 {
		dial()
		open = append(open, testkit.Receive(t, accepted, "a connection"))
	}
	status, text := statusOf(t, dial())
	if status != http.StatusTooManyRequests || !strings.Contains(text, "3 connections, half of the 6 files") {
		t.Errorf("the fourth one: %d %s", status, text)
	}
	if !logged.Has("few clients can connect") || !logged.Has("refusing connections: they are half") {
		t.Error("the log does not say it")
	}
	testkit.Must(t, open[0].Close())
	dial()
	open = append(open, testkit.Receive(t, accepted, "a connection in the place of the first one"))
	for _, conn := range open[1:] {
		testkit.Must(t, conn.Close())
	}
}
