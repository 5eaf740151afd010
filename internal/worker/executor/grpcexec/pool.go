package grpcexec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

const (
	connsLimit  = 256 // further servers wait until a connection is idle
	idleTimeout = time.Minute
)

// pool holds the connections. Attempts with equal servers share one; an unused one is closed after idleTimeout, or earlier if
// another server needs its place.
type pool struct {
	dialer *dialer
	limit  int
	idle   time.Duration

	mu     sync.Mutex
	shared map[grpccall.Server]*conn
	open   int           // shared ones, and replaced ones that are still in use
	freed  chan struct{} // closed, and replaced, when a connection is no longer in use
}

// conn is a connection of the pool. Its fields belong to the pool, but for denied.
type conn struct {
	*grpc.ClientConn
	to     grpccall.Server
	denied atomic.Pointer[executor.Verdict]
	users  int
	timer  *time.Timer // closes it while it has no users
}

func newPool(d *dialer) *pool {
	return &pool{dialer: d, limit: connsLimit, idle: idleTimeout, shared: map[grpccall.Server]*conn{}, freed: make(chan struct{})}
}

// get returns a connection, which put gives back. It waits while as many as may be are in use.
func (p *pool) get(ctx context.Context, to grpccall.Server) (*conn, error) {
	for {
		c, freed, err := p.tryGet(to)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryGet returns a connection, or what to wait for.
func (p *pool) tryGet(to grpccall.Server) (*conn, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.shared[to]
	if c == nil {
		if p.open >= p.limit && !p.closeIdle() {
			return nil, p.freed, nil
		}
		c = &conn{to: to}
		var err error
		if c.ClientConn, err = p.dialer.dial(to, &c.denied); err != nil {
			return nil, nil, err
		}
		p.shared[to] = c
		p.open++
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.users++
	return c, nil, nil
}

// closeIdle closes a connection without users and returns false if there is none. p.mu is held.
func (p *pool) closeIdle() bool {
	for _, c := range p.shared {
		if c.users == 0 {
			p.drop(c)
			_ = p.end(c)
			return true
		}
	}
	return false
}

// put gives a connection back. If it is unusable, nobody else gets it.
func (p *pool) put(c *conn, unusable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if unusable {
		p.drop(c)
	}
	if c.users--; c.users > 0 {
		return
	}
	if p.shared[c.to] != c {
		_ = p.end(c)
	} else {
		c.timer = time.AfterFunc(p.idle, func() { p.expire(c) })
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

// expire closes a connection that has been idle, unless it has found a user at the last moment.
func (p *pool) expire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users == 0 && c.timer != nil && p.shared[c.to] == c {
		p.drop(c)
		_ = p.end(c)
	}
}

// drop makes the next attempt at the same server connect anew. p.mu is held.
func (p *pool) drop(c *conn) {
	if p.shared[c.to] == c {
		delete(p.shared, c.to)
	}
}

// end closes a connection that is not shared any more. p.mu is held.
func (p *pool) end(c *conn) error {
	p.open--
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.Close()
}

// close closes all connections. No attempt may run any more.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failures []error
	for _, c := range p.shared {
		p.drop(c)
		failures = append(failures, p.end(c))
	}
	return errors.Join(failures...)
}

// unusable reports whether the connection is to be replaced after an attempt: it is broken, or the server may be gone without a word.
// Another attempt connects anew, in place of waiting until gRPC tries again.
func (c *conn) unusable(ctx context.Context, err error) bool {
	timedOut := executor.Ended(ctx, err) != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	return timedOut || isCode(err, codes.Unavailable) && c.GetState() != connectivity.Ready
}

// explain returns the refusal of the node's rules in place of an error that came from it: of what a dialer returns, gRPC passes on only
// the text.
func (c *conn) explain(err error) error {
	if denied := c.denied.Load(); denied != nil && isCode(err, codes.Unavailable) {
		return denied
	}
	return err
}
