package redistest

import (
	"io"
	"net"
	"slices"
	"sync"
)

// link is one client's connection through a Proxy, whose mutex guards the fields that change. Three
// goroutines serve it: listen takes from the client, deliver gives to the server, answer brings the
// server's words back.
type link struct {
	client, server net.Conn

	more    *sync.Cond // signalled when deliver may have something to do
	pending []byte     // taken from the client, not yet on its way to the server
	writing bool       // deliver is writing what it took from pending
	ended   bool       // the client will send no more
	closed  bool
}

func (k *link) undelivered() bool { return !k.closed && (k.writing || len(k.pending) > 0) }

func (k *link) close() {
	k.closed = true
	_ = k.client.Close() // both are on loopback and done with: their errors tell nothing
	_ = k.server.Close()
}

// drop closes a link and forgets it. The mutex is held.
func (p *Proxy) drop(k *link) {
	k.close()
	p.links = slices.DeleteFunc(p.links, func(other *link) bool { return other == k })
	k.more.Signal()
	p.delivered.Broadcast()
}

func (p *Proxy) listen(k *link) {
	buf := make([]byte, 32<<10)
	for {
		n, err := k.client.Read(buf)
		p.mu.Lock()
		k.pending = append(k.pending, buf[:n]...)
		k.ended = err != nil
		k.more.Signal()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// deliver passes on what is pending whenever nothing is held, and the client's goodbye after it.
func (p *Proxy) deliver(k *link) {
	for {
		bytes, more := p.take(k)
		if !more {
			return
		}
		_, err := k.server.Write(bytes)
		p.mu.Lock()
		k.writing = false
		p.delivered.Broadcast()
		if err != nil {
			p.drop(k)
		}
		p.mu.Unlock()
	}
}

// take waits for bytes that may be delivered; false means that no more will come.
func (p *Proxy) take(k *link) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !k.closed && (p.holding || len(k.pending) == 0 && !k.ended) {
		k.more.Wait()
	}
	if k.closed {
		return nil, false
	}
	if len(k.pending) == 0 {
		_ = k.server.(*net.TCPConn).CloseWrite() // if it fails, answer notices
		return nil, false
	}
	bytes := k.pending
	k.pending, k.writing = nil, true
	return bytes, true
}

// answer copies what the server says. A client that has gone does not end the link: the server must be
// able to say its piece while late commands are delivered to it.
func (p *Proxy) answer(k *link) {
	if err := p.copyAnswers(k); err != nil {
		_, _ = io.Copy(io.Discard, k.server)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(k)
}

// copyAnswers returns nil when the server says no more or an answer was dropped, and the error if the client does not listen.
func (p *Proxy) copyAnswers(k *link) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := k.server.Read(buf)
		if err != nil || p.drops() {
			return nil //nolint:nilerr // the server has ended the connection, which is no fault of the client
		}
		if _, err := k.client.Write(buf[:n]); err != nil {
			return err
		}
	}
}
