package httpexec

import (
	"encoding/json"
	"net/http"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
)

// setTLS reads the field tls. Error: *executor.InvalidPayloadError.
func (c *call) setTLS(value json.RawMessage) error {
	w, given, err := certs.Parse(value)
	if err != nil {
		return err
	}
	if given && c.url.Scheme != "https" {
		return executor.Invalid("tls", "is for https, and the url begins with %s:", c.url.Scheme)
	}
	c.tls = w
	return nil
}

// securedFor returns an executor for one call, and what ends it. A call that checks the server's certificate in its own
// way gets connections of its own: those of other calls were checked differently.
func (e *Executor) securedFor(c *call) (_ *Executor, end func(), _ error) {
	if c.tls == (certs.Wanted{}) {
		return e, func() {}, nil
	}
	secure, err := e.files.Config(c.tls)
	if err != nil {
		return nil, nil, err
	}
	transport := e.transport.current.Load().Clone()
	transport.TLSClientConfig = secure
	own := *e
	own.client = clientOf(transport, e.rules)
	return &own, transport.CloseIdleConnections, nil
}

// clientOf makes calls over a transport to the addresses that the rules allow.
func clientOf(transport http.RoundTripper, rules *address.Rules) *http.Client {
	checked := guard{RoundTripper: transport, addresses: rules, proxy: http.ProxyFromEnvironment}
	return &http.Client{Transport: once{checked}, CheckRedirect: checkRedirect}
}
