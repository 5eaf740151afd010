package redisx

import (
	"context"
	"fmt"
	"net"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis inside the process, in memory only: for trying DTS out, and for tests that travel in time.
// What is in it is gone when it is closed.
type Embedded struct{ server *miniredis.Miniredis }

// StartEmbedded starts one on a free port of the loopback interface.
func StartEmbedded() (*Embedded, error) {
	server := newEmbedded()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Embedded{server: server}, nil
}

// StartHidden starts one that has no port: the only way to it is Dial. It is at home in testing/synctest, which real
// sockets are not, and lives in the bubble's time.
func StartHidden() (*Embedded, error) {
	server := newEmbedded()
	first, err := server.Dial() // which is how one without a port is started
	if err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Embedded{server: server}, first.Close()
}

func newEmbedded() *miniredis.Miniredis {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	return server
}

// URL is what Open connects to.
func (e *Embedded) URL() string {
	if addr := e.server.Addr(); addr != "" {
		return "redis://" + addr + "/0"
	}
	return "redis://127.0.0.1:0/0" // for which Dial is needed; not a name, because go-redis looks names up
}

// Dial connects within the process; it is for Options.Dial.
func (e *Embedded) Dial(context.Context) (net.Conn, error) {
	e.server.Lock() // Close would else miss a connection that is being made
	defer e.server.Unlock()
	server := e.server.Server()
	if server == nil {
		return nil, net.ErrClosed
	}
	client, accepted := pipe()
	server.ServeConn(accepted)
	return client, nil
}

// Close stops it and forgets everything.
func (e *Embedded) Close() { e.server.Close() }
