package httpexec

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// dialsLimit is how many connections a transport opens before another one takes its place. net/http remembers each
// host none of whose connections became idle, with about 600 B, as long as the transport lives.
const dialsLimit = 4_000

// renewed is a transport that forgets the hosts of former calls. When another one takes its place, idle connections
// are closed, and calls that are under way go on; those count no more for the limits of the new one.
type renewed struct {
	current atomic.Pointer[counted]
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	limit   int64 // see dialsLimit
}

// counted is a transport, and how many connections it has opened.
type counted struct {
	*http.Transport
	dials atomic.Int64
}

// newRenewed begins with a transport, which must have a DialContext.
func newRenewed(first *http.Transport) *renewed {
	r := &renewed{limit: dialsLimit, dial: first.DialContext}
	r.current.Store(r.count(first))
	return r
}

// count has a transport count its connections.
func (r *renewed) count(t *http.Transport) *counted {
	c := &counted{Transport: t}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.dials.Add(1)
		return r.dial(ctx, network, address)
	}
	return c
}

// RoundTrip implements http.RoundTripper.
func (r *renewed) RoundTrip(req *http.Request) (*http.Response, error) {
	t := r.current.Load()
	if t.dials.Load() >= r.limit {
		t = r.renew(t)
	}
	return t.RoundTrip(req)
}

// renew replaces a transport, unless another call has done so, and returns the current one.
func (r *renewed) renew(old *counted) *counted {
	if r.current.CompareAndSwap(old, r.count(old.Clone())) {
		old.CloseIdleConnections()
	}
	return r.current.Load()
}
