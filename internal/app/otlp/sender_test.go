package otlp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/dts-sched/dts/internal/testkit"
)

// started is what Start returns, with a log.
type started struct {
	*sdk.TracerProvider
	stop func() error
	log  *testkit.Log
}

func begin(t *testing.T, endpoint string, flush time.Duration) started {
	t.Helper()
	log := new(testkit.Log)
	s := Settings{endpoint: endpoint, sample: 1, flush: flush}
	provider, stop, err := s.Start("v1", "node-a", slog.New(slog.NewTextHandler(log, nil)))
	testkit.Must(t, err)
	return started{provider.(*sdk.TracerProvider), stop, log}
}

// send makes a span and waits until it was sent, or dropped.
func (s started) send(t *testing.T) {
	t.Helper()
	_, span := s.Tracer("test").Start(context.Background(), "span")
	span.End()
	testkit.Must(t, s.ForceFlush(t.Context()))
}

func TestSender_TellsOnceThatTheCollectorFails(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer collector.Close()
	s := begin(t, collector.URL, time.Minute)
	defer func() { testkit.Must(t, s.stop()) }()
	for _, want := range []struct {
		broken        bool
		fails, passes int
	}{{true, 1, 0}, {true, 1, 0}, {false, 1, 1}, {false, 1, 1}, {true, 2, 1}} {
		broken.Store(want.broken)
		s.send(t)
		fails, passes := s.log.Count("cannot send traces"), s.log.Count("takes traces again")
		if fails != want.fails || passes != want.passes {
			t.Errorf("the log tells %d times that it fails and %d times that it works, want %+v", fails, passes, want)
		}
	}
	if s.log.Count("level=") != 3 {
		t.Errorf("the log has %d lines, want 3", s.log.Count("level="))
	}
}

// Some services want a token in the path. The collector's answer and the errors of the exporter can have it, too.
func TestSender_LogsNoPathOfTheCollector(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "cannot POST "+r.URL.Path, http.StatusNotFound)
	}))
	defer collector.Close()
	s := begin(t, collector.URL+"/otlp/s3cr3t%20token", time.Minute)
	s.send(t)
	testkit.Must(t, s.stop())
	if !s.log.Has("collector="+collector.URL+" ") || !s.log.Has(collector.URL+"/***: 404") || s.log.Has("s3cr3t") {
		t.Error("the log does not name the collector, or has its path")
	}
}

// Nobody listens, or somebody takes the connection and says nothing. The goroutines that were to send end, too.
func TestStart_EndsInTimeWithoutACollector(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = silent.Close() }()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	testkit.Must(t, closed.Close())
	for name, l := range map[string]net.Listener{"silent": silent, "closed": closed} {
		s := begin(t, "http://"+l.Addr().String(), 50*time.Millisecond)
		_, span := s.Tracer("test").Start(t.Context(), "span")
		span.End()
		testkit.Must(t, s.stop())
		testkit.Eventually(t, name+": it tells that", func() bool { return s.log.Has("cannot send traces") })
	}
}
