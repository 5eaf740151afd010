package api

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/task"
)

const (
	// networkBits of an address of IPv6 tell one client from another: whoever has one address has all that begin so.
	networkBits = 64

	// Limits of calls that wait, each for takeAttempts and for acquireLock. A node has 200 workers, and whoever waits for
	// a lock holds only a connection.
	waitsPerAddress = 1000
	waitsLimit      = 4000
)

// places counts what clients have of something, and bounds it. The zero places has no bounds.
type places struct {
	perAddress int // of one client's network; 0: any number
	all        int // of all clients; 0: any number

	mu    sync.Mutex
	taken map[netip.Prefix]int
	sum   int
}

// waiting are the requests whose answers last.
type waiting struct {
	streams *places // of events and logs
	takes   *places // calls of workers for attempts
	locks   *places // calls that wait for a lock
}

// bound is one that a client has reached.
type bound int

const (
	boundNone bound = iota
	boundOfAddress
	boundOfAll
)

// enter takes a place for a client, who gives it back with leave, as often as it likes. If there is none, leave is nil,
// and the bound is told.
func (p *places) enter(from netip.Prefix) (leave func(), _ bound) {
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

func (p *places) leave(from netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum--
	if p.taken[from]--; p.taken[from] == 0 {
		delete(p.taken, from)
	}
}

// count is how many places are taken.
func (p *places) count() int {
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

// enterStream takes a place among the streams. Error: codeTooManyStreams.
func (e *endpoints) enterStream(c echo.Context) (leave func(), _ error) {
	leave, reached := e.streams.enter(clientOf(c.Request()))
	switch reached {
	case boundOfAddress:
		return nil, task.Errorf(codeTooManyStreams, "this address follows %d streams of events and logs of this node, "+
			"as many as it may (max-streams-per-address): end one, ask another node, or poll", e.streams.perAddress)
	case boundOfAll:
		return nil, task.Errorf(codeTooManyStreams, "this node serves %d streams of events and logs, as many as it may "+
			"(max-streams): ask another node, or poll", e.streams.all)
	}
	return leave, nil
}

// enterWait takes a place among calls that wait. Error: CodeOverloaded.
func enterWait(c echo.Context, p *places) (leave func(), _ error) {
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
