package httpexec

import (
	"context"
	"net/http"
	"net/url"

	"github.com/dts-sched/dts/internal/worker/executor/address"
)

// guard checks what a proxy is asked for.
type guard struct {
	http.RoundTripper
	addresses *address.Rules
	proxy     func(*http.Request) (*url.URL, error)
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if via, err := g.proxy(req); err == nil && via != nil {
		for _, host := range []string{req.URL.Host, req.Host} { // the proxy gets the second if there is one
			if err := g.checkNamed(req.Context(), host); err != nil {
				if req.Body != nil {
					_ = req.Body.Close()
				}
				return nil, err
			}
		}
	}
	return g.RoundTripper.RoundTrip(req)
}

func (g guard) checkNamed(ctx context.Context, host string) error {
	if host == "" {
		return nil
	}
	return g.addresses.CheckHost(ctx, (&url.URL{Host: host}).Hostname())
}
