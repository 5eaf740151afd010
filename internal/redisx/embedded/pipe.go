package embedded

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// pipe returns the two ends of a connection within the process: data written at one end can be read at the other.
//
// Unlike net.Pipe, it has an unlimited buffer in each direction. Redis needs one: it answers the first command of a
// pipeline before the client has written the last, and it publishes without waiting for its subscribers.
func pipe() (client, server net.Conn) {
	toServer, toClient := newPipeBuffer(), newPipeBuffer()
	return &pipeConn{in: toClient, out: toServer}, &pipeConn{in: toServer, out: toClient}
}

// pipeConn is one end of a pipe.
type pipeConn struct{ in, out *pipeBuffer }

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions. The other end can still read what was written before; this end discards what it has
// not read.
func (c *pipeConn) Close() error {
	c.out.close()
	c.in.discard()
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *pipeConn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *pipeConn) SetWriteDeadline(time.Time) error  { return nil } // a write never waits

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// pipeBuffer holds the unread data of one direction of a pipe. Readers wait on a sync.Cond, because testing/synctest
// counts that as blocked and advances its time.
type pipeBuffer struct {
	mu       sync.Mutex
	changed  sync.Cond
	data     bytes.Buffer
	closed   bool
	deadline time.Time   // of reads; zero means none
	timer    *time.Timer // wakes readers at deadline; nil before the first deadline
}

func newPipeBuffer() *pipeBuffer {
	b := &pipeBuffer{}
	b.changed.L = &b.mu
	return b
}

func (b *pipeBuffer) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data.Len() == 0 && len(p) > 0 {
		if b.closed {
			return 0, io.EOF
		}
		if !b.deadline.IsZero() && !clock.Now().Before(b.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		b.changed.Wait()
	}
	return b.data.Read(p)
}

func (b *pipeBuffer) write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	defer b.changed.Broadcast()
	return b.data.Write(p)
}

// close ends writes. Reads return the remaining data, then io.EOF.
func (b *pipeBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeLocked()
}

// discard closes the buffer and drops the remaining data.
func (b *pipeBuffer) discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data.Reset()
	b.closeLocked()
}

func (b *pipeBuffer) closeLocked() {
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.changed.Broadcast()
}

// setDeadline sets the time at which reads fail with os.ErrDeadlineExceeded. The zero time means never.
func (b *pipeBuffer) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	switch {
	case b.closed:
	case t.IsZero():
		if b.timer != nil {
			b.timer.Stop()
		}
	case b.timer == nil:
		b.timer = time.AfterFunc(clock.Until(t), b.wakeReaders)
	default:
		b.timer.Reset(clock.Until(t))
	}
	b.changed.Broadcast()
}

// wakeReaders makes readers check the deadline. It takes the lock, so that no reader is between its check and its
// wait.
func (b *pipeBuffer) wakeReaders() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed.Broadcast()
}
