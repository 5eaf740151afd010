package httpexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
)

// guard checks where a target sends a call, and what a proxy is asked for.
type guard struct {
	http.RoundTripper
	addresses *address.Rules
	proxy     func(*http.Request) (*url.URL, error)
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if isSent(req) {
		req = req.WithContext(address.Sent(req.Context()))
	}
	if err := g.check(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	return g.RoundTripper.RoundTrip(req)
}

// errProxy stands for an error that shows the address of the proxy, which may hold a password.
var errProxy = errors.New("the environment of the node names an invalid proxy (HTTP_PROXY, HTTPS_PROXY)")

// isSent reports whether a redirect of another origin has led to a request.
func isSent(req *http.Request) bool {
	first := req
	for first.Response != nil {
		first = first.Response.Request
	}
	return !stays(req, first.URL)
}

func (g guard) check(req *http.Request) error {
	if address.IsSent(req.Context()) { // there may be a connection already
		if err := g.checkNamed(req.Context(), req.URL.Scheme, req.URL.Host); err != nil {
			return err
		}
	}
	via, err := g.proxy(req)
	switch {
	case err != nil:
		return errProxy
	case via == nil:
		return nil
	}
	if req.URL.Scheme == "http" && req.Host != "" { // the proxy gets that; of https, it is within the encryption
		if err := g.checkNamed(req.Context(), req.URL.Scheme, req.Host); err != nil {
			return err
		}
	}
	return g.checkNamed(req.Context(), req.URL.Scheme, req.URL.Host)
}

func (g guard) checkNamed(ctx context.Context, scheme, host string) error {
	u := &url.URL{Scheme: scheme, Host: host}
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	if err != nil {
		return executor.Permanent(fmt.Errorf("%q has no valid port", task.Cut(host, excerptLimit)))
	}
	return g.addresses.CheckHost(ctx, u.Hostname(), uint16(port))
}

// portOf returns the port of a URL, or that of its scheme.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "https" {
		return cmp.Or(port, "80")
	}
	return "443"
}
