package telemetry

import (
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// SeldomInterval is the least time between two records of what stays as it is until somebody repairs it.
const SeldomInterval = time.Minute

// Seldom keeps a log from saying the same every few seconds. Its zero value is ready for use, by several goroutines.
type Seldom struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// Due reports whether to tell of something: nothing of that name was told within SeldomInterval. It then counts as told
// from now on.
func (s *Seldom) Due(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, told := s.told[name]; told && clock.Since(at) < SeldomInterval {
		return false
	}
	if s.told == nil {
		s.told = make(map[string]time.Time)
	}
	for other, at := range s.told {
		if clock.Since(at) >= SeldomInterval {
			delete(s.told, other)
		}
	}
	s.told[name] = clock.Now()
	return true
}
