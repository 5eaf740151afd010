package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/app/profiles"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// debugged runs a node that serves profiles.
func debugged(t *testing.T) *running {
	t.Helper()
	c := settings("")
	c.DebugListen = "127.0.0.1:0"
	return run(t, Options{Config: c, Profiles: profiles.Handler()})
}

// get reads a URL and returns the status and the body of the response.
func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	response, err := http.Get(url)
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, body
}

func TestDebug_ServesProfilesAndNothingElse(t *testing.T) {
	t.Parallel()
	a := debugged(t)
	url := "http://" + a.debug.Addr().String()
	gzip := []byte{0x1f, 0x8b} // profiles are compressed
	for _, path := range []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/heap", "/debug/pprof/goroutine"} {
		if status, body := get(t, url+path); status != http.StatusOK || !bytes.HasPrefix(body, gzip) {
			t.Errorf("%s: %d %.100q", path, status, body)
		}
	}
	if status, body := get(t, url+"/debug/pprof/"); status != http.StatusOK || !bytes.Contains(body, []byte("goroutine")) {
		t.Errorf("the list of profiles: %d %s", status, body)
	}
	for _, path := range []string{"/", "/healthz", "/metrics", "/v1/tasks", "/debug/pprof/cmdline"} {
		if status, body := get(t, url+path); status != http.StatusNotFound {
			t.Errorf("%s: %d %.100q, want 404", path, status, body)
		}
	}
}

func TestDebug_IsNotOnTheAPI(t *testing.T) {
	t.Parallel()
	a := debugged(t)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/heap"} {
		if status, body := a.call(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %.100q, want 404", path, status, body)
		}
	}
}

func TestDebug_CutsOffAProfileWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	a := debugged(t)
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + a.debug.Addr().String() + "/debug/pprof/trace?seconds=3600")
		if err != nil {
			ended <- err
			return
		}
		defer func() { _ = response.Body.Close() }()
		_, err = response.Body.Read(make([]byte, 1)) // the trace begins with its header
		close(begun)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
		}
		ended <- err
	}()
	testkit.Receive(t, begun, "the begin of the trace")
	a.finish()
	if err := testkit.Receive(t, ended, "the end of the trace"); err == nil {
		t.Error("the trace of an hour is complete")
	}
}

func TestDebug_FailsIfItsPortIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = taken.Close() }()
	c := settings(redistest.Start(t).URL())
	c.DebugListen = taken.Addr().String()
	_, err = New(context.Background(), Options{Config: c, Log: slog.New(slog.DiscardHandler), Profiles: profiles.Handler()})
	if err == nil || !strings.Contains(err.Error(), "debug-listen: ") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

func TestDebug_IsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	if a := run(t, Options{Config: settings(""), Profiles: profiles.Handler()}); a.debug != nil {
		t.Errorf("it listens on %s", a.debug.Addr())
	}
}

// Both listeners are at loopback addresses, and a page's name may point there.
func TestApp_RefusesReboundNames(t *testing.T) {
	t.Parallel()
	c := settings("")
	c.DebugListen, c.AllowedHosts = "127.0.0.1:0", config.Hosts{"dts.example.com"}
	a := run(t, Options{Config: c, Profiles: profiles.Handler()})
	for _, url := range []string{"http://" + a.Addr() + "/v1/tasks", "http://" + a.debug.Addr().String() + "/debug/pprof/heap"} {
		for host, want := range map[string]int{
			"attacker.example:8080": http.StatusForbidden, "dts.example.com": http.StatusOK, "localhost:1": http.StatusOK,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			testkit.Must(t, err)
			req.Host = host
			response, err := http.DefaultClient.Do(req)
			testkit.Must(t, err)
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s for %s: %d, want %d", url, host, response.StatusCode, want)
			}
		}
	}
}
