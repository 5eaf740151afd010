package store

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	fullFrom  = 0.9         // share of Redis's maxmemory from which on nothing new is taken
	roomStays = time.Second // how long an answer of Redis about its memory is believed
)

// room remembers how full Redis is.
type room struct {
	mu    sync.Mutex
	asked time.Time
	full  bool
}

// Admit refuses submissions while Redis is nearly full: once it is full, workers cannot report and nothing drains.
// Error: CodeUnavailable.
func (s *Store) Admit(ctx context.Context) error {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if s.room.asked.IsZero() || clock.Since(s.room.asked) > roomStays {
		info, err := s.db.Info(ctx, "memory").Result()
		s.room.asked = clock.Now()
		s.room.full = err == nil && nearlyFull(info)
	}
	if s.room.full {
		return task.Errorf(task.CodeUnavailable, "Redis has used more than %.0f %% of its maxmemory: nothing new is taken until there is room", fullFrom*100)
	}
	return nil
}

// nearlyFull reads the answer to INFO memory; without a maxmemory there is no limit to come near to.
func nearlyFull(info string) bool {
	var used, limit float64
	for line := range strings.SplitSeq(info, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			used, _ = strconv.ParseFloat(value, 64)
		case "maxmemory":
			limit, _ = strconv.ParseFloat(value, 64)
		}
	}
	return limit > 0 && used > fullFrom*limit
}
