package httpexec

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// restricted is an executor on a node with these settings.
func restricted(t *testing.T, settings ...string) *Executor {
	t.Helper()
	d := Describe(address.New())
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	d.Settings.Declare(flags)
	testkit.Must(t, flags.Parse(settings))
	e, err := d.New(executor.Options{})
	testkit.Must(t, err)
	h := e.(*Executor)
	t.Cleanup(func() { testkit.Must(t, h.Close()) })
	return h
}

func wantDenied(t *testing.T, err error, address string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "this task may not call the address "+address) || !executor.IsPermanent(err) {
		t.Errorf("got %v, want a final error that names %s", err, address)
	}
}

func TestExecutor_CallsNoAddressThatIsDenied(t *testing.T) {
	t.Parallel()
	target, requests := serve(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(target, "http://"), ":")
	byName := "http://localhost:" + port // the name is checked after it was resolved
	for _, c := range []struct {
		settings []string
		denied   bool
	}{
		{nil, false},
		{[]string{"--http-deny", "10.0.0.0/8"}, false},
		{[]string{"--http-deny", "10.0.0.0/8, 127.0.0.0/8,::1"}, true},
		{[]string{"--http-deny", "0.0.0.0/0,::/0"}, true},
		{[]string{"--http-deny", "0.0.0.0/0,::/0", "--http-allow", "127.0.0.1,::1"}, false},
	} {
		h := restricted(t, c.settings...)
		for _, to := range []string{target, byName} {
			if _, err := execute(t, h, object{"url": to}); c.denied {
				wantDenied(t, err, "") // localhost has two
			} else if err != nil {
				t.Errorf("%v: %s: %v", c.settings, to, err)
			}
		}
	}
	if len(requests) != 6 {
		t.Errorf("the server saw %d requests, want 6", len(requests))
	}
}

func TestExecutor_ChecksTheAddressOfARedirect(t *testing.T) {
	t.Parallel()
	from := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
	})
	_, err := execute(t, restricted(t, "--http-deny", "127.0.0.2"), object{"url": from})
	wantDenied(t, err, "127.0.0.2")
}

func TestExecutor_CallsNoMetadataOfClouds(t *testing.T) {
	t.Parallel()
	h := newExecutor(t)
	for _, address := range []string{"169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200"} {
		_, err := execute(t, h, object{"url": (&url.URL{Scheme: "http", Host: hostOf(address)}).String()})
		wantDenied(t, err, address)
	}
	_, err := execute(t, h, object{"url": "http://[::ffff:169.254.169.254]/"})
	wantDenied(t, err, "169.254.169.254")
	a := address.New()
	testkit.Must(t, a.Allow.Set("169.254.169.254"))
	testkit.Must(t, a.Check(t.Context(), netip.MustParseAddrPort("169.254.169.254:80")))
}

func hostOf(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]:80"
	}
	return address + ":80"
}

func TestExecutor_ShowsNoPasswordOfAProxy(t *testing.T) {
	t.Parallel()
	h := restricted(t)
	checked := h.client.Transport.(once).RoundTripper.(guard)
	checked.proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("invalid proxy http://u:secret@h h") }
	h.client.Transport = once{checked}
	_, err := execute(t, h, object{"url": "http://127.0.0.1/"})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "HTTP_PROXY") {
		t.Errorf("got %v", err)
	}
}

// A proxy connects in place of the node.
func TestExecutor_ChecksWhatAProxyIsAskedFor(t *testing.T) {
	t.Parallel()
	asked := 0
	proxy := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { asked++; w.WriteHeader(http.StatusNoContent) })
	via, err := url.Parse(proxy)
	testkit.Must(t, err)
	h := restricted(t, "--http-deny", "192.0.2.0/24")
	checked := h.client.Transport.(once).RoundTripper.(guard)
	checked.proxy = http.ProxyURL(via)
	h.transport.current.Load().Proxy = checked.proxy
	checked.addresses.LookUp = func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if host == "inside.test" {
			return []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("192.0.2.7")}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	h.client.Transport = once{checked}
	checked.addresses.Protect(func() []executor.Endpoint {
		return executor.RedisEndpoints("the Redis of DTS", []string{"198.51.100.1:6379", "198.51.100.1:443"})
	})
	for _, payload := range []object{
		{"url": "http://198.51.100.1:6379/"}, {"url": "https://198.51.100.1/"}, {"url": "http://inside.test:6379/"},
		{"url": "http://198.51.100.1/", "headers": object{"Host": "198.51.100.1:6379"}},
	} {
		_, err := execute(t, h, payload)
		wantDenied(t, err, "198.51.100.1:")
	}
	for _, host := range []string{"192.0.2.7", "169.254.169.254"} {
		_, err := execute(t, h, object{"url": "http://" + host + "/", "body": "x"})
		wantDenied(t, err, host)
	}
	if _, err := execute(t, h, object{"url": "http://198.51.100.1/", "headers": object{"Host": "169.254.169.254"}}); err == nil || !executor.IsPermanent(err) {
		t.Errorf("the header Host: %v", err)
	}
	for _, host := range []string{"2852039166", "0xa9fea9fe", "169.254.43518", "169.254.169.254.", "169.0376.0251.0376"} {
		if _, err := execute(t, h, object{"url": "http://" + host + "/"}); err == nil || !executor.IsPermanent(err) {
			t.Errorf("%s: %v, want a final error", host, err)
		}
	}
	_, err = execute(t, h, object{"url": "http://inside.test/"})
	wantDenied(t, err, "192.0.2.7")
	if _, err := execute(t, h, object{"url": "http://name.invalid/"}); err == nil || executor.IsPermanent(err) {
		t.Errorf("a name that cannot be resolved: %v", err)
	}
	if _, err := execute(t, h, object{"url": "http://198.51.100.1/"}); err != nil || asked != 1 {
		t.Errorf("%v; the proxy was asked %d times, want once", err, asked)
	}
	checked.addresses.Deny = nil
	if _, err := execute(t, h, object{"url": "http://name.invalid/"}); err != nil || asked != 2 {
		t.Errorf("%v; the proxy was asked %d times, want twice", err, asked)
	}
}

func TestExecutor_ChecksAnAddressBeforeItConnects(t *testing.T) {
	t.Parallel()
	r := executortest.NewRecorder(executortest.JSON(t, object{"url": "http://192.0.2.1/", "method": "GET"}))
	_, err := restricted(t, "--http-deny", "192.0.2.0/24").Execute(t.Context(), r.Attempt)
	wantDenied(t, err, "192.0.2.1")
}
