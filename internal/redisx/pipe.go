package redisx

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// pipe makes a connection within the process: what is written at one end can be read at the other.
//
// Unlike net.Pipe it has a buffer, without a limit, in each direction, as Redis needs one: it answers the first
// command of a pipeline before the client has written the last, and it publishes without waiting for its subscribers.
func pipe() (client, server net.Conn) {
	there, back := newStream(), newStream()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

// pipeEnd is one end of a pipe.
type pipeEnd struct{ in, out *stream }

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }

// Close ends both directions. The other end reads what was written before; what this end has not read is gone.
func (e *pipeEnd) Close() error {
	e.out.end(false)
	e.in.end(true)
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

func (e *pipeEnd) SetDeadline(t time.Time) error     { return e.SetReadDeadline(t) }
func (e *pipeEnd) SetReadDeadline(t time.Time) error { e.in.until(t); return nil }
func (e *pipeEnd) SetWriteDeadline(time.Time) error  { return nil } // a write never waits

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// stream is one direction of a pipe. Whoever waits on a sync.Cond counts as idle in testing/synctest, so time goes on.
type stream struct {
	mu       sync.Mutex
	changed  sync.Cond
	data     bytes.Buffer
	closed   bool
	deadline time.Time // of reads; zero: none
	alarm    *time.Timer
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.data.Len() == 0 && len(p) > 0 {
		if s.closed {
			return 0, io.EOF
		}
		if !s.deadline.IsZero() && !clock.Now().Before(s.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		s.changed.Wait()
	}
	return s.data.Read(p)
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	defer s.changed.Broadcast()
	return s.data.Write(p)
}

func (s *stream) end(forget bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if forget {
		s.data.Reset()
	}
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.changed.Broadcast()
}

// until sets the time at which reads give up.
func (s *stream) until(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	switch {
	case s.closed:
	case t.IsZero():
		if s.alarm != nil {
			s.alarm.Stop()
		}
	case s.alarm == nil:
		s.alarm = time.AfterFunc(clock.Until(t), s.ring)
	default:
		s.alarm.Reset(clock.Until(t))
	}
	s.changed.Broadcast()
}

// ring wakes a read whose deadline may have come. It takes the lock, so that none is between its look and its wait.
func (s *stream) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}
