package httpexec

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// proxied is an executor that uses a proxy, on a node whose resolver never answers.
type proxied struct {
	*Executor
	lookUps atomic.Int64
	lookUp  func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// newProxied makes one with settings, and a proxy for the calls of a scheme.
func newProxied(t *testing.T, scheme, proxy string, settings ...string) *proxied {
	t.Helper()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	h := &proxied{Executor: restricted(t, settings...), lookUp: resolver.LookupNetIP}
	via, err := url.Parse(proxy)
	testkit.Must(t, err)
	checked := h.client.Transport.(once).RoundTripper.(guard)
	checked.proxy = func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == scheme {
			return via, nil
		}
		return nil, nil
	}
	h.transport.current.Load().Proxy = checked.proxy
	h.client.Transport = once{checked}
	checked.addresses.LookUp = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		h.lookUps.Add(1)
		return h.lookUp(ctx, network, host)
	}
	return h
}

// The proxy of the test stands for all targets: it answers as they would.
func TestExecutor_ResolvesNoNameForAProxy(t *testing.T) {
	t.Parallel()
	proxy := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			w.Header().Set("Location", "http://other.test/end")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "/accepted":
			w.Header().Set("Location", "http://status.test/end")
			w.WriteHeader(http.StatusAccepted)
		case "/end":
			_, _ = w.Write([]byte(r.Host))
		}
	})
	h := newProxied(t, "http", proxy)
	soon := object{"poll": "100ms"}
	for _, c := range []struct {
		payload object
		want    string
	}{
		{object{"url": "http://name.test/end"}, "name.test"},
		{object{"url": "http://[2001:db8::1]:81/end"}, "[2001:db8::1]:81"},
		{object{"url": "http://name.test/end", "headers": object{"Host": "virtual.test"}}, "virtual.test"},
		{object{"url": "http://name.test/moved", "method": "GET"}, "other.test"},
		{object{"url": "http://name.test/accepted", "accept": soon}, "status.test"},
		{object{"url": "http://name.test/accepted", "accept": object{"poll": "100ms", "status_url": "http://mine.test/end"}},
			"mine.test"},
	} {
		if got, err := execute(t, h.Executor, c.payload); err != nil || got != c.want {
			t.Errorf("%v: %q, %v", c.payload, got, err)
		}
	}
	if n := h.lookUps.Load(); n != 0 {
		t.Errorf("the node looked up %d names", n)
	}
}

// The slots of a node share what a look-up has found, or that it has found nothing.
func TestExecutor_LooksUpANameOnceForAProxy(t *testing.T) {
	t.Parallel()
	proxy := serveFunc(t, func(http.ResponseWriter, *http.Request) {})
	h := newProxied(t, "http", proxy, "--http-deny", "192.0.2.0/24")
	h.lookUp = func(context.Context, string, string) ([]netip.Addr, error) { return nil, errors.New("no answer") }
	ended := make(chan error, 64)
	for range cap(ended) {
		go func() {
			_, err := execute(t, h.Executor, object{"url": "http://name.test/", "headers": object{"Host": "name.test"}})
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := testkit.Receive(t, ended, "the end of a call"); err == nil || executor.IsPermanent(err) {
			t.Errorf("got %v, want an error that is not final", err)
		}
	}
	if n := h.lookUps.Load(); n != 1 {
		t.Errorf("the node looked the name up %d times", n)
	}
}

func TestExecutor_ChecksOnlyWhatGoesThroughAProxy(t *testing.T) {
	t.Parallel()
	target, _ := serve(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(target, "http://"), ":")
	h := newProxied(t, "https", target, "--http-deny", "192.0.2.0/24")
	if got, err := execute(t, h.Executor, object{"url": "http://localhost:" + port}); err != nil || got != "ok" {
		t.Errorf("%q, %v", got, err)
	}
	if n := h.lookUps.Load(); n != 0 {
		t.Errorf("the node looked up %d names", n)
	}
}

// The header Host of an https call is encrypted: the proxy is asked for the host of the URL.
func TestExecutor_AsksAProxyForTheHostOfTheURL(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	proxy := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusBadGateway)
	})
	h := newProxied(t, "https", proxy, "--http-deny", "192.0.2.0/24")
	payload := object{"url": "https://198.51.100.1/", "headers": object{"Host": "virtual.test"}}
	if _, err := execute(t, h.Executor, payload); err == nil || executor.IsPermanent(err) {
		t.Fatalf("got %v, want that of the proxy", err)
	}
	if got := testkit.Receive(t, asked, "a request"); got != "CONNECT 198.51.100.1:443" || h.lookUps.Load() != 0 {
		t.Errorf("the proxy was asked for %q, after %d look-ups", got, h.lookUps.Load())
	}
	_, err := execute(t, h.Executor, object{"url": "https://１９２.０.２.１/"})
	if err == nil || !executor.IsPermanent(err) {
		t.Errorf("digits that net/http maps to an address: %v", err)
	}
}
