package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// firstRoom is how much room a body gets before anything of it has arrived. It is not counted: connections are
	// bounded.
	firstRoom = 4 << 10

	// readStep is how much of a body may take as long to arrive as the head and the first readStep bytes do together.
	readStep = 64 << 10
)

// receive reads the body of a request into the memory that bodies share, and returns what gives that memory back.
// Nothing else of a request begins before: what has not arrived takes nobody's place. Errors: CodeInvalid,
// codeBodyTooSlow, CodeOverloaded, http.MaxBytesError.
func (s *Server) receive(c echo.Context) ([]byte, func(), error) {
	r := c.Request()
	in := inflow{
		from: r.Body, ctrl: http.NewResponseController(c.Response()), size: r.ContentLength, most: s.bodyLimit(c) + 1,
		step: s.options.ReadTimeout, bodies: s.bodies, limit: s.options.TransferMemory,
	}
	raw, err := in.read()
	if err == nil && len(raw) > readStep { // it may have taken long
		err = supported(in.ctrl.SetWriteDeadline(clock.Now().Add(s.writeLimit())))
	}
	if err != nil {
		in.release()
		return nil, nil, err
	}
	return raw, in.release, nil
}

// inflow reads one body.
type inflow struct {
	from   io.Reader
	ctrl   *http.ResponseController
	size   int64         // -1: the head does not tell
	most   int64         // bytes that there is ever room for
	step   time.Duration // for readStep bytes
	bodies *semaphore.Weighted
	limit  int64 // of bodies
	held   int64 // bytes of that
}

// read reads to the end. Room grows as it is filled: a head that announces much takes none. Whoever sends the body gets
// more time with each readStep that has arrived, which net/http has given for the first.
func (in *inflow) read() ([]byte, error) {
	buf := make([]byte, 0, in.room(firstRoom))
	for next := readStep; ; {
		n, err := in.from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF), err == nil && int64(len(buf)) == in.size:
			return buf, nil
		case err != nil:
			return nil, in.cutShort(err)
		}
		if len(buf) >= next {
			next = len(buf) + readStep
			if err := supported(in.ctrl.SetReadDeadline(clock.Now().Add(in.step))); err != nil {
				return nil, fmt.Errorf("reading a body: %w", err)
			}
		}
		if len(buf) == cap(buf) {
			if buf, err = in.grow(buf); err != nil {
				return nil, err
			}
		}
	}
}

// room is n bytes, or what is needed if that is less.
func (in *inflow) room(n int64) int64 {
	if in.size >= 0 {
		n = min(n, in.size)
	}
	return min(n, in.most)
}

// grow moves a body to where it has room for twice as much. Error: CodeOverloaded.
func (in *inflow) grow(full []byte) ([]byte, error) {
	more := in.room(2*int64(cap(full))) - in.held
	if !in.bodies.TryAcquire(more) {
		return nil, task.Errorf(task.CodeOverloaded, "this node is at its limit of %s of request bodies under way "+
			"(transfer-memory): nothing was done, so try again, here or at another node", config.Size(in.limit))
	}
	in.held += more
	return append(make([]byte, 0, in.held), full...), nil
}

func (in *inflow) release() {
	if in.held > 0 {
		in.bodies.Release(in.held)
		in.held = 0
	}
}

func (in *inflow) cutShort(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &task.Error{Code: codeBodyTooSlow, Err: err, Message: fmt.Sprintf(
			"the body did not arrive in time: the head and the first 64 KiB, and each further 64 KiB, may take %s", in.step)}
	}
	return &task.Error{Code: task.CodeInvalid, Message: "the body did not arrive whole", Err: err}
}

// supported is err, or nil if it says that there are no deadlines, as in some tests.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
