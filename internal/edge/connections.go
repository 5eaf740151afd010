package edge

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

	// fewConnections is how many a node should be able to serve; if it is less, the log says so.
	fewConnections = 1000
)

// bounded is a listener that closes the connections of a client's address, and of all, beyond limits.
type bounded struct {
	net.Listener
	open   Places
	files  int // that this process may open; 0 if that is not known
	log    *slog.Logger
	mu     sync.Mutex
	warned time.Time
}

// limitConnections bounds the connections to l: those of each address to a limit, 0 for any number, and all by how many
// files this process may open, 0 if that is not known.
func limitConnections(l net.Listener, perAddress, files int, log *slog.Logger) net.Listener {
	b := &bounded{Listener: l, files: files, log: log}
	b.open.perAddress, b.open.all = connectionBounds(perAddress, files)
	if b.open.all > 0 && b.open.all < fewConnections {
		log.Warn("few clients can connect: raise the limit of open files (LimitNOFILE, ulimit -n)",
			"open_files", files, "connections", b.open.all, "connections_per_address", b.open.perAddress)
	}
	return b
}

// connectionBounds leaves half of the files to Redis and to tasks, and half of the connections to other addresses.
func connectionBounds(perAddress, files int) (each, all int) {
	all = files / 2
	switch {
	case all == 0 || perAddress == 0:
		return perAddress, all
	default:
		return min(perAddress, max(1, all/2)), all
	}
}

// Accept returns the next connection that may stay.
func (l *bounded) Accept() (net.Conn, error) {
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
		leave, reached := l.open.enter(from)
		if leave != nil {
			return &countedConn{TCPConn: tcp, leave: leave}, nil
		}
		l.turnAway(tcp, from, reached)
	}
}

// turnAway closes a connection, and says why. Nothing is lost: no request of it was read.
func (l *bounded) turnAway(conn *net.TCPConn, from netip.Prefix, reached bound) {
	l.warn(from, reached)
	p := problemOf(l.refusal(reached), rand.Text())
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

func (l *bounded) refusal(reached bound) error {
	if reached == boundOfAll {
		return task.Errorf(CodeTooManyConnections, "this node has %d connections, half of the %d files that it may open: "+
			"ask another node, or raise its limit of open files", l.open.all, l.files)
	}
	return task.Errorf(CodeTooManyConnections, "this address has %d connections, as many as it may "+
		"(max-connections-per-address, and a quarter of the files that the node may open)", l.open.perAddress)
}

// warn says that connections are refused, once a minute: who opens them must not fill the log.
func (l *bounded) warn(from netip.Prefix, reached bound) {
	l.mu.Lock()
	now := clock.Now()
	due := now.Sub(l.warned) >= warnInterval
	if due {
		l.warned = now
	}
	l.mu.Unlock()
	switch {
	case !due:
	case reached == boundOfAll:
		l.log.Warn("refusing connections: they are half of the files that this process may open",
			"connections", l.open.all, "open_files", l.files)
	default:
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
