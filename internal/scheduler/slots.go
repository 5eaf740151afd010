package scheduler

import (
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
)

const (
	foreignTime  = 5 * time.Second        // after which the list of asynq's own servers is read again
	foreignFirst = 500 * time.Millisecond // the same if there is a queue that had a server the last time, or was not asked for
)

// slots knows how many attempts the living workers of each queue can run at once.
type slots struct {
	members Members
	at      time.Time      // of the view that own and nodes come from
	own     map[string]int // of nodes, by queue
	nodes   int            // that lead partitions, or want to
	foreign map[string]int // of asynq's own servers, by queue
	asked   map[string]bool
	read    time.Time // when foreign was read
}

// of returns the slots of a queue. Those of asynq's own servers count if no node serves it.
func (s *slots) of(name string) int {
	s.refresh()
	if n := s.own[name]; n > 0 {
		return n
	}
	return s.foreign[name]
}

func (s *slots) onlyForeign(name string) bool {
	s.refresh()
	return s.own[name] == 0 && s.foreign[name] > 0
}

// leaders is the number of living nodes that lead partitions, or want to.
func (s *slots) leaders() int {
	s.refresh()
	return s.nodes
}

// refresh counts the nodes and their slots again after a heartbeat.
func (s *slots) refresh() {
	view := s.members.View()
	if s.own != nil && view.At.Equal(s.at) {
		return
	}
	s.at, s.own, s.nodes = view.At, make(map[string]int), len(view.Alive(config.RoleScheduler))
	for _, n := range view.Nodes {
		if n.State == cluster.StateAlive && n.Has(config.RoleWorker) {
			for name := range n.Queues {
				s.own[name] += n.Capacity
			}
		}
	}
}

// readAgain reports whether asynq's list of servers is to be read, as no node serves some of the queues.
func (s *slots) readAgain(names []string) bool {
	s.refresh()
	passed := clock.Since(s.read)
	for _, name := range names {
		unknown := !s.asked[name] || s.foreign[name] > 0
		if s.own[name] == 0 && (passed >= foreignTime || unknown && passed >= foreignFirst) {
			return true
		}
	}
	return false
}

func (s *slots) setForeign(names []string, foreign map[string]int) {
	s.foreign, s.read, s.asked = foreign, clock.Now(), make(map[string]bool)
	for _, name := range names {
		s.asked[name] = true
	}
}
