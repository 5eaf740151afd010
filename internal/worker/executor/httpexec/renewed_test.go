package httpexec

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// remembered is how many hosts net/http remembers because no connection to them became idle. The test is skipped if
// net/http no longer has a field for them.
func remembered(t *testing.T, transport *http.Transport) int {
	t.Helper()
	hosts := reflect.ValueOf(transport).Elem().FieldByName("idleConnWait")
	if !hosts.IsValid() || hosts.Kind() != reflect.Map {
		t.Skip("http.Transport has no map idleConnWait")
	}
	return hosts.Len()
}

// No call leaves the node, as all addresses are denied.
func TestExecutor_ForgetsHosts(t *testing.T) {
	t.Parallel()
	h := restricted(t, "--http-deny", "0.0.0.0/0")
	h.transport.limit = 50
	most := 0
	for i := range 120 {
		_, err := execute(t, h, object{"method": "GET", "url": fmt.Sprintf("http://10.0.0.%d/", i)})
		wantDenied(t, err, "10.0.")
		most = max(most, remembered(t, h.transport.current.Load().Transport))
	}
	if now := remembered(t, h.transport.current.Load().Transport); most > 50 || now > 20 {
		t.Errorf("it remembers %d hosts, and %d at most, want no more than 20 and 50", now, most)
	}
}

func TestRenewed_LetsCallsUnderWayGoOn(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-goOn
		}
		_, _ = fmt.Fprint(w, "done")
	}))
	t.Cleanup(server.Close)
	h := New(executor.Options{})
	t.Cleanup(func() { testkit.Must(t, h.Close()) })
	ended := make(chan error, 1)
	go func() {
		result, err := execute(t, h, object{"method": "GET", "url": server.URL + "/slow"})
		if err == nil && result != "done" {
			err = fmt.Errorf("got %q", result)
		}
		ended <- err
	}()
	testkit.Receive(t, arrived, "the slow call")
	before := h.transport.current.Load()
	before.dials.Store(h.transport.limit)
	for range 3 {
		_, err := execute(t, h, object{"method": "GET", "url": server.URL})
		testkit.Must(t, err)
	}
	if now := h.transport.current.Load(); now == before || now.dials.Load() != 1 {
		t.Errorf("the transport is the same, or opened %d connections, want a new one with 1", now.dials.Load())
	}
	close(goOn)
	testkit.Must(t, testkit.Receive(t, ended, "the end of the slow call"))
}
