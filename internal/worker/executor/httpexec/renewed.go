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
	current atomic.Pointer[http.Transport]
	dials   atomic.Int64 // of the current one
	limit   int64        // see dialsLimit
}

// newRenewed begins with a transport, which must have a DialContext.
func newRenewed(first *http.Transport) *renewed {
	r := &renewed{limit: dialsLimit}
	dial := first.DialContext
	first.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		r.dials.Add(1)
		return dial(ctx, network, address)
	}
	r.current.Store(first)
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *renewed) RoundTrip(req *http.Request) (*http.Response, error) {
	t := r.current.Load()
	if r.dials.Load() >= r.limit {
		t = r.renew(t)
	}
	return t.RoundTrip(req)
}

// renew replaces a transport, unless another call has done so, and returns the current one.
func (r *renewed) renew(old *http.Transport) *http.Transport {
	if r.current.CompareAndSwap(old, old.Clone()) {
		r.dials.Store(0)
		old.CloseIdleConnections()
	}
	return r.current.Load()
}
