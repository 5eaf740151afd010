package redisx

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a Redis inside the process, in memory only: for trying DTS out, and for tests that travel in time.
// What is in it is gone when it is closed.
type Embedded struct{ server *miniredis.Miniredis }

// StartEmbedded starts one on a free port of the loopback interface.
func StartEmbedded() (*Embedded, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Embedded{server: server}, nil
}

// URL is what Open connects to.
func (e *Embedded) URL() string { return "redis://" + e.server.Addr() + "/0" }

// Close stops it and forgets everything.
func (e *Embedded) Close() { e.server.Close() }
