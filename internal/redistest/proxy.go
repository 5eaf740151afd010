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
	addr string // "" of a gateway's

	mu        sync.Mutex
	delivered *sync.Cond // signalled when a link has delivered something, or is closed
	target    string     // host:port of the server
	links     []*link    // open ones, oldest first
	holding   bool
	cut       bool
	cuts      int // how often Cut was called
	dropEach  int // see DropAnswers; 0: none is dropped
	answers   int // since DropAnswers

	running sync.WaitGroup
}

// NewProxy starts a proxy to target (host:port) on a free port of 127.0.0.1. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l := listenLocal(t)
	p := newProxy(target)
	p.addr = l.Addr().String()
	p.running.Go(func() { p.serve(l) })
	t.Cleanup(func() {
		_ = l.Close() // it is ours and open: nothing can go wrong that matters
		p.end()
	})
	return p
}

// newProxy makes a proxy without an address.
func newProxy(target string) *Proxy {
	p := &Proxy{target: target}
	p.delivered = sync.NewCond(&p.mu)
	return p
}

// end ends all connections.
func (p *Proxy) end() {
	p.Cut()
	p.running.Wait()
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
	waited := slices.Clone(p.links)
	for _, k := range waited {
		k.more.Signal()
	}
	for slices.ContainsFunc(waited, (*link).undelivered) {
		p.delivered.Wait()
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

// DropAnswers drops, from now on, each nth answer of the server, and closes the connection on which it came: the command was executed, and
// the client does not learn how.
func (p *Proxy) DropAnswers(nth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropEach, p.answers = nth, 0
}

// drops counts an answer and reports whether it is to be dropped.
func (p *Proxy) drops() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	return p.dropEach > 0 && p.answers%p.dropEach == 0
}

// Mend lets everything pass again after Cut and DropAnswers.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.dropEach = false, 0
}

// Redirect has connections lead to another server from now on. Those that there are stay: Cut ends them.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil { // closed at the end of the test
			return
		}
		p.running.Go(func() { p.admit(client) })
	}
}

// admit joins a client to the server, or ends its connection.
func (p *Proxy) admit(client net.Conn) {
	p.mu.Lock()
	cut, cuts, target := p.cut, p.cuts, p.target
	p.mu.Unlock()
	if cut {
		_ = client.Close() // the client learns from it that nobody is there
		return
	}
	p.connect(cuts, target, client)
}

// connect joins a client to the server, unless Cut was called since there were cuts calls.
func (p *Proxy) connect(cuts int, target string, client net.Conn) {
	server, err := net.DialTimeout("tcp", target, startLimit)
	if err != nil {
		_ = client.Close() // the client learns from it that nobody is there
		return
	}
	k := &link{client: client, server: server, more: sync.NewCond(&p.mu)}
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
