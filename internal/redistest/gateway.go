package redistest

import (
	"fmt"
	"net"
	"sync"
)

// gateway is the address of a server that others name it by. It has a Proxy to the server for each client, so that the way of one can be broken
// and those of the others, and of other servers, not.
type gateway struct {
	port   int
	client func(net.Conn) string // see Gated

	mu      sync.Mutex
	target  string // host:port of the server
	proxies map[string]*Proxy

	running sync.WaitGroup
}

// Gated has clients, and other servers, reach the server at another port than its own, through a proxy for each client. client returns the name of
// the client that has opened a connection, "" for one whose way is never broken. Way has the proxy. The server is part of a deployment: one that is
// alone can have a NewProxy for each client.
func Gated(client func(net.Conn) string) Option {
	return func(s *Server) {
		l := listenLocal(s.t)
		g := &gateway{port: l.Addr().(*net.TCPAddr).Port, client: client, proxies: make(map[string]*Proxy)}
		s.gateway = g
		g.running.Go(func() { g.serve(l) })
		s.t.Cleanup(func() {
			_ = l.Close() // it is ours and open: nothing can go wrong that matters
			g.running.Wait()
			for _, p := range g.proxies {
				p.end()
			}
		})
	}
}

func (g *gateway) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil { // closed at the end of the test
			return
		}
		g.running.Go(func() { g.way(g.client(conn)).admit(conn) })
	}
}

// lead has the gateway lead to a server from now on.
func (g *gateway) lead(target string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = target
	for _, p := range g.proxies {
		p.Redirect(target)
	}
}

// way returns the proxy of a client.
func (g *gateway) way(client string) *Proxy {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.proxies[client]
	if p == nil {
		p = newProxy(g.target)
		g.proxies[client] = p
	}
	return p
}

// settings are those by which others name the server by the gateway's port.
func (g *gateway) settings(mode []string) []string {
	port := fmt.Sprint(g.port)
	if len(mode) > 0 {
		return []string{"--sentinel", "announce-ip", host, "--sentinel", "announce-port", port}
	}
	return []string{"--replica-announce-ip", host, "--replica-announce-port", port, "--cluster-announce-ip", host, "--cluster-announce-port", port}
}

// Way is the proxy by which a client reaches the server; nil if it is not Gated.
func (s *Server) Way(client string) *Proxy {
	if s.gateway == nil {
		return nil
	}
	return s.gateway.way(client)
}

// knownPort is the port at which clients and other servers reach the server.
func (s *Server) knownPort() int {
	if s.gateway == nil {
		return s.port
	}
	return s.gateway.port
}

// knownAddr is host:port with that port.
func (s *Server) knownAddr() string { return fmt.Sprintf("%s:%d", host, s.knownPort()) }
