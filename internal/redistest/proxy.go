package redistest

import (
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy is a TCP proxy in front of a server, to play a slow or a broken network: what clients send can be
// held back and delivered late, even after they gave up, and all connections can be cut.
type Proxy struct {
	t      testing.TB
	target string
	addr   string

	mu       sync.Mutex
	changed  *sync.Cond // signalled on every change of what mu guards
	listener net.Listener
	links    []*link // open ones, oldest first
	holding  bool
	cut      bool
	cuts     int // how often Cut was called

	running sync.WaitGroup
}

// NewProxy starts a proxy to target (host:port) on a free port of 127.0.0.1. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l := listenLocal(t)
	p := &Proxy{t: t, target: target, addr: l.Addr().String()}
	p.changed = sync.NewCond(&p.mu)
	p.listener = l
	p.running.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close() // it is ours and open: nothing can go wrong that matters
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return p.addr }

// URL is the proxy's address as redisx.Open and --redis take it.
func (p *Proxy) URL() string { return "redis://" + p.addr + "/0" }

// Hold keeps back, from now on, what clients send. Answers still pass.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
}

// Held is what is being held back, connection after connection in the order they were opened.
func (p *Proxy) Held() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []byte
	for _, l := range p.links {
		all = append(all, l.pending...)
	}
	return all
}

// Release delivers what was held back, also of clients that have gone meanwhile, and lets everything pass
// again. It returns once the server's sockets have taken it.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = false
	p.changed.Broadcast()
	waited := slices.Clone(p.links)
	for slices.ContainsFunc(waited, (*link).undelivered) {
		p.changed.Wait()
	}
}

// Cut closes all connections, and new ones as soon as they are made. What was held back is lost. The port stays taken:
// if it were free, another test's server could get it and answer the clients of this one.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.cuts++
	for len(p.links) > 0 {
		p.drop(p.links[0])
	}
}

// Mend lets connections pass again after Cut.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil { // closed at the end of the test
			return
		}
		p.mu.Lock()
		cut, cuts := p.cut, p.cuts
		p.mu.Unlock()
		if cut {
			_ = client.Close() // the client learns from it that nobody is there
			continue
		}
		p.running.Go(func() { p.connect(cuts, client) })
	}
}

// connect joins a client to the server, unless Cut was called since there were cuts calls.
func (p *Proxy) connect(cuts int, client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, startLimit)
	if err != nil {
		_ = client.Close() // the client learns from it that nobody is there
		return
	}
	k := &link{client: client, server: server}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts != cuts {
		k.close()
		return
	}
	p.links = append(p.links, k)
	p.running.Go(func() { p.listen(k) })
	p.running.Go(func() { p.deliver(k) })
	p.running.Go(func() { p.answer(k) })
}
