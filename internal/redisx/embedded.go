package redisx

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis server inside the process, for trials and for tests with virtual time. It keeps its data in
// memory only; Close discards the data.
type Embedded struct{ server *miniredis.Miniredis }

// StartEmbedded starts an embedded Redis at an address host:port; "" means a free port of the loopback interface.
func StartEmbedded(address string) (*Embedded, error) {
	server := newEmbedded()
	if err := server.StartAddr(cmp.Or(address, "127.0.0.1:0")); err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Embedded{server: server}, nil
}

// StartHidden starts an embedded Redis without a port. Clients connect with Dial only. Because it uses no sockets, it
// works inside a testing/synctest bubble, where it follows the virtual time.
func StartHidden() (*Embedded, error) {
	server := newEmbedded()
	first, err := server.Dial() // the first Dial starts a server without a port
	if err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Embedded{server: server}, first.Close()
}

// newEmbedded returns a server that is not started and whose keys expire by the clock.
func newEmbedded() *miniredis.Miniredis {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	return server
}

// URL returns the URL for Options.URL. A server without a port also needs Options.Dial.
func (e *Embedded) URL() string {
	if addr := e.server.Addr(); addr != "" {
		return "redis://" + addr + "/0"
	}
	return "redis://127.0.0.1:0/0" // an address and not a host name, because go-redis resolves host names
}

// Dial connects within the process. It is meant for Options.Dial. Error: net.ErrClosed after Close.
func (e *Embedded) Dial(context.Context) (net.Conn, error) {
	e.server.Lock() // otherwise Close could miss a connection that is being opened
	defer e.server.Unlock()
	server := e.server.Server()
	if server == nil {
		return nil, net.ErrClosed
	}
	client, accepted := pipe()
	server.ServeConn(accepted)
	return client, nil
}

// Close stops the server and discards its data.
func (e *Embedded) Close() { e.server.Close() }
