package scheduler

import (
	"math/rand/v2"
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

// wakeLimit is the most nodes that are chosen to take from a queue. For more it is as well to wake all.
const wakeLimit = 16

// choose returns nodes that serve a queue and are likely to have so many free slots together, the freest most often; none to wake all.
func (s *slots) choose(name string, deliveries int) []string {
	var ids []string
	var free []int
	total := 0
	for _, n := range s.members.View().Nodes {
		if _, serves := n.Queues[name]; !serves || n.State != cluster.StateAlive || !n.Has(config.RoleWorker) || n.Running >= n.Capacity {
			continue
		}
		ids, free = append(ids, n.ID), append(free, n.Capacity-n.Running)
		total += n.Capacity - n.Running
	}
	var chosen []string
	for deliveries > 0 && total > 0 {
		if len(chosen) == wakeLimit {
			return nil
		}
		at := pick(free, rand.IntN(total))
		chosen = append(chosen, ids[at])
		deliveries, total, free[at] = deliveries-free[at], total-free[at], 0
	}
	if deliveries > 0 {
		return nil
	}
	return chosen
}

// pick returns the index of the weight in which the nth of all units is, from 0.
func pick(weights []int, n int) int {
	for i, weight := range weights {
		if n < weight {
			return i
		}
		n -= weight
	}
	return len(weights) - 1
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
