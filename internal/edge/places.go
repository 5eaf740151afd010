package edge

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/task"
)

// networkBits of an address of IPv6 tell one client from another: whoever has one address has all that begin so.
const networkBits = 64

// Places bounds how many places clients take: of streams, of requests that wait, or of bytes. The zero Places has no
// bounds.
type Places struct {
	perAddress int // of one client's network; 0: any number
	all        int // of all clients; 0: any number

	mu    sync.Mutex
	taken map[netip.Prefix]int
	sum   int
}

// NewPlaces returns Places for at most so many of one client, and of all together; 0 is any number.
func NewPlaces(perAddress, all int) *Places { return &Places{perAddress: perAddress, all: all} }

// bound says which limit a client has reached.
type bound int

const (
	boundNone bound = iota
	boundOfAddress
	boundOfAll
)

// enter takes a place for a client, who gives it back with leave; further calls of leave do nothing. If there is none,
// leave is nil, and bound says why.
func (p *Places) enter(from netip.Prefix) (leave func(), _ bound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.perAddress > 0 && p.taken[from] >= p.perAddress:
		return nil, boundOfAddress
	case p.all > 0 && p.sum >= p.all:
		return nil, boundOfAll
	}
	if p.taken == nil {
		p.taken = map[netip.Prefix]int{}
	}
	p.taken[from]++
	p.sum++
	return sync.OnceFunc(func() { p.leave(from) }), boundNone
}

func (p *Places) leave(from netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum--
	if p.taken[from]--; p.taken[from] == 0 {
		delete(p.taken, from)
	}
}

// count is how many places are taken.
func (p *Places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum
}

// networkOf is the address of a client, of IPv6 its network.
func networkOf(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = networkBits
	}
	network, _ := address.Prefix(bits) // the zero one, if there is no address
	return network
}

// clientOf is the address from which a request comes, of IPv6 its network.
func clientOf(r *http.Request) netip.Prefix {
	remote, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero one, if a test has none
	return networkOf(remote.Addr())
}

// addressOf is clientOf as a text: an address, or a network.
func addressOf(r *http.Request) string {
	client := clientOf(r)
	if client.IsSingleIP() {
		return client.Addr().String()
	}
	return client.String()
}

// enterStream takes a place among the streams. Error: CodeTooManyStreams.
func (s *Server) enterStream(c echo.Context) (leave func(), _ error) {
	leave, reached := s.streams.enter(clientOf(c.Request()))
	switch reached {
	case boundOfAddress:
		return nil, task.Errorf(CodeTooManyStreams, "this address follows %d streams of events and logs of this node, "+
			"as many as it may (max-streams-per-address): end one, ask another node, or poll", s.streams.perAddress)
	case boundOfAll:
		return nil, task.Errorf(CodeTooManyStreams, "this node serves %d streams of events and logs, as many as it may "+
			"(max-streams): ask another node, or poll", s.streams.all)
	}
	return leave, nil
}

// Enter takes a place for a request that waits. Whoever serves it calls leave when it waits no longer. Error:
// CodeOverloaded.
func (p *Places) Enter(c echo.Context) (leave func(), _ error) {
	leave, reached := p.enter(clientOf(c.Request()))
	switch reached {
	case boundOfAddress:
		return nil, task.Errorf(task.CodeOverloaded, "this address has %d calls of this kind that wait at this node, "+
			"as many as it may: nothing was done, so try again later", p.perAddress)
	case boundOfAll:
		return nil, task.Errorf(task.CodeOverloaded, "%d calls of this kind wait at this node, as many as may: "+
			"nothing was done, so try again, here or at another node", p.all)
	}
	return leave, nil
}
