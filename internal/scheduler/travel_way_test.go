package scheduler

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/lua"
)

type dial = func(context.Context) (net.Conn, error)

var errCut = errors.New("the way to Redis is cut")

// way leads one node to Redis. It can be cut, for good or for a while, and it can hold up what is sent, so that it
// arrives late, even if its sender has given up by then.
type way struct {
	redis *embedded.Server
	dead  chan struct{} // closed when it is cut for good

	mu     sync.Mutex
	conns  []*traced
	closed bool // nothing passes for now
	held   bool
	queue  []func() // what to do on release, in order
	trap   *trap
}

// trap waits for a script that is about to be sent. It snaps once.
type trap struct {
	hash   []byte
	then   fate
	sprung chan struct{} // closed when it has
}

// fate is what a trap does.
type fate int

const (
	sendLost   fate = iota // the script is lost, and the way cut for good
	answerLost             // the script runs, but the way is cut before the answer
	sendLate               // the script is held up, with all that follows, until release
)

func newWay(redis *embedded.Server) *way { return &way{redis: redis, dead: make(chan struct{})} }

func (w *way) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errCut
	}
	c, err := w.redis.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, &traced{Conn: c, way: w})
	return w.conns[len(w.conns)-1], nil
}

// cut closes the way for good.
func (w *way) cut() {
	w.interrupt()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isCut() {
		close(w.dead)
	}
}

func (w *way) isCut() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

// interrupt closes the way, and what was held up with it, until mend.
func (w *way) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.held, w.queue, w.trap = true, false, nil, nil
	for _, c := range w.conns {
		_ = c.Conn.Close()
	}
	w.conns = nil
}

func (w *way) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = false
}

// hold keeps what is sent from now on until release. Answers to what was sent before still come.
func (w *way) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// release lets through what was held up, in order, and takes away the trap.
func (w *way) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, do := range w.queue {
		do()
	}
	w.held, w.queue, w.trap = false, nil, nil
}

// lay lays a trap and answers a channel that is closed when it has snapped.
func (w *way) lay(script string, then fate) <-chan struct{} {
	sum := sha1.Sum([]byte(lua.ByName(script).Source)) //nolint:gosec // as above
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{hash: []byte(hex.EncodeToString(sum[:])), then: then, sprung: make(chan struct{})}
	return w.trap.sprung
}

// springs is the trap that what is about to be sent walks into, if it does.
func (w *way) springs(p []byte) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.trap
	if t == nil || !bytes.Contains(p, t.hash) {
		return nil
	}
	w.trap, w.held = nil, t.then == sendLate
	close(t.sprung)
	return t
}

// postpones has something done on release, if what is sent is held up.
func (w *way) postpones(do func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		w.queue = append(w.queue, do)
	}
	return w.held
}

// traced is a connection on its way.
type traced struct {
	net.Conn
	way *way
}

func (c *traced) Write(p []byte) (int, error) {
	if t := c.way.springs(p); t != nil && t.then != sendLate {
		if t.then == answerLost {
			_, _ = c.Conn.Write(p)
		}
		c.way.cut()
		return 0, errCut
	}
	sent := slices.Clone(p)
	if c.way.postpones(func() { _, _ = c.Conn.Write(sent) }) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *traced) Close() error {
	if c.way.postpones(func() { _ = c.Conn.Close() }) {
		return nil
	}
	return c.Conn.Close()
}
