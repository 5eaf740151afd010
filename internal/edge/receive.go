package edge

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// firstRoom is how much room a body gets before anything of it has arrived. It is not counted: connections are
	// bounded.
	firstRoom = 4 << 10

	// readStep is how much of a body may take as long to arrive as the head and the first readStep bytes do together.
	readStep = 64 << 10
)

// Receive reads the body of a request into the memory that bodies share. The caller calls release when the request has
// been answered, which gives that memory back. Nothing else of a request begins before: what has not arrived takes
// nobody's place. Errors, whose codes CodeOf tells: CodeInvalid, CodeBodyTooSlow, CodeBodyTooLarge, CodeOverloaded.
func (s *Server) Receive(c echo.Context) (raw []byte, release func(), err error) {
	r := c.Request()
	in := inflow{
		body: r.Body, ctrl: http.NewResponseController(c.Response()), size: r.ContentLength, most: s.bodyLimit(c) + 1,
		step: s.options.ReadTimeout, whole: s.options.TransferTimeout, bodies: s.bodies, client: clientOf(r),
	}
	raw, err = in.read()
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
	body   io.Reader
	ctrl   *http.ResponseController
	size   int64         // -1: the head does not tell
	most   int64         // bytes that there is ever room for
	step   time.Duration // for readStep bytes
	whole  time.Duration // for all
	bodies *budget
	client netip.Prefix
	held   int64 // bytes of bodies
}

// read reads to the end. Each part gets room when the one before is full: a head that announces much takes none, and a
// body counts as far as it has arrived, and readStep more at most. Whoever sends it gets more time with each readStep
// that has arrived, which net/http has given for the first, but not more than whole.
func (in *inflow) read() ([]byte, error) {
	end := clock.Now().Add(in.whole)
	var parts [][]byte
	part := make([]byte, 0, in.room(0, firstRoom))
	for total := int64(0); ; {
		n, err := in.body.Read(part[len(part):cap(part)])
		part, total = part[:len(part)+n], total+int64(n)
		switch {
		case errors.Is(err, io.EOF), err == nil && total == in.size:
			return joined(parts, part), nil
		case err != nil:
			return nil, in.cutShort(err)
		case len(part) < cap(part):
			continue
		}
		if total >= readStep {
			if err := supported(in.ctrl.SetReadDeadline(earlier(clock.Now().Add(in.step), end))); err != nil {
				return nil, fmt.Errorf("reading a body: %w", err)
			}
		}
		parts = append(parts, part)
		if part, err = in.next(total); err != nil {
			return nil, err
		}
	}
}

// room is n bytes for what comes after the first total ones, or what is needed if that is less.
func (in *inflow) room(total, n int64) int64 {
	if in.size >= 0 {
		n = min(n, in.size-total)
	}
	return min(n, in.most-total)
}

// next is room for as much as has arrived, up to readStep. Error: CodeOverloaded.
func (in *inflow) next(total int64) ([]byte, error) {
	n := in.room(total, min(total, readStep))
	if !in.bodies.take(in.client, n) {
		return nil, in.bodies.refusal("request bodies under way", "nothing was done, so send less at a time, or try again")
	}
	in.held += n
	return make([]byte, 0, n), nil
}

// joined is the text of a body.
func joined(parts [][]byte, last []byte) []byte {
	if len(parts) == 0 {
		return last
	}
	return slices.Concat(append(parts, last)...)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (in *inflow) release() {
	if in.held > 0 {
		in.bodies.give(in.client, in.held)
		in.held = 0
	}
}

func (in *inflow) cutShort(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &task.Error{Code: CodeBodyTooSlow, Err: err, Message: fmt.Sprintf(
			"the body did not arrive in time: the head and the first 64 KiB, and each further 64 KiB, may take %s, "+
				"and the whole body %s", in.step, in.whole)}
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
