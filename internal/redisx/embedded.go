package redisx

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis server inside the process, for trials and for tests with virtual time. It keeps its data in
// memory only; Close discards the data.
type Embedded struct {
	server *miniredis.Miniredis
	name   string // in hidden; "" for a server with a port
}

// hidden are the servers without a port, by the host of their URL.
var (
	hidden      sync.Map // string -> *Embedded
	hiddenCount atomic.Int64
)

// hiddenScheme is the scheme of the URLs of servers without a port.
const hiddenScheme = "embedded"

const (
	hiddenPool      = 1000          // connections, so that nobody waits for one: go-redis shares the timers of such waits among bubbles
	hiddenPingAfter = 6 * time.Hour // such a connection does not break by itself
)

// findHidden returns the server without a port that has a URL. Error: it does not run in this process.
func findHidden(raw string) (*Embedded, error) {
	found, ok := hidden.Load(strings.TrimPrefix(raw, hiddenScheme+"://"))
	if !ok {
		return nil, fmt.Errorf("redis URL %q: no such Redis runs in this process", raw)
	}
	return found.(*Embedded), nil
}

// StartEmbedded starts an embedded Redis at an address host:port; "" means a free port of the loopback interface.
func StartEmbedded(address string) (*Embedded, error) {
	server := newEmbedded()
	if err := server.StartAddr(cmp.Or(address, "127.0.0.1:0")); err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Embedded{server: server}, nil
}

// StartHidden starts an embedded Redis without a port. Clients in this process connect by its URL. Because it uses no sockets, it
// works inside a testing/synctest bubble, where it follows the virtual time.
func StartHidden() (*Embedded, error) {
	server := newEmbedded()
	first, err := server.Dial() // the first Dial starts a server without a port
	if err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	e := &Embedded{server: server, name: strconv.FormatInt(hiddenCount.Add(1), 10)}
	hidden.Store(e.name, e)
	return e, first.Close()
}

// newEmbedded returns a server that is not started and whose keys expire by the clock.
func newEmbedded() *miniredis.Miniredis {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	return server
}

// URL returns the URL for Options.URL.
func (e *Embedded) URL() string {
	if e.name != "" {
		return hiddenScheme + "://" + e.name
	}
	return "redis://" + e.server.Addr() + "/0"
}

// Dial connects within the process. Error: net.ErrClosed after Close.
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
func (e *Embedded) Close() {
	hidden.Delete(e.name)
	e.server.Close()
}
