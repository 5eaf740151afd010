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
	// networkBits of an address of IPv6 tell one client from another: whoever has one address has all that begin so.
	networkBits = 64

	// goodbyeTimeout is for telling a client that its connection is closed. It only has to fit into the buffer of a new
	// connection.
	goodbyeTimeout = time.Second

	// warnInterval is the least time between two warnings of refused connections.
	warnInterval = time.Minute
)

// perAddress is a listener that closes the connections of a client's address beyond a limit.
type perAddress struct {
	net.Listener
	limit  int
	log    *slog.Logger
	mu     sync.Mutex
	open   map[netip.Prefix]int
	warned time.Time
}

// limitPerAddress bounds the connections of each address to l; 0 is any number.
func limitPerAddress(l net.Listener, limit int, log *slog.Logger) net.Listener {
	if limit == 0 {
		return l
	}
	return &perAddress{Listener: l, limit: limit, log: log, open: map[netip.Prefix]int{}}
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
		from := peerOf(tcp)
		if l.enter(from) {
			return &countedConn{TCPConn: tcp, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		l.turnAway(tcp, from)
	}
}

// peerOf is the address of a client, of IPv6 its network.
func peerOf(conn *net.TCPConn) netip.Prefix {
	remote, _ := conn.RemoteAddr().(*net.TCPAddr) // a connection that has failed has none
	return networkOf(remote.AddrPort().Addr())
}

// networkOf is what tells the client with an address from others.
func networkOf(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = networkBits
	}
	network, _ := address.Prefix(bits) // the zero one, if there is no address
	return network
}

func (l *perAddress) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.limit {
		return false
	}
	l.open[from]++
	return true
}

func (l *perAddress) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

// turnAway closes a connection, and says why. Nothing is lost: no request of it was read.
func (l *perAddress) turnAway(conn *net.TCPConn, from netip.Prefix) {
	l.warn(from)
	p := problemOf(task.Errorf(codeTooManyConnections,
		"this address has %d connections, as many as it may (max-connections-per-address)", l.limit), rand.Text())
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
			"address", from, "max_connections_per_address", l.limit)
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
