package scheduler

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"errors"
	"net"
	"sync"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

type dial = func(context.Context) (net.Conn, error)

var errCut = errors.New("the way to Redis is cut")

// way leads one node to Redis, until it is cut.
type way struct {
	redis *redisx.Embedded
	dead  chan struct{} // closed when it is cut

	mu    sync.Mutex
	conns []net.Conn
	trap  *trap
}

// trap cuts the way when a script is run.
type trap struct {
	hash      []byte // of the script
	runs      int    // that pass before
	delivered bool   // the script runs and its answer is lost; else it is lost itself
}

func newWay(redis *redisx.Embedded) *way { return &way{redis: redis, dead: make(chan struct{})} }

func (w *way) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut() {
		return nil, errCut
	}
	c, err := w.redis.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, c)
	return &traced{Conn: c, way: w}, nil
}

func (w *way) isCut() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

// cut closes the way for good.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut() {
		return
	}
	close(w.dead)
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// cutAt cuts the way when a script has run so many times more.
func (w *way) cutAt(script string, runs int, delivered bool) {
	sum := sha1.Sum([]byte(lua.Load(script).Source)) //nolint:gosec // as above
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{hash: []byte(hex.EncodeToString(sum[:])), runs: runs, delivered: delivered}
}

// springs says whether what is about to be sent cuts the way.
func (w *way) springs(p []byte) (now, delivered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trap == nil || !bytes.Contains(p, w.trap.hash) {
		return false, false
	}
	w.trap.runs--
	return w.trap.runs < 0, w.trap.delivered
}

// traced is a connection on which a trap may wait.
type traced struct {
	net.Conn
	way *way
}

func (c *traced) Write(p []byte) (int, error) {
	now, delivered := c.way.springs(p)
	if !now {
		return c.Conn.Write(p)
	}
	if delivered {
		_, _ = c.Conn.Write(p)
	}
	c.way.cut()
	return 0, errCut
}
