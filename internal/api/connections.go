package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// goodbyeTimeout is for telling a client that its connection is closed. It only has to fit into the buffer of a new
	// connection.
	goodbyeTimeout = time.Second

	// warnInterval is the least time between two warnings of refused connections.
	warnInterval = time.Minute
)

// perAddress is a listener that closes the connections of a client's address beyond a limit.
type perAddress struct {
	net.Listener
	open   places
	log    *slog.Logger
	mu     sync.Mutex
	warned time.Time
}

// limitPerAddress bounds the connections of each address to l; 0 is any number.
func limitPerAddress(l net.Listener, limit int, log *slog.Logger) net.Listener {
	if limit == 0 {
		return l
	}
	return &perAddress{Listener: l, open: places{perAddress: limit}, log: log}
}

// Accept returns the next connection that may stay.
func (l *perAddress) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			return conn, nil
		}
		remote, _ := tcp.RemoteAddr().(*net.TCPAddr) // a connection that has failed has none
		from := networkOf(remote.AddrPort().Addr())
		if leave, _ := l.open.enter(from); leave != nil {
			return &countedConn{TCPConn: tcp, leave: leave}, nil
		}
		l.turnAway(tcp, from)
	}
}

// turnAway closes a connection, and says why. Nothing is lost: no request of it was read.
func (l *perAddress) turnAway(conn *net.TCPConn, from netip.Prefix) {
	l.warn(from)
	p := problemOf(task.Errorf(codeTooManyConnections,
		"this address has %d connections, as many as it may (max-connections-per-address)", l.open.perAddress), rand.Text())
	var out bytes.Buffer
	body, err := json.Marshal(p)
	if err == nil {
		fmt.Fprintf(&out,
			"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: %d\r\nConnection: close\r\n\r\n%s",
			p.Status, http.StatusText(p.Status), problemType, len(body), p.RetryAfter, body)
		_ = conn.SetWriteDeadline(clock.Now().Add(goodbyeTimeout))
		_, _ = conn.Write(out.Bytes())
	}
	_ = conn.Close()
}

// warn says that connections are refused, once a minute: who opens them must not fill the log.
func (l *perAddress) warn(from netip.Prefix) {
	l.mu.Lock()
	now := clock.Now()
	due := now.Sub(l.warned) >= warnInterval
	if due {
		l.warned = now
	}
	l.mu.Unlock()
	if due {
		l.log.Warn("refusing connections of an address: it has as many as it may",
			"address", from, "max_connections_per_address", l.open.perAddress)
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	*net.TCPConn
	leave func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}
